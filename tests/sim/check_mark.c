/* SPDX-License-Identifier: Apache-2.0
 * The marks of node 0 say what the job does: in order, and not before the processes do it. See
 * sim.h.
 */
#include "sim.h"

#define S NS_PER_S

/* Every process that lives has come to the save step. A process that attached anew may be exempt.
 */
static bool all_have_come(const struct world *w, uint64_t step)
{
    for (int i = 0; i < w->nall; i++) {
        const struct proc *p = &w->procs[i];
        bool trains =
            p->state == PROC_TRAINING || p->state == PROC_COLLECTIVE || p->state == PROC_EVALUATING;
        if (trains && p->is_attached && !p->is_counting && !p->is_cut && !p->is_done &&
            !p->reattached_at && p->page_step < step)
            return false;
    }
    return true;
}

/* A process of every node has finished a step in this generation. A process that has ended may have
 * left its place to another. */
static bool all_have_stepped(const struct world *w)
{
    for (int node = 0; node < w->s.nnodes; node++) {
        bool has = w->s.nprocs == 0;
        for (int i = node * w->s.nprocs; i < (node + 1) * w->s.nprocs; i++)
            has =
                has || w->procs[i].page_step > w->procs[i].first_step || w->procs[i].reattached_at;
        if (!has)
            return false;
    }
    return true;
}

/* How much later node 0 may have learned that a process went on. */
static int64_t heard_after(const struct world *w)
{
    int64_t read_after = w->s.nnodes == 1 ? SIM_LOOK_NS : S;
    return read_after + 4 * w->s.delay_max + (w->s.drop ? 4 * S : 0) + standstill(w) + S / 2;
}

/* A hang begins when a process went on last. The node sees that at its next reading of the steps,
 * and node 0 in the STATUS after it: `slack` bounds both. So the mark may be late by `slack`. It is
 * never earlier, unless that STATUS may still be on its way. An excuse, or the end of a cut, counts
 * like a move, since the core then lets every limit begin anew. Behind a slow line node 0 hears of
 * a move late. */
static void check_hung(struct world *w, const struct action *a)
{
    int64_t at = a->mark.at - w->hosts[0].clock, slack = heard_after(w);
    int64_t latest = w->went_on_at > w->excused_at ? w->went_on_at : w->excused_at;
    for (int i = 0; i < w->s.nnodes; i++)
        latest = clock_max(latest, clock_max(w->hosts[i].cut_until, net_late_until(w, i)));
    bool is_unheard = w->now < w->seen_at + slack;
    if (at > latest + slack || (at < w->seen_at - slack && !is_unheard))
        fail(w, "node 0 marks a hang since %lld ms, and a process went on %lld ms ago",
             (long long)((w->now - at) / NS_PER_MS),
             (long long)((w->now - w->went_on_at) / NS_PER_MS));
}

static void check_order(struct world *w, const struct action *a)
{
    enum mark_kind kind = a->mark.kind, last = w->mark.kind;
    bool is_next = a->mark.generation == w->mark.generation + 1;
    if (last == MARK_NONE && kind != MARK_STARTING)
        fail(w, "node 0 marks %d first, not its start", kind);
    if (a->mark.generation != w->mark.generation &&
        !(is_next && (last == MARK_RESTARTING || last == MARK_WAITING) && kind == MARK_STARTING))
        fail(w, "node 0 marks %d of generation %u after %d of generation %u", kind,
             a->mark.generation, last, w->mark.generation);
    if (last == kind && a->mark.generation == w->mark.generation)
        fail(w, "node 0 marks %d twice", kind);
    if (last == MARK_RESTARTING && kind != MARK_STOPPING && kind != MARK_WAITING && !is_next)
        fail(w, "node 0 marks %d in a restart", kind);
    if (kind != MARK_HUNG && a->mark.at < w->mark.at)
        fail(w, "node 0 marks %d at a time before its last mark", kind);
}

void check_mark(struct world *w, const struct action *a)
{
    enum mark_kind kind = a->mark.kind;
    trace(w, "node 0: marks %d at step %llu", kind, ull(a->mark.step));
    if (kind == MARK_COMMIT) {
        if (a->mark.step > w->record || a->mark.step <= w->mark.commit)
            fail(w, "node 0 marks the commit of step %llu, the record has step %llu",
                 ull(a->mark.step), ull(w->record));
        w->mark.commit = a->mark.step;
        return;
    }
    check_order(w, a);
    if (kind == MARK_TRAINING && w->mark.kind == MARK_STARTING && !all_have_stepped(w))
        fail(w, "node 0 marks the training before a process of every node has finished a step");
    if (kind == MARK_SAVING && !all_have_come(w, a->mark.step))
        fail(w, "node 0 marks a save, and a process has not come to step %llu", ull(a->mark.step));
    if (kind == MARK_HUNG)
        check_hung(w, a);
    w->mark.kind = kind;
    w->mark.generation = a->mark.generation;
    w->mark.at = a->mark.at;
}

/* node_break() and a lost part of the shell may end a node without its chief. */
void check_last_mark(struct world *w)
{
    if (w->mark.kind != MARK_STOPPING)
        fail(w, "node 0 exits, and its last mark is %d", w->mark.kind);
    if (w->record_of_run && w->hosts[0].committed == w->record && w->mark.commit != w->record)
        fail(w, "node 0 exits, and has marked no commit of step %llu", ull(w->record));
}

/* The wait of a process that has said CLOSE counts until then. A node that exits hears no CLOSE. */
void check_loaded(struct world *w, int node, const struct event *event)
{
    static struct core_rank_report list[CORE_SLOTS_MAX];
    int n = w->hosts[node].core ? core_ranks(w->hosts[node].core, list, CORE_SLOTS_MAX) : 0;
    for (int i = 0; i < n; i++)
        if (list[i].pid == event->proc.pid && !list[i].is_attached &&
            list[i].loaded_ns < event->proc.loading_ns)
            fail(w, "node %d: rank %d has waited %lld ms for data, and it says %lld", node,
                 list[i].rank, (long long)event->proc.loading_ns / NS_PER_MS,
                 (long long)list[i].loaded_ns / NS_PER_MS);
}

/* The processes of a rank add up, and the longest of all ranks counts. So it never falls within a
 * generation. */
void check_loading(struct world *w, int node)
{
    struct host *host = &w->hosts[node];
    struct core_report report;
    if (!host->core)
        return;
    core_report(host->core, &report);
    if (report.generation == host->loading_generation && report.loading_ns < host->loading_ns)
        fail(w, "node %d: a rank has waited %lld ms for data, and it said %lld before", node,
             (long long)report.loading_ns / NS_PER_MS, (long long)host->loading_ns / NS_PER_MS);
    host->loading_generation = report.generation;
    host->loading_ns = report.loading_ns;
}
