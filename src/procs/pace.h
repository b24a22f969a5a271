/* SPDX-License-Identifier: Apache-2.0
 *
 * pace: how fast each rank of this node trains, and when it last finished a step. A page shows only
 * the number of finished steps, so the precision depends on how often pchrun looks. Owns its
 * memory, allocated at the first look: pace_free(). Main thread.
 */
#ifndef PCHRUN_PROCS_PACE_H
#define PCHRUN_PROCS_PACE_H

#include "core/core.h"

struct pace_slot;

struct pace {
    struct pace_slot *slots; /* CORE_SLOTS_MAX; NULL before the first look */
};

struct pace_view {
    double steps_per_s; /* 0: unknown */
    int64_t age_ns;     /* since its last step, or since the first look; -1: unknown */
    bool is_least;      /* no step since the first look: at least that old */
};

/* `steps`: the current ones, by slot. */
void pace_look(struct pace *pace, const struct core_rank_report *ranks, int n,
               const uint64_t steps[CORE_SLOTS_MAX], int64_t now);
struct pace_view pace_of(const struct pace *pace, const struct core_rank_report *rank, int64_t now);
void pace_free(struct pace *pace);

#endif
