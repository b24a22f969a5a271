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

/* A size without a unit is ambiguous, so it is refused. */
static const char units[] = "BKMGT";

static bool read_size(const char *text, int64_t *ret)
{
    char digits[19], unit[2] = "";
    int len = 0;
    if (sscanf(text, "%18[0-9]%n%1[BKMGT]%n", digits, &len, unit, &len) < 1 || text[len])
        return false;
    *ret = strtoll(digits, NULL, 10);
    if (!unit[0])
        return *ret == 0;
    for (const char *at = units; *at != unit[0]; at++)
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

/* ---- names ---- */

/* How many letters of a name are compared; all known names are shorter. */
enum { DISTANCE_MAX = 64 };

unsigned nearest_distance(const char *a, const char *b)
{
    size_t na = strnlen(a, DISTANCE_MAX), nb = strnlen(b, DISTANCE_MAX);
    unsigned row[DISTANCE_MAX + 1];
    for (size_t j = 0; j <= nb; j++)
        row[j] = (unsigned)j;
    for (size_t i = 1; i <= na; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= nb; j++) {
            unsigned best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[nb];
}

/* Suggests a name if at most a quarter of its letters, and one more, differ. */
struct nearest nearest_to(const char *typed)
{
    return (struct nearest){.typed = typed,
                            .distance = 2 + (unsigned)strnlen(typed, DISTANCE_MAX) / 4};
}

/* True if the last parts of both are equal: "port" and "procs.port" suggest "cluster.port". */
static bool has_same_end(const char *typed, const char *name)
{
    const char *point = strrchr(typed, '.');
    const char *end = point ? point + 1 : typed;
    size_t n = strlen(name), m = strlen(end);
    return m > 0 && n > m && strchr(".-_", name[n - m - 1]) && str_is(name + n - m, end);
}

/* True if the name goes on after what was typed: "log" suggests "log-level". */
static bool goes_on(const char *typed, const char *name)
{
    size_t n = strlen(typed);
    return n > 0 && str_starts(name, typed) && name[n] && strchr(".-_", name[n]);
}

void nearest_consider(struct nearest *nearest, const char *prefix, const char *name)
{
    unsigned distance = nearest_distance(nearest->typed, name);
    if (distance > 1 && has_same_end(nearest->typed, name))
        distance = 1;
    if (goes_on(nearest->typed, name))
        distance = 0;
    if (distance >= nearest->distance)
        return;
    nearest->distance = distance;
    snprintf(nearest->name, sizeof nearest->name, "%s%s", prefix, name);
}
