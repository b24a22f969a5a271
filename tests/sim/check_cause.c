/* SPDX-License-Identifier: Apache-2.0
 * The first cause: the failure that the job names is the first, and every node names it. See sim.h.
 */
#include "sim.h"

#include "core/common/verdict.h"

#include <signal.h>

#define S NS_PER_S

/* A crash is seen later than the end of a process that misses the crashed one. This much later it
 * still counts as the first failure. */
static int64_t crash_lag(unsigned fault, int code)
{
    static const int codes[] = {128 + SIGSEGV, 128 + SIGBUS, 128 + SIGILL,
                                128 + SIGFPE,  128 + SIGSYS, 128 + SIGKILL};
    for (size_t i = 0; i < ARRAY_LEN(codes); i++)
        if (fault == FAULT_SIGNAL && code == codes[i])
            return 50 * NS_PER_MS;
    return 0;
}

/* The nodes' clocks may differ. A time in a message is right within the error that the message
 * gives. Without such an error, the time is known as exactly as the message was fast. */
void check_told(struct world *w, int node, const struct peermsg *msg)
{
    struct host *host = &w->hosts[node];
    if (node == 0 && !host->told.is_known && !host->has_exited) {
        struct core_report report;
        core_report(host->core, &report);
        bool is_ending = report.outcome != OUTCOME_UNKNOWN || report.state == NODE_RESTARTING;
        bool is_own = report.is_cause_here && !is_ending;
        host->told = (struct told){.is_known = is_own, .wall = report.first_cause.wall_ns};
    }
    if (!msg || msg->type != PEERMSG_STATUS || msg->cause.fault == FAULT_NONE ||
        w->hosts[0].has_exited || node >= w->s.nnodes ||
        msg->stamp.generation != w->hosts[0].generation)
        return;
    const struct peer_cause *c = &msg->cause;
    int64_t off = c->at_ns - w->hosts[0].clock - c->wall_ns, lag = crash_lag(c->fault, c->code);
    int64_t error = c->error_ns >= 0 ? c->error_ns : w->now - c->wall_ns - c->ago_ns + lag;
    if (c->error_ns >= 0 && (off > error || off < -error - lag))
        fail(w, "node %d is wrong by %lld us about when it failed, and says %lld us at most", node,
             (long long)(off / 1000), (long long)(error / 1000));
    if (!host->told.is_known || c->wall_ns <= host->told.wall)
        host->told = (struct told){.is_known = true,
                                   .is_guess = c->error_ns<0, .is_crash = lag> 0,
                                   .wall = c->wall_ns,
                                   .error = error};
}

/* NULL: a shell, or no process of this job. */
static const struct proc *named_proc(const struct world *w, const struct peer_cause *cause)
{
    return cause->pid >= 1000 ? &w->procs[cause->pid - 1000] : NULL;
}

/* How much later than the failure of another node the first cause may have been seen. A process
 * that said why it fails gave the time, however it ended later. A crash is named if the two times
 * may be in this order. Each time is wrong by its error at most, and so is the other end of what it
 * may be. */
static int64_t most_behind(const struct world *w, const struct told *told)
{
    const struct peer_cause *c = &w->hosts[0].report.first_cause;
    const struct proc *p = named_proc(w, c);
    int64_t error = told->error + w->hosts[c->node].told.error, lag = crash_lag(c->fault, c->code);
    return (lag ? 2 * error : error) + (p && p->confessed_at ? 0 : lag);
}

/* True if the times are exact enough to compare a crash with the end of a process that misses the
 * crashed one. If the crash was told, it comes first whatever the errors are, but they must be
 * known. Another failure may have ended the job before. */
static bool knows_times(const struct world *w)
{
    bool has_crash = false;
    for (int i = 0; i < w->s.nnodes; i++)
        has_crash = has_crash || w->hosts[i].told.is_crash;
    for (int i = 0; i < w->s.nnodes; i++) {
        const struct told *told = &w->hosts[i].told;
        if (told->is_known && (has_crash ? told->is_guess : told->error > 5 * NS_PER_MS))
            return false;
    }
    return true;
}

/* True if every failure could be reported: no node was cut off, and none that had seen a failure
 * died before node 0 had heard of one from it. */
static bool all_could_tell(const struct world *w)
{
    for (int i = 0; i < w->s.nnodes; i++) {
        const struct host *host = &w->hosts[i];
        bool is_untold = host->failed.is_known && !host->told.is_known;
        if (host->cut_until || net_late_until(w, i) || (host->died_at && is_untold))
            return false;
    }
    return true;
}

/* The failure that ended the job was the first that was reported before all nodes left. */
void check_first(struct world *w)
{
    const struct host *chief = &w->hosts[0];
    const struct core_report *r = &chief->report;
    if (!chief->has_exited || !r->first_cause.fault || r->first_cause.fault == FAULT_LOST ||
        !r->first_cause.pid) /* the job was replaced */
        return;
    int node = r->first_cause.node;
    const struct host *named = &w->hosts[node];
    if (chief->outcome == OUTCOME_FAILED && chief->code != r->first_cause.code)
        fail(w, "node 0 exits with %d, and names a failure with %d", chief->code,
             r->first_cause.code);
    int64_t ended_at =
        r->first_cause.code == 128 + SIGKILL ? named->killed_at : named->signalled_at;
    if (r->first_cause.fault == FAULT_SIGNAL && ended_at && ended_at < r->first_cause.wall_ns)
        fail(w, "node 0 names process %d of node %d, which was ended before", r->first_cause.pid,
             node);
    /* A process that lives on after the end of its connection counts as dying since that end. */
    const struct proc *p = named_proc(w, &r->first_cause);
    if (p && !standstill(w) && all_could_tell(w) && (!w->is_seen_late || knows_times(w)) &&
        p->has_missed && !p->has_bad_line && !p->is_cut)
        fail(w, "node 0 names process %d, which failed only because another had ended",
             r->first_cause.pid - 1000);
    for (int i = 0; i < w->s.nnodes; i++) {
        const struct told *told = &w->hosts[i].told;
        if (told->is_known && r->first_cause.wall_ns > told->wall + most_behind(w, told))
            fail(w, "node 0 names the failure of node %d, and that of node %d was %lld us before",
                 node, i, (long long)((r->first_cause.wall_ns - told->wall) / 1000));
    }
}

/* No node was cut off, so each node has reported its first failure before all left. */
void check_all_told(struct world *w)
{
    const struct host *chief = &w->hosts[0];
    const struct core_report *r = &chief->report;
    if (!r->first_cause.fault || r->first_cause.fault == FAULT_LOST || !r->first_cause.pid ||
        chief->exit_at > chief->stopped_at + 20 * S)
        return;
    for (int i = 0; i < w->s.nnodes; i++) {
        const struct host *host = &w->hosts[i];
        int64_t most = most_behind(w, &host->told);
        if (host->failed.is_known && r->first_cause.wall_ns > host->failed.wall + most)
            fail(w, "node %d had failed %lld us before what node 0 names", i,
                 (long long)((r->first_cause.wall_ns - host->failed.wall) / 1000));
    }
}

void check_same_cause(struct world *w)
{
    const struct core_report *a = &w->hosts[0].report;
    for (int i = 1; i < w->s.nnodes; i++) {
        const struct core_report *b = &w->hosts[i].report;
        if (a->first_cause.fault != b->first_cause.fault || !str_is(a->why, b->why))
            fail(w, "node 0 says \"%s\", and node %d \"%s\"", a->why, i, b->why);
        if (!a->first_cause.fault)
            continue;
        if (a->first_cause.node != b->first_cause.node ||
            a->first_cause.rank != b->first_cause.rank ||
            a->first_cause.pid != b->first_cause.pid ||
            a->first_cause.code != b->first_cause.code ||
            a->first_cause.wall_ns != b->first_cause.wall_ns ||
            !str_is(a->first_cause.text, b->first_cause.text))
            fail(w, "node 0 names the cause \"%s\", and node %d \"%s\"", a->first_cause.text, i,
                 b->first_cause.text);
    }
}
