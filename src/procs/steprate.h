/* SPDX-License-Identifier: Apache-2.0
 *
 * steprate: how fast each rank of this node trains, and when it last finished a step. A page shows
 * only the number of finished steps, so the precision depends on how often pchrun looks. Owns
 * nothing. Main thread.
 */
#pragma once

#include "core/core.h"

struct steprate_slot {
    int pid; /* 0: never seen; a new pid resets the slot */
    uint64_t step;
    int64_t first_at; /* first look */
    int64_t moved_at; /* last new step seen, 0: never */
    int64_t looked_at;
    bool is_rough; /* the look before that new step was long ago: when it came is unknown */
    uint64_t base_step;
    int64_t base_at; /* the pace is measured from here */
    double steps_per_s;
};

/* Zeroed at first. */
struct steprate {
    struct steprate_slot slots[CORE_SLOTS_MAX];
};

struct steprate_view {
    double steps_per_s; /* 0: unknown */
    int64_t age_ns;     /* since its last step, or since the first look; -1: unknown */
    /* age_ns is a lower bound: no step came since the first look, or since one that came at an
     * unknown time */
    bool is_least;
};

/* `step`: the rank's current step, from its page. Not used for a rank without a slot. */
struct steprate_view steprate_look(struct steprate *steprate, const struct core_rank_report *rank,
                                   uint64_t step, int64_t now);
