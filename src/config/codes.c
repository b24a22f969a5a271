/* SPDX-License-Identifier: Apache-2.0
 * See codes.h.
 */
#include "config/codes.h"

#include <ctype.h>
#include <stdlib.h>

/* 1 … 255. */
static bool read_code(const char **text, long *ret)
{
    char *end;
    if (!isdigit((unsigned char)**text))
        return false;
    *ret = strtol(*text, &end, 10);
    *text = end;
    return *ret >= 1 && *ret < CODES_MAX;
}

static bool read_range(const char *text, long *ret_first, long *ret_last)
{
    if (!read_code(&text, ret_first))
        return false;
    *ret_last = *ret_first;
    if (*text == '-') {
        text++;
        if (!read_code(&text, ret_last))
            return false;
    }
    return *text == '\0' && *ret_first <= *ret_last;
}

static bool read_item(const char *text, long *ret_first, long *ret_last, struct err *err)
{
    return read_range(text, ret_first, ret_last) ||
           err_set(err, ERR_USAGE, 0,
                   "'%s' is no exit code and no range of them, such as 3 or 64-78 (1 to 255)",
                   text);
}

bool codes_check(const char *text, struct err *err)
{
    long first = 0, last = 0;
    return read_item(text, &first, &last, err);
}

bool codes_read(char *const *list, bool codes[CODES_MAX], struct err *err)
{
    long first = 0, last = 0;
    for (; *list; list++) {
        if (!read_item(*list, &first, &last, err))
            return false;
        for (long code = first; code <= last; code++)
            codes[code] = true;
    }
    return true;
}
