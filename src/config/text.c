/* SPDX-License-Identifier: Apache-2.0
 * See text.h.
 */
#include "config/text.h"

#include "base/str.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool text_check(const char *text, int64_t min, int64_t max, struct err *err)
{
    size_t len = strlen(text);
    if (len == 0 && min > 0)
        return err_set(err, ERR_USAGE, 0,
                       "the value is empty; allowed are %" PRId64 " to %" PRId64 " bytes", min,
                       max);
    if (len < (size_t)min || len > (size_t)max)
        return err_set(err, ERR_USAGE, 0,
                       "\"%.80s\" has %zu bytes; allowed are %" PRId64 " to %" PRId64, text, len,
                       min, max);
    for (const char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return err_set(err, ERR_USAGE, 0, "\"%.80s\" holds a control character", text);
    return true;
}

bool text_check_utf8(const char *text, struct err *err)
{
    /* Texts go into JSON files and are compared between nodes; only paths may be any bytes. */
    return str_is_utf8(text) || err_set(err, ERR_USAGE, 0, "\"%.80s\" is not UTF-8", text);
}

char *text_absolute(const char *folder, const char *path)
{
    if (path[0] == '/')
        return strdup(path);
    while (path[0] == '.' && path[1] == '/')
        path += 1 + strspn(path + 1, "/");
    char *here = folder ? strdup(folder) : getcwd(NULL, 0);
    char *whole = NULL;
    if (here && asprintf(&whole, "%s%s%s", here, str_is(here, "/") ? "" : "/", path) < 0)
        whole = NULL;
    free(here);
    return whole;
}
