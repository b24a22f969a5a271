/* SPDX-License-Identifier: Apache-2.0
 * See promtext.h.
 */
#include "base/promtext.h"

#include "base/str.h"

void promtext_label(char *dst, size_t size, const char *name, const char *value)
{
    str_addf(dst, size, "%s%s=\"", dst[0] ? "," : "", name);
    for (unsigned len; *value; value += len > 0 ? len : 1) {
        len = str_utf8_len(value);
        if (*value == '\n')
            str_addf(dst, size, "\\n");
        else if (*value == '"' || *value == '\\')
            str_addf(dst, size, "\\%c", *value);
        else
            str_addf(dst, size, "%.*s", len > 0 ? (int)len : 1, len > 0 ? value : "?");
    }
    str_addf(dst, size, "\"");
}

void promtext_begin(struct promtext *text, FILE *out, const char *job, int node)
{
    *text = (struct promtext){.out = out};
    promtext_label(text->who, sizeof text->who, "name", job);
    str_addf(text->who, sizeof text->who, ",node=\"%d\"", node);
}

void promtext_metric(struct promtext *text, const char *type, const char *name, const char *help)
{
    fprintf(text->out, "# HELP pchrun_%s %s\n# TYPE pchrun_%s %s\n", name, help, name, type);
}

void promtext_head(struct promtext *text, const char *name, const char *help)
{
    promtext_metric(text, "gauge", name, help);
}

void promtext_sample(struct promtext *text, const char *name, const char *more, double value)
{
    fprintf(text->out, "pchrun_%s{%s%s%s} %.15g\n", name, text->who, *more ? "," : "", more, value);
}

void promtext_gauge(struct promtext *text, const char *name, const char *help, double value)
{
    promtext_head(text, name, help);
    promtext_sample(text, name, "", value);
}

void promtext_counter(struct promtext *text, const char *name, const char *help, double value)
{
    promtext_metric(text, "counter", name, help);
    promtext_sample(text, name, "", value);
}
