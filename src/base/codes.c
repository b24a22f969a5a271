/* SPDX-License-Identifier: Apache-2.0
 * See codes.h.
 */
#include "base/codes.h"

#include "base/str.h"

#include <stdio.h>
#include <string.h>

/* "2" or "64-78" */
static bool read_range(const char *text, int64_t *ret_first, int64_t *ret_last)
{
    char first[8];
    size_t len = strcspn(text, "-");
    if (len >= sizeof first)
        return false;
    snprintf(first, sizeof first, "%.*s", (int)len, text);
    return str_to_i64(first, 1, CODES_MAX - 1, ret_first) &&
           str_to_i64(text[len] ? text + len + 1 : first, *ret_first, CODES_MAX - 1, ret_last);
}

bool codes_read(char *const *list, bool codes[CODES_MAX], struct err *err)
{
    int64_t first, last;
    for (; *list; list++) {
        if (!read_range(*list, &first, &last))
            return err_set(err, ERR_USAGE, 0,
                           "'%s' is no exit code and no range of them, such as 3 or 64-78 (1 to "
                           "255)",
                           *list);
        for (int64_t code = first; code <= last; code++)
            codes[code] = true;
    }
    return true;
}
