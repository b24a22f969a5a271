/* SPDX-License-Identifier: Apache-2.0
 *
 * twice: a duration, measured by samples. It only becomes as long as two samples in a row show. A
 * single long sample may come from a connection that was silent, or from a supervisor that stood
 * still. Pure.
 */
#pragma once

#include "base/clock.h"

#include <stdint.h>

struct twice {
    int64_t newest, before; /* nanoseconds; 0: no sample yet */
};

static inline void twice_note(struct twice *twice, int64_t ns)
{
    twice->before = twice->newest;
    twice->newest = ns;
}

/* 0: fewer than two samples. */
static inline int64_t twice_shown(const struct twice *twice)
{
    return clock_min(twice->newest, twice->before);
}
