/* SPDX-License-Identifier: Apache-2.0
 *
 * reminder: when the log says again that a node waits: 10 seconds after the wait began, then each
 * time after twice the pause, up to five minutes.
 */
#pragma once

#include "base/clock.h"
#include "base/str.h"

#define REMINDER_FIRST_NS (10 * NS_PER_S)
#define REMINDER_LAST_NS  (300 * NS_PER_S)

struct reminder {
    int64_t since, gap;
    int64_t at; /* CLOCK_NEVER: no wait */
};

static inline void reminder_begin(struct reminder *reminder, int64_t now)
{
    *reminder = (struct reminder){now, REMINDER_FIRST_NS, now + REMINDER_FIRST_NS};
}

static inline void reminder_next(struct reminder *reminder, int64_t now)
{
    reminder->gap = clock_min(2 * reminder->gap, REMINDER_LAST_NS);
    reminder->at = now + reminder->gap;
}

/* How long the wait may still last: exact only where little is left. */
static inline const char *reminder_left(int64_t ns, char *text, size_t size)
{
    int64_t unit = ns > 180 * NS_PER_S ? 60 * NS_PER_S : NS_PER_S;
    return str_duration(ns / unit * unit, text, size);
}
