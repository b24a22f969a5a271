/* SPDX-License-Identifier: Apache-2.0
 *
 * clock: time as nanoseconds in 64 bits, and dates. Deadlines use the monotonic clock only; the
 * real-time clock is for people (log lines, reports). Any thread; the clocks cannot fail on Linux.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)

/* Means "no deadline": later than any time. */
#define CLOCK_NEVER INT64_MAX

static inline int64_t clock_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

static inline int64_t clock_real_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

static inline int64_t clock_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t clock_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* "2026-11-21T12:03:04.123Z" (24 characters and the NUL). Returns text. */
char *clock_iso8601(int64_t real_ns, char *text, size_t size);

/* Parses a moment, as clouds write it: "2026-04-11T22:26:58.5+02:00" (RFC 3339), "Sat, 11 Apr 2026
 * 22:26:58 GMT" (RFC 1123) and "11 Apr 2026 22:26:58 GMT". A zone is required; a wrong weekday is
 * ignored, and so is surrounding space. *ret in nanoseconds since 1970; an earlier date counts as
 * 1970, one from 2262 on as INT64_MAX. False: malformed. */
MUST_CHECK bool date_parse(const char *text, int64_t *ret);
/* Like date_parse(), but for a number of seconds since 1970. */
int64_t date_from_seconds(int64_t seconds);
