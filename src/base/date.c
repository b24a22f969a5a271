/* SPDX-License-Identifier: Apache-2.0
 * See date.h.
 */
#include "base/date.h"

#include "base/clock.h"
#include "base/str.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>
#include <time.h>

struct moment {
    struct tm tm;
    int64_t fraction_ns, offset_s;
};

/* Between `min` and `max` digits. */
static bool take_number(const char **at, int min, int max, int *ret)
{
    int n = 0, value = 0;
    while (n < max && isdigit((unsigned char)(*at)[n]))
        value = value * 10 + ((*at)[n++] - '0');
    *at += n;
    *ret = value;
    return n >= min;
}

static bool take_char(const char **at, const char *allowed)
{
    if (!**at || !strchr(allowed, **at))
        return false;
    ++*at;
    return true;
}

static void skip_spaces(const char **at)
{
    while (isspace((unsigned char)**at))
        ++*at;
}

static bool date_take_word(const char **at, const char *word)
{
    size_t len = strlen(word);
    if (strncasecmp(*at, word, len) != 0 || isalpha((unsigned char)(*at)[len]))
        return false;
    *at += len;
    return true;
}

static bool take_time(const char **at, struct moment *m)
{
    return take_number(at, 2, 2, &m->tm.tm_hour) && take_char(at, ":") &&
           take_number(at, 2, 2, &m->tm.tm_min) && take_char(at, ":") &&
           take_number(at, 2, 2, &m->tm.tm_sec);
}

static bool take_fraction(const char **at, struct moment *m)
{
    if (!take_char(at, "."))
        return true;
    int digits = 0;
    for (int64_t worth = NS_PER_S / 10; isdigit((unsigned char)**at); worth /= 10, digits++)
        m->fraction_ns += worth * (*(*at)++ - '0');
    return digits > 0;
}

/* "+02:00", "-0500", or a word for UTC. */
static bool take_zone(const char **at, struct moment *m)
{
    int hours, minutes, sign = **at == '-' ? -1 : 1;
    if (date_take_word(at, "Z") || date_take_word(at, "GMT") || date_take_word(at, "UTC"))
        return true;
    if (!take_char(at, "+-") || !take_number(at, 2, 2, &hours))
        return false;
    if (**at == ':')
        ++*at;
    if (!take_number(at, 2, 2, &minutes) || hours > 23 || minutes > 59)
        return false;
    m->offset_s = sign * (hours * 3600 + minutes * 60);
    return true;
}

static bool read_rfc3339(const char **at, struct moment *m)
{
    if (!take_number(at, 4, 4, &m->tm.tm_year) || !take_char(at, "-") ||
        !take_number(at, 2, 2, &m->tm.tm_mon) || !take_char(at, "-") ||
        !take_number(at, 2, 2, &m->tm.tm_mday) || !take_char(at, "Tt "))
        return false;
    return take_time(at, m) && take_fraction(at, m) && take_zone(at, m);
}

static bool take_month(const char **at, int *ret)
{
    static const char *const names[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    for (*ret = 1; *ret <= 12; ++*ret)
        if (date_take_word(at, names[*ret - 1]))
            return true;
    return false;
}

static bool read_rfc1123(const char **at, struct moment *m)
{
    if (isalpha((unsigned char)**at)) {
        for (int i = 0; i < 3; i++)
            if (!isalpha((unsigned char)*(*at)++))
                return false;
        if (!take_char(at, ","))
            return false;
        skip_spaces(at);
    }
    if (!take_number(at, 1, 2, &m->tm.tm_mday) || !take_char(at, " ") ||
        !take_month(at, &m->tm.tm_mon) || !take_char(at, " ") ||
        !take_number(at, 4, 4, &m->tm.tm_year) || !take_char(at, " ") || !take_time(at, m))
        return false;
    skip_spaces(at);
    return take_zone(at, m);
}

int64_t date_from_seconds(int64_t seconds)
{
    if (seconds < 0)
        return 0;
    return seconds < INT64_MAX / NS_PER_S ? seconds * NS_PER_S : INT64_MAX;
}

/* timegm() turns 30 February into 1 or 2 March; so a changed date is invalid. */
static bool to_ns(struct moment *m, int64_t *ret)
{
    bool is_leap_second = m->tm.tm_sec == 60;
    m->tm.tm_sec -= is_leap_second;
    m->tm.tm_year -= 1900;
    m->tm.tm_mon -= 1;
    struct tm made = m->tm;
    int64_t seconds = timegm(&made);
    if (made.tm_mon != m->tm.tm_mon || made.tm_mday != m->tm.tm_mday ||
        made.tm_hour != m->tm.tm_hour || made.tm_min != m->tm.tm_min || made.tm_sec != m->tm.tm_sec)
        return false;
    *ret = date_from_seconds(seconds + is_leap_second - m->offset_s);
    if (*ret > 0 && *ret < INT64_MAX)
        *ret += m->fraction_ns;
    return true;
}

bool date_parse(const char *text, int64_t *ret)
{
    static bool (*const formats[])(const char **, struct moment *) = {read_rfc3339, read_rfc1123};
    skip_spaces(&text);
    for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
        struct moment m = {0};
        const char *at = text;
        if (!formats[i](&at, &m))
            continue;
        skip_spaces(&at);
        return !*at && to_ns(&m, ret);
    }
    return false;
}
