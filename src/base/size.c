/* SPDX-License-Identifier: Apache-2.0
 * See size.h.
 */
#include "base/size.h"

#include "base/str.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { DIGITS_MAX = 18 };

/* A number without a unit is ambiguous, so it is refused. */
static const char units[] = "BKMGT";

static bool read_size(const char *text, int64_t *ret)
{
    char number[DIGITS_MAX + 1] = "";
    size_t digits = strspn(text, "0123456789");
    const char *unit = text[digits] ? strchr(units, text[digits]) : NULL;
    if (digits == 0 || digits > DIGITS_MAX)
        return false;
    memcpy(number, text, digits);
    if (!str_to_i64(number, 0, INT64_MAX, ret))
        return false;
    if (!text[digits])
        return *ret == 0;
    if (!unit || text[digits + 1])
        return false;
    for (const char *at = units; at < unit; at++)
        *ret = *ret > INT64_MAX / 1024 ? INT64_MAX : *ret * 1024;
    return true;
}

bool size_parse(const char *text, int64_t min, int64_t max, int64_t *ret, struct err *err)
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
                       size_text(min, least, sizeof least), size_text(max, most, sizeof most));
    *ret = value;
    return true;
}

char *size_text(int64_t bytes, char *text, size_t size)
{
    size_t i = 0;
    while (bytes > 0 && bytes % 1024 == 0 && units[i + 1]) {
        bytes /= 1024;
        i++;
    }
    snprintf(text, size, "%" PRId64 "%.*s", bytes, bytes > 0, &units[i]);
    return text;
}
