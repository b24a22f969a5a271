/* SPDX-License-Identifier: Apache-2.0
 *
 * pace: how fast each rank of this node trains, and since when it has not: from its steps, whenever
 * somebody looks at them. A page shows only how many steps were finished, so what nobody looked at
 * for a while is known no better than that. Owns its memory, taken at the first look: pace_free().
 * Main thread.
 */
#ifndef PCHRUN_RUN_PACE_H
#define PCHRUN_RUN_PACE_H

#include "core/core.h"

struct pace_slot;

struct pace {
    struct pace_slot *slots; /* CORE_SLOTS_MAX; NULL: nobody has looked yet */
};

struct pace_view {
    double steps_per_s; /* 0: not known */
    int64_t age_ns;     /* since it moved last, or was looked at first; -1: not known */
    bool is_least;      /* it has not moved since it was looked at first: at least that old */
};

/* `steps` by slot, as they are now. */
void pace_look(struct pace *pace, const struct core_rank_report *ranks, int n,
               const uint64_t steps[CORE_SLOTS_MAX], int64_t now);
struct pace_view pace_of(const struct pace *pace, const struct core_rank_report *rank, int64_t now);
void pace_free(struct pace *pace);

#endif
