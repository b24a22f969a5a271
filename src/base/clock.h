/* SPDX-License-Identifier: Apache-2.0
 *
 * clock: time as nanoseconds in 64 bits. Deadlines use the monotonic clock only; the real-time
 * clock is for people (log lines, reports). Any thread; cannot fail on Linux.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)

/* Means "no deadline": it is later than any time. */
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

/* "2026-11-21T12:03:04.123Z" (24 characters and the NUL). Returns text. */
char *clock_iso8601(int64_t real_ns, char *text, size_t size);
