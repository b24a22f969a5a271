/* SPDX-License-Identifier: Apache-2.0
 * See strikes.h.
 */
#include "record/strikes.h"

#include "base/clock.h"
#include "base/str.h"

#include <string.h>

/* Programs put these names into lists with commas, and into commands. */
static bool is_host(const char *name)
{
    return name && name[0] != '-' && str_is_of(name, STR_LETTERS STR_DIGITS ".-_");
}

/* Takes the host out of the list, or makes a new strike; makes room for it at the end. */
static struct strike strikes_take(struct strikes *strikes, const char *host)
{
    struct strike taken = {0};
    int i = 0;
    while (i < strikes->n && !str_is(strikes->list[i].host, host))
        i++;
    if (i < strikes->n)
        taken = strikes->list[i];
    else
        str_copy(taken.host, sizeof taken.host, host);
    if (i == STRIKES_HOSTS)
        i = 0;
    if (i < strikes->n)
        memmove(strikes->list + i, strikes->list + i + 1,
                (size_t)(--strikes->n - i) * sizeof strikes->list[0]);
    return taken;
}

void strikes_add(struct strikes *strikes, const char *host, const char *text, int64_t at)
{
    if (!is_host(host))
        return;
    struct strike strike = strikes_take(strikes, host);
    strike.count++;
    strike.at = at;
    str_fit(strike.text, sizeof strike.text, text);
    strikes->list[strikes->n++] = strike;
    strikes->has_new = true;
}

void strikes_read(struct strikes *strikes, const struct json *root)
{
    const struct json *item = json_items_at(root, "strikes");
    *strikes = (struct strikes){0};
    for (; item && strikes->n < STRIKES_HOSTS; item = json_next(item)) {
        struct strike *strike = &strikes->list[strikes->n];
        const char *host = json_text_at(item, "host");
        *strike = (struct strike){.count = json_int_at(item, "count", 0),
                                  .at = json_int_at(item, "at_ns", 0)};
        str_fit(strike->text, sizeof strike->text, json_text_at(item, "text"));
        if (is_host(host) && str_copy(strike->host, sizeof strike->host, host) &&
            strike->count > 0 && strike->count < INT32_MAX && strike->at >= 0)
            strikes->n++;
    }
}

void strikes_write(const struct strikes *strikes, struct writer *w)
{
    char at[40];
    writer_list(w, "strikes");
    for (int i = 0; i < strikes->n; i++) {
        const struct strike *strike = &strikes->list[i];
        writer_object(w, NULL);
        writer_text(w, "host", strike->host);
        writer_int(w, "count", strike->count);
        writer_int(w, "at_ns", strike->at);
        writer_text(w, "at", clock_iso8601(strike->at, at, sizeof at));
        writer_text(w, "text", strike->text);
        writer_end(w);
    }
    writer_end(w);
}

char *strikes_hosts(const struct strikes *strikes, int64_t since, char *text, size_t size)
{
    text[0] = '\0';
    for (int i = strikes->n - 1; i >= 0; i--) {
        const struct strike *strike = &strikes->list[i];
        size_t len = strlen(text);
        if (strike->at >= since && len + strlen(strike->host) + 2 <= size)
            str_addf(text, size, "%s%s", len ? "," : "", strike->host);
    }
    return text;
}
