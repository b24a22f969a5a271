/* SPDX-License-Identifier: Apache-2.0
 * See steprate.h.
 */
#include "procs/steprate.h"

#include "base/clock.h"

/* A shorter time has too few steps for a precise pace. */
#define PACE_NS (NS_PER_S / 2)

/* After a longer pause between two looks it is unknown when a new step came. */
#define ROUGH_NS (2 * NS_PER_S)

static void steprate_look_at(struct steprate_slot *slot, int pid, uint64_t step, int64_t now)
{
    bool is_rough = now - slot->looked_at > ROUGH_NS;
    slot->looked_at = now;
    if (slot->pid != pid || step < slot->step) {
        *slot = (struct steprate_slot){.pid = pid,
                                       .step = step,
                                       .first_at = now,
                                       .looked_at = now,
                                       .base_step = step,
                                       .base_at = now};
        return;
    }
    if (step == slot->step)
        return;
    slot->step = step;
    slot->moved_at = now;
    slot->is_rough = is_rough;
    int64_t took = now - slot->base_at;
    if (took < PACE_NS)
        return;
    double steprate = (double)(step - slot->base_step) * (double)NS_PER_S / (double)took;
    slot->steps_per_s = slot->steps_per_s > 0 ? (slot->steps_per_s + steprate) / 2 : steprate;
    slot->base_step = step;
    slot->base_at = now;
}

struct steprate_view steprate_look(struct steprate *steprate, const struct core_rank_report *rank,
                                   uint64_t step, int64_t now)
{
    if (rank->slot < 0)
        return (struct steprate_view){.age_ns = -1};
    struct steprate_slot *slot = &steprate->slots[rank->slot];
    steprate_look_at(slot, rank->pid, step, now);
    int64_t since = slot->moved_at ? slot->moved_at : slot->first_at;
    return (struct steprate_view){.steps_per_s = slot->steps_per_s,
                                  .age_ns = now - since,
                                  .is_least = !slot->moved_at || slot->is_rough};
}
