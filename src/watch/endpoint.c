/* SPDX-License-Identifier: Apache-2.0
 * See endpoint.h.
 */
#include "watch/endpoint.h"

#include "base/address.h"
#include "base/fd.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Checks and completes an address. `where` says in errors where it comes from. */
static bool build(const char *text, const char *where, char ret[ENDPOINT_MAX], struct err *err)
{
    static const char scheme[] = "http://";
    char host[ENDPOINT_MAX], at[ADDRESS_TEXT_MAX];
    struct address address;
    if (str_starts(text, "https://"))
        return err_set(err, ERR_USAGE, 0, "%s is \"%.100s\": but metadata services need plain http",
                       where, text);
    bool fits = str_copy(host, sizeof host, text + (str_starts(text, scheme) ? strlen(scheme) : 0));
    size_t len = strlen(host);
    if (len > 0 && host[len - 1] == '/')
        host[len - 1] = '\0';
    if (!fits || !host[0] || strpbrk(host, "/?#@\\ \t\r\n") ||
        !address_parse(host, 80, &address, err))
        return err_set(err, ERR_USAGE, 0,
                       "%s is \"%.100s\", which is not an address; write http://HOST or "
                       "http://HOST:PORT",
                       where, text);
    snprintf(ret, ENDPOINT_MAX, "%s%s", scheme, address_text(&address, at));
    return true;
}

static bool read_dmi(const char *dmi, const char *file, char *line, size_t size)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dmi, file);
    return fd_read_line(path, line, size);
}

/* False: the firmware names another maker. */
static bool is_here(const struct endpoint_rule *rule, const char *dmi, struct err *err)
{
    char line[128];
    for (const struct endpoint_mark *mark = rule->marks; mark->file; mark++)
        if (read_dmi(dmi, mark->file, line, sizeof line) && strcasestr(line, mark->word))
            return true;
    if (!read_dmi(dmi, "sys_vendor", line, sizeof line))
        return true;
    return err_set(err, ERR_NOT_FOUND, 0,
                   "this machine is not %s: %s/sys_vendor says \"%s\". To ask anyway, give "
                   "--endpoint http://ADDRESS",
                   rule->owner, dmi, line);
}

bool endpoint_find(const struct endpoint_rule *rule, const char *option, const char *dmi,
                   char ret[ENDPOINT_MAX], struct err *err)
{
    if (option)
        return build(option, "--endpoint", ret, err);
    for (size_t i = 0; i < ARRAY_LEN(rule->variables) && rule->variables[i]; i++) {
        const char *value = getenv(rule->variables[i]);
        if (value && *value)
            return build(value, rule->variables[i], ret, err);
    }
    return build(rule->fallback, "the usual address", ret, err) && is_here(rule, dmi, err);
}
