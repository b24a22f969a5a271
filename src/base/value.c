/* SPDX-License-Identifier: Apache-2.0
 * See value.h.
 */
#include "base/value.h"

#include "base/str.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool value_number(const char *text, int64_t min, int64_t max, int *ret, struct err *err)
{
    int64_t value;
    bool fits = str_to_i64(text, min, max, &value);
    if (!fits && str_is_whole(text))
        return err_set(err, ERR_USAGE, 0, "%.80s is out of range (%" PRId64 " to %" PRId64 ")",
                       text, min, max);
    if (!fits)
        return err_set(err, ERR_USAGE, 0,
                       "%.80s is not a whole number from %" PRId64 " to %" PRId64,
                       *text ? text : "\"\"", min, max);
    *ret = (int)value;
    return true;
}

bool value_choice(const char *text, const char *const *choices, int *ret, struct err *err)
{
    char all[192] = "";
    for (int i = 0; choices[i]; i++) {
        if (str_is(choices[i], text)) {
            *ret = i;
            return true;
        }
        str_addf(all, sizeof all, "%s%s", i > 0 ? ", " : "", choices[i]);
    }
    return err_set(err, ERR_USAGE, 0, "\"%.80s\" is not one of %s", text, all);
}

bool value_duration(const char *text, int64_t min, int64_t max, int64_t *ret, struct err *err)
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

enum { DIGITS_MAX = 18 };

/* A size without a unit is ambiguous, so it is refused. */
static const char units[] = "BKMGT";

static bool read_size(const char *text, int64_t *ret)
{
    size_t digits = strspn(text, STR_DIGITS);
    const char *unit = text[digits] ? strchr(units, text[digits]) : NULL;
    if (digits == 0 || digits > DIGITS_MAX)
        return false;
    *ret = strtoll(text, NULL, 10);
    if (!text[digits])
        return *ret == 0;
    if (!unit || text[digits + 1])
        return false;
    for (const char *at = units; at < unit; at++)
        *ret = *ret > INT64_MAX / 1024 ? INT64_MAX : *ret * 1024;
    return true;
}

bool value_size(const char *text, int64_t min, int64_t max, int64_t *ret, struct err *err)
{
    char least[32], most[32];
    int64_t value;
    if (!read_size(text, &value))
        return err_set(err, ERR_USAGE, 0,
                       "\"%.80s\" is not a size; write a whole number and its unit (B, K, M, G or "
                       "T), as in \"64M\"",
                       text);
    if (value < min || value > max)
        return err_set(err, ERR_USAGE, 0, "\"%.80s\" is out of range (%s to %s)", text,
                       value_size_text(min, least, sizeof least),
                       value_size_text(max, most, sizeof most));
    *ret = value;
    return true;
}

char *value_size_text(int64_t bytes, char *text, size_t size)
{
    size_t i = 0;
    while (bytes > 0 && bytes % 1024 == 0 && units[i + 1]) {
        bytes /= 1024;
        i++;
    }
    snprintf(text, size, "%" PRId64 "%.*s", bytes, bytes > 0, &units[i]);
    return text;
}

/* "2" or "64-78" */
static bool read_range(const char *text, int64_t *ret_first, int64_t *ret_last)
{
    char first[8];
    size_t len = strcspn(text, "-");
    if (len >= sizeof first)
        return false;
    snprintf(first, sizeof first, "%.*s", (int)len, text);
    return str_to_i64(first, 1, VALUE_CODES_MAX - 1, ret_first) &&
           str_to_i64(text[len] ? text + len + 1 : first, *ret_first, VALUE_CODES_MAX - 1,
                      ret_last);
}

bool value_codes(char *const *list, bool codes[VALUE_CODES_MAX], struct err *err)
{
    int64_t first, last;
    for (; *list; list++) {
        if (!read_range(*list, &first, &last))
            return err_set(err, ERR_USAGE, 0,
                           "'%s' is not an exit code or a range of them, such as 3 or 64-78 (1 to "
                           "255)",
                           *list);
        for (int64_t code = first; code <= last; code++)
            codes[code] = true;
    }
    return true;
}
