/* SPDX-License-Identifier: Apache-2.0
 * See healthline.h.
 */
#include "health/healthline.h"

#include "base/str.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* The last line that is not empty. */
static const char *answer_line(const char *text, size_t len, size_t *ret_len)
{
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == ' ' || text[len - 1] == '\r'))
        len--;
    const char *before = len ? memrchr(text, '\n', len) : NULL;
    const char *line = before ? before + 1 : text;
    *ret_len = len - (size_t)(line - text);
    return line;
}

static bool read_line(const void *text, size_t all, struct health_answer *ret)
{
    size_t len;
    struct err err;
    bool is_healthy = true;
    const char *line = answer_line(text, all, &len);
    JSON_CLEANUP struct json *root = len ? json_read("its line", line, len, &err) : NULL;
    if (!root || !json_bool(json_find(root, "healthy"), &is_healthy) || is_healthy)
        return false;
    str_fit(ret->component, sizeof ret->component, json_text_at(root, "component"));
    str_fit(ret->text, sizeof ret->text, json_text_at(root, "text"));
    str_printable(ret->component);
    str_printable(ret->text);
    return true;
}

void healthline_read(int status, const char *how, const void *text, size_t len,
                     struct health_answer *ret)
{
    bool has_code = status >= 0 && WIFEXITED(status);
    *ret = (struct health_answer){.verdict = HEALTH_UNKNOWN};
    if (has_code && WEXITSTATUS(status) == 0) {
        ret->verdict = HEALTH_GOOD;
    } else if (has_code && WEXITSTATUS(status) == 1 && read_line(text, len, ret)) {
        ret->verdict = HEALTH_BAD;
        if (!ret->component[0] && !ret->text[0])
            str_copy(ret->text, sizeof ret->text, "the check names no reason");
    } else {
        *ret = (struct health_answer){.verdict = HEALTH_UNKNOWN};
        str_fit(ret->text, sizeof ret->text, how);
        if (has_code && WEXITSTATUS(status) == 1)
            str_addf(ret->text, sizeof ret->text, ", without a line that says \"healthy\": false");
    }
}

char *healthline_describe(const struct health_answer *answer, char *text, size_t size)
{
    bool has_both = answer->component[0] && answer->text[0];
    snprintf(text, size, "%s%s%s", answer->component, has_both ? ": " : "", answer->text);
    return text;
}
