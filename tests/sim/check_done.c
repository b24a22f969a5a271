/* SPDX-License-Identifier: Apache-2.0
 * Done is done: what must hold when every rank has called pch_done. See sim.h.
 */
#include "sim.h"

#include "core/common/verdict.h"

#define S NS_PER_S

/* The rank has said that it is done, and node 0 knew it when it ended the job. */
static bool was_done(const struct world *w, const struct proc *p)
{
    return p->is_done && p->is_attached && !p->is_cut &&
           p->finished_at + 4 * w->s.delay_max + S + standstill(w) < w->end_at;
}

/* Done is done: the training is complete when every rank has said so, whatever a notice leaves to
 * the processes. The first to fail would end such a job as any other. */
void check_done(struct world *w)
{
    if (w->s.is_replaced || w->was_stopped)
        return;
    for (int i = 0; i < w->nall; i++)
        if (!was_done(w, &w->procs[i]) || w->hosts[w->procs[i].node].failed.is_known)
            return;
    if (w->hosts[0].outcome != OUTCOME_COMPLETED)
        fail(w, "every rank was done, and node 0 says %s (%s)", verdict_name(w->hosts[0].outcome),
             w->hosts[0].why);
}
