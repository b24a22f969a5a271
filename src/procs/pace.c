/* SPDX-License-Identifier: Apache-2.0
 * See pace.h.
 */
#include "procs/pace.h"

#include "base/clock.h"

#include <stdlib.h>

/* Over a shorter time the pace is imprecise: it has too few steps. */
#define PACE_NS (NS_PER_S / 2)

struct pace_slot {
    int pid; /* 0: never seen; a new pid starts again */
    uint64_t step;
    int64_t first_at; /* first look */
    int64_t moved_at; /* last new step seen, 0: never */
    uint64_t base_step;
    int64_t base_at; /* the pace is measured from here */
    double steps_per_s;
};

static void look_at(struct pace_slot *slot, int pid, uint64_t step, int64_t now)
{
    if (slot->pid != pid || step < slot->step) {
        *slot = (struct pace_slot){
            .pid = pid, .step = step, .first_at = now, .base_step = step, .base_at = now};
        return;
    }
    if (step == slot->step)
        return;
    slot->step = step;
    slot->moved_at = now;
    int64_t took = now - slot->base_at;
    if (took < PACE_NS)
        return;
    double pace = (double)(step - slot->base_step) * (double)NS_PER_S / (double)took;
    slot->steps_per_s = slot->steps_per_s > 0 ? (slot->steps_per_s + pace) / 2 : pace;
    slot->base_step = step;
    slot->base_at = now;
}

void pace_look(struct pace *pace, const struct core_rank_report *ranks, int n,
               const uint64_t steps[CORE_SLOTS_MAX], int64_t now)
{
    if (!pace->slots)
        pace->slots = calloc(CORE_SLOTS_MAX, sizeof pace->slots[0]);
    if (!pace->slots)
        return; /* no memory: every pace is unknown */
    for (int i = 0; i < n; i++)
        if (ranks[i].slot >= 0)
            look_at(&pace->slots[ranks[i].slot], ranks[i].pid, steps[ranks[i].slot], now);
}

struct pace_view pace_of(const struct pace *pace, const struct core_rank_report *rank, int64_t now)
{
    const struct pace_slot *slot = pace->slots && rank->slot >= 0 ? &pace->slots[rank->slot] : NULL;
    if (!slot || slot->pid != rank->pid)
        return (struct pace_view){.age_ns = -1};
    int64_t since = slot->moved_at ? slot->moved_at : slot->first_at;
    return (struct pace_view){
        .steps_per_s = slot->steps_per_s, .age_ns = now - since, .is_least = !slot->moved_at};
}

void pace_free(struct pace *pace)
{
    free(pace->slots);
    pace->slots = NULL;
}
