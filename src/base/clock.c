/* SPDX-License-Identifier: Apache-2.0
 * See clock.h.
 */
#include "base/clock.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SPACE " \t\r\n"
#define DAY_S (24 * 3600)

char *clock_iso8601(int64_t real_ns, char *text, size_t size)
{
    time_t s = (time_t)(real_ns / NS_PER_S);
    struct tm tm;
    gmtime_r(&s, &tm);
    char date[32];
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(text, size, "%s.%03dZ", date, (int)(real_ns % NS_PER_S / NS_PER_MS));
    return text;
}

/* ---- dates ---- */

/* strptime(3) reads the parts, in the C locale. It also accepts fewer digits than the formats have,
 * and a month's full name. So the length is checked, too. */

static const char *read_rfc3339(const char *text, struct tm *tm)
{
    static const char *const formats[] = {"%Y-%m-%dT%T", "%Y-%m-%dt%T", "%Y-%m-%d %T", NULL};
    for (const char *const *format = formats; *format; format++)
        if (strptime(text, *format, tm) == text + strlen("2026-04-11T22:26:58"))
            return text + strlen("2026-04-11T22:26:58");
    return NULL;
}

static const char *read_rfc1123(const char *text, struct tm *tm)
{
    const char *day = strptime(text, "%a, ", tm);
    const char *end = strptime(day ? day : text, "%d %b %Y %T", tm);
    const char *month = strchr(day ? day : text, ' ');
    return end && month && end == month + strlen(" Apr 2026 22:26:58") ? end : NULL;
}

static const char *read_fraction(const char *at, int64_t *ret)
{
    *ret = 0;
    if (*at != '.')
        return at;
    if (!isdigit((unsigned char)*++at))
        return NULL;
    for (int64_t worth = NS_PER_S / 10; isdigit((unsigned char)*at); worth /= 10)
        *ret += worth * (*at++ - '0');
    return at;
}

/* Reads "+02:00", "-0500", or a word for UTC. Hours without minutes are refused. */
static const char *read_zone(const char *at, struct tm *tm)
{
    static const char *const words[] = {"GMT", "UTC", "Z", NULL};
    at += strspn(at, " ");
    for (const char *const *word = words; *word; word++)
        if (strncasecmp(at, *word, strlen(*word)) == 0)
            return at + strlen(*word);
    const char *end = *at == '+' || *at == '-' ? strptime(at, "%z", tm) : NULL;
    bool is_zone = end && end - at >= (int)strlen("-0500") && labs(tm->tm_gmtoff) < DAY_S;
    return is_zone ? end : NULL;
}

int64_t date_from_seconds(int64_t seconds)
{
    if (seconds < 0)
        return 0;
    return seconds < INT64_MAX / NS_PER_S ? seconds * NS_PER_S : INT64_MAX;
}

/* timegm() turns 30 February into 1 or 2 March; so a changed date is invalid. */
static bool to_ns(const struct tm *tm, int64_t fraction_ns, int64_t *ret)
{
    bool is_leap_second = tm->tm_sec == 60;
    struct tm made = *tm;
    made.tm_sec -= is_leap_second;
    int64_t seconds = timegm(&made) + is_leap_second;
    if (made.tm_mday != tm->tm_mday || made.tm_sec != tm->tm_sec - is_leap_second)
        return false;
    *ret = date_from_seconds(seconds - tm->tm_gmtoff);
    if (*ret > 0 && *ret < INT64_MAX)
        *ret += fraction_ns;
    return true;
}

bool date_parse(const char *text, int64_t *ret)
{
    struct tm tm = {0};
    int64_t fraction_ns = 0;
    text += strspn(text, SPACE);
    const char *at = read_rfc3339(text, &tm);
    at = at ? read_fraction(at, &fraction_ns) : read_rfc1123(text, &tm);
    at = at ? read_zone(at, &tm) : NULL;
    return at && !at[strspn(at, SPACE)] && to_ns(&tm, fraction_ns, ret);
}
