/* SPDX-License-Identifier: Apache-2.0
 * The promises of restarts in place: what the next generation begins with, and which failure no
 * generation follows. See sim.h.
 */
#include "sim.h"

#include "base/clock.h"
#include "base/str.h"

#include <signal.h>
#include <string.h>

#define S NS_PER_S

static bool any_has_trained(const struct world *w)
{
    for (int i = 0; i < w->nall; i++)
        if (w->procs[i].step > w->base_step)
            return true;
    return w->generation > 0;
}

/* The bug has ended a generation of which all ranks had trained up to its step at most. The next
 * one that it ends there, with no commit between, is the last. If another process of its node fails
 * first, the node may tell that before it has read its steps once more. */
static void check_bug(struct world *w, uint32_t generation)
{
    uint64_t highest = 0;
    struct bug *bug = &w->bug;
    for (int i = 0; i < w->nall; i++)
        highest = w->procs[i].step > highest ? w->procs[i].step : highest;
    bool comes =
        bug->ends_job && !bug->is_second && highest == bug->step && w->base_step < bug->step;
    if (comes && bug->has_come && bug->record == w->record)
        fail(w, "generation %u, and the same failure came twice at step %llu", generation,
             ull(bug->step));
    bug->has_come = comes;
    bug->record = w->record;
    bug->ends_job = bug->is_second = false;
    if (w->generation < ARRAY_LEN(bug->commits))
        bug->commits[w->generation] = w->record;
}

/* Node 0 has seen this failure before, and nothing was committed since. */
static void check_twice(struct world *w, const struct core_report *report)
{
    int code = report->first_cause.code;
    bool has_come = false;
    for (uint32_t i = 0; i < w->generation && i < ARRAY_LEN(w->bug.codes); i++)
        has_come = has_come || (w->bug.codes[i] == code && w->bug.commits[i] == w->record);
    if (!has_come || code == 128 + SIGKILL || !any_has_trained(w))
        fail(w, "node 0 says \"%s\"", report->why);
}

/* No part of the last generation remains, and all nodes begin from the last commit. */
void check_generation(struct world *w, int node, uint32_t generation, uint64_t step)
{
    if (generation <= w->hosts[node].generation)
        fail(w, "node %d: generation %u follows %u", node, generation, w->hosts[node].generation);
    for (int i = 0; i < w->nall; i++)
        if (proc_is_alive(&w->procs[i]) && w->procs[i].generation < generation)
            fail(w, "node %d begins generation %u, and process %d of the last one still runs", node,
                 generation, i);
    for (int i = 0; i < w->s.nprocs; i++) {
        const struct proc *p = &w->procs[node * w->s.nprocs + i];
        if (p->is_connected || p->is_going)
            fail(w, "node %d begins generation %u, and process %d of the last one is attached",
                 node, generation, p->index);
    }
    if (w->hosts[node].nwriting > 0)
        fail(w, "node %d begins generation %u, and its record is still being written", node,
             generation);
    for (int i = 0; i < w->s.nnodes && !w->s.leaves_leftovers; i++)
        if (w->hosts[i].is_alive && w->hosts[i].has_leftover && w->hosts[i].generation < generation)
            fail(w,
                 "node %d begins generation %u, and what the last one left on node %d still runs",
                 node, generation, i);
    if (step != (generation > w->generation ? w->record : w->base_step))
        fail(w, "node %d begins generation %u from step %llu; the record says %llu", node,
             generation, ull(step), ull(w->record));
    if (generation > w->generation)
        check_bug(w, generation);
    int64_t near = check_near_at(w, &w->hosts[node], check_least_plan(w), false);
    if (generation > w->generation && near < w->now - 2 * S)
        fail(w, "node %d begins generation %u, and its notice is near since %lld ms", node,
             generation, (long long)((w->now - near) / NS_PER_MS));
    if (w->s.restart.after_notice || w->s.replace_wait)
        return;
    if (w->s.restart.max == 0 || (w->s.restart.window_ns == 0 && w->s.restart.start_max == 0 &&
                                  generation > (uint32_t)w->s.restart.max))
        fail(w, "generation %u, and %d restarts are allowed", generation, w->s.restart.max);
    if (w->repeats)
        fail(w, "generation %u, and the start has failed for a reason that repeats", generation);
}

/* The job ends because of a failure that repeats at each start. It must not begin again, unless it
 * had trained. Node 0 names its own failure for a moment, before it takes the job's: the last
 * counts. */
void check_cause(struct world *w, const struct core_report *report)
{
    bool is_ending = report->outcome != OUTCOME_UNKNOWN || report->state == NODE_RESTARTING;
    bool repeats =
        report->first_cause.fault != FAULT_SIGNAL && strstr(report->first_cause.text, SIM_REPEATS);
    if (!is_ending)
        return;
    w->repeats = repeats && !any_has_trained(w);
    w->bug.ends_job = report->first_cause.fault == FAULT_EXIT &&
                      strstr(report->first_cause.text, "ended with exit code 3") &&
                      strstr(report->first_cause.text, SIM_BUG);
    const char *named = strstr(report->why, report->first_cause.text);
    if (report->first_cause.fault && named && strstr(named, "came twice"))
        check_twice(w, report);
    if (w->generation < ARRAY_LEN(w->bug.codes))
        w->bug.codes[w->generation] = report->first_cause.code;
}
