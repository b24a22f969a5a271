/* SPDX-License-Identifier: Apache-2.0
 * Done is done: what must hold when every rank has called pch_done. See sim.h.
 */
#include "sim.h"

#include "core/common/verdict.h"

#define S NS_PER_S

/* Since when every supervisor runs again. */
static int64_t runs_since(const struct world *w)
{
    int64_t at = 0;
    for (int i = 0; i < w->s.nnodes; i++)
        at = w->hosts[i].paused_until > at ? w->hosts[i].paused_until : at;
    return at;
}

/* A deadline passed while no supervisor ran: node 0 hears all nodes before it acts on it. */
static bool has_slept_through(const struct world *w)
{
    for (int i = 0; i < w->s.nnodes; i++)
        if (w->hosts[i].end_deadline <= runs_since(w))
            return true;
    return false;
}

/* The rank has said that it is done, and node 0 knew it when it ended the job. */
static bool was_done(const struct world *w, const struct proc *p)
{
    bool is_late = p->finished_at < runs_since(w) && !has_slept_through(w);
    int64_t at = is_late ? runs_since(w) : p->finished_at;
    return p->is_done && p->is_attached && !p->is_cut &&
           at + 4 * w->s.delay_max + S / 2 < w->end_at;
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
