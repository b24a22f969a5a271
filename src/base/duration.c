/* SPDX-License-Identifier: Apache-2.0
 * See duration.h.
 */
#include "base/duration.h"

#include "base/str.h"

bool duration_parse(const char *text, int64_t min, int64_t max, int64_t *ret, struct err *err)
{
    char least[32], most[32];
    int64_t value;
    if (!str_to_duration(text, &value))
        return err_set(err, ERR_USAGE, 0,
                       "\"%.80s\" is not a duration; write a number and its unit (ms, s, m, h or "
                       "d), as in \"25s\"",
                       text);
    if (value < min || value > max)
        return err_set(err, ERR_USAGE, 0, "\"%.80s\" is out of range (%s to %s)", text,
                       str_duration(min, least, sizeof least),
                       str_duration(max, most, sizeof most));
    *ret = value;
    return true;
}
