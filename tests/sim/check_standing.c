/* SPDX-License-Identifier: Apache-2.0
 * The promises of notices that leave just a save, that stand at the start, that are repeated. See
 * sim.h.
 */
#include "sim.h"

#include "core/verdict.h"

#define S NS_PER_S

/* Promise 9: a notice that leaves a save's time and three steps brings a commit, whatever the pace
 * was before. A second save, at the last moment, may fail. */
void check_slowed(struct world *w)
{
    const struct host *chief = &w->hosts[0];
    if (had_stepped_before_notice(w) && !any_is_done(w) && !w->saved_for_notice_at)
        fail(w, "the notice left a save and three steps of the slow pace, and node 0 says %s (%s)",
             verdict_name(chief->outcome), chief->why);
}

/* A notice that stood at the start, and left time to train: what was trained is saved. */
void check_standing(struct world *w)
{
    const struct host *chief = &w->hosts[0];
    int64_t used = chief->exit_at - w->first_notice_at;
    if (had_stepped_before_notice(w) || any_is_done(w) || chief->outcome == OUTCOME_STOPPED ||
        chief->outcome == OUTCOME_HANG)
        return;
    if (chief->outcome != OUTCOME_PREEMPTED || !w->record_of_run)
        fail(w, "a notice stood at the start and left %lld s, and node 0 says %s (%s)",
             (long long)(w->s.stands / S), verdict_name(chief->outcome), chief->why);
    if (used < w->s.stands * 8 / 10)
        fail(w, "a notice stood at the start and left %lld s, and node 0 has left after %lld ms",
             (long long)(w->s.stands / S), (long long)(used / NS_PER_MS));
}
