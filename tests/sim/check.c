/* SPDX-License-Identifier: Apache-2.0
 * The promises of the design, checked while a schedule runs and at its end. See sim.h.
 */
#include "sim.h"

#include "core/common/verdict.h"

#include <signal.h>
#include <string.h>

#define S NS_PER_S

/* Promise 1: in one round no two processes save at different steps. */
void check_save(struct world *w, const struct proc *p, uint32_t tag, uint64_t step)
{
    struct proc *self = &w->procs[p->index];
    needs_begun(w, self, step);
    if (tag >= 64)
        return;
    trace(w, "process %d: saves step %llu in round %u", p->index, ull(step), tag);
    if (self->save_of_tag[tag])
        fail(w, "process %d saves twice in round %u, at steps %llu and %llu", p->index, tag,
             ull(self->save_of_tag[tag]), ull(step));
    self->save_of_tag[tag] = step;
    w->begun_at = w->now;
    w->last_tag = tag > w->last_tag ? tag : w->last_tag;
    for (int i = 0; i < w->nall; i++) {
        const struct proc *q = &w->procs[i];
        if (q == p || q->state == PROC_NONE || q->generation != p->generation)
            continue;
        if (q->save_of_tag[tag] && q->save_of_tag[tag] != step)
            fail(w, "round %u: process %d saves at step %llu, process %d at %llu", tag, p->index,
                 ull(step), i, ull(q->save_of_tag[tag]));
        /* Promise 2 again: the other process may have passed the step without a save. */
        if (!q->save_of_tag[tag] && q->is_attached && q->page_step > step && tag > q->exempt_tag)
            fail(w, "round %u: process %d saves at step %llu, and process %d has passed it unsaved",
                 tag, p->index, ull(step), i);
    }
}

/* Promise 2: no process passes a step at which another process saved in a round. */
void check_step(struct world *w, const struct proc *p)
{
    if (!p->is_attached)
        return;
    for (int i = 0; i < w->nall; i++)
        for (uint32_t tag = 1; tag <= w->last_tag && w->procs[i].generation == p->generation;
             tag++) {
            uint64_t saved = w->procs[i].save_of_tag[tag];
            if (saved && saved < p->step && !p->save_of_tag[tag] && tag > p->exempt_tag)
                fail(w, "process %d finishes step %llu without having saved step %llu of round %u",
                     p->index, ull(p->step), ull(saved), tag);
        }
}

/* The time between two saves without a notice, if it is by time. The core may choose it. */
static int64_t period_in_force(struct world *w)
{
    struct core_report report;
    if (!w->s.every_most)
        return w->s.every_ns;
    core_report(w->hosts[0].core, &report);
    int64_t every = report.job.save_every_ns, most = w->s.every_most;
    if (w->s.failures + (int)w->generation >= 3)
        most *= 2;
    if (every < w->s.every_ns || every > most)
        fail(w, "node 0 saves every %lld ms, out of %lld to %lld", (long long)(every / NS_PER_MS),
             (long long)(w->s.every_ns / NS_PER_MS), (long long)(most / NS_PER_MS));
    return every;
}

/* Checks the saves without a notice. A crash costs at most the steps of one period, and the steps
 * during the agreement and the save. */
void check_period(struct world *w, const struct proc *p)
{
    if (!w->s.is_regular || !p->is_attached || w->first_notice_at)
        return;
    int64_t save = schedule_longest(&w->s, w->s.save_time);
    int64_t step = schedule_longest(&w->s, w->s.step_time);
    int64_t attached = schedule_longest(&w->s, w->s.attach_at);
    /* An own save may be under way. */
    int64_t takes = 8 * w->s.delay_max + 2 * save + 3 * step + 100 * NS_PER_MS;
    uint64_t steps = w->s.stride[p->index] * (4 + 2 * (uint64_t)takes / (uint64_t)step);
    int64_t since = w->record_at ? w->record_at : attached + S;
    if (w->s.every_steps && p->step > w->record + w->s.every_steps + steps)
        fail(w, "process %d has finished step %llu, the last commit is of step %llu", p->index,
             ull(p->step), ull(w->record));
    int64_t every = period_in_force(w);
    if (every && w->now > since + every + takes)
        fail(w, "process %d trains %lld ms after the last commit", p->index,
             (long long)((w->now - since) / NS_PER_MS));
}

void check_durable(struct world *w, const struct proc *p, uint64_t step)
{
    w->durable[p->index][w->ndurable[p->index]++ % ARRAY_LEN(w->durable[0])] = step;
}

bool is_durable(const struct world *w, int proc, uint64_t step)
{
    for (size_t i = 0; i < w->ndurable[proc] && i < ARRAY_LEN(w->durable[0]); i++)
        if (w->durable[proc][i] == step)
            return true;
    return false;
}

static void check_durable_everywhere(struct world *w, uint64_t step)
{
    for (int i = 0; i < w->nall; i++)
        if (!is_durable(w, i, step))
            fail(w, "step %llu is committed, and process %d has not saved it", ull(step), i);
}

/* Promise 3: committed means that every save that is needed is durable. */
static void check_parts(struct world *w, uint64_t step)
{
    uint32_t whole = needs_whole(w, step);
    if (whole && !is_durable(w, (int)whole - 1, step))
        fail(w, "step %llu is committed, and process %u has not saved it", ull(step), whole - 1);
    else if (!whole)
        check_durable_everywhere(w, step);
}

/* From the beginning of a commit's write until a node knows of it, the node's record holds the
 * step. A record that drops the step earlier may lose it at a restart of the job. */
void check_held(struct world *w, uint64_t step)
{
    uint32_t whole = needs_whole(w, step);
    for (int i = 0; i < w->s.nnodes; i++) {
        const struct host *host = &w->hosts[i];
        bool matters = !whole || ((int)whole - 1) / w->s.nprocs == i;
        if (matters && host->is_started && host->committed < step && host->held[0] != step &&
            host->held[1] != step)
            fail(w, "step %llu is committed, and node %d no longer holds it", ull(step), i);
    }
}

static void check_not_too_soon(struct world *w, uint64_t step)
{
    if (!w->s.is_regular || w->s.nfaults || w->s.own_every || w->first_notice_at)
        return;
    /* At the end of the training a save may come early: no later step exists. */
    if (w->s.every_steps && step < w->record + w->s.every_steps && step != w->s.declared_last)
        fail(w, "step %llu is committed right after step %llu", ull(step), ull(w->record));
    int64_t every = period_in_force(w);
    if (every && w->record_at && w->now < w->record_at + every)
        fail(w, "step %llu is committed %lld ms after the last", ull(step),
             (long long)((w->now - w->record_at) / NS_PER_MS));
}

/* A commit never goes back. */
void check_commit(struct world *w, const struct action *a)
{
    uint64_t step = a->step;
    needs_note_commit(w, step, a->whole);
    check_not_too_soon(w, step);
    if ((w->first_notice_at || w->repeated_at) && !w->saved_for_notice_at)
        w->saved_for_notice_at = w->now;
    check_held(w, step);
    if (step <= w->record)
        fail(w, "step %llu is committed after step %llu", ull(step), ull(w->record));
    check_parts(w, step);
    if (a->whole)
        needs_check_commit(w, step, a->whole);
}

void check_committed(struct world *w, int node, const struct action *a)
{
    uint64_t step = a->step;
    const struct host *host = &w->hosts[node];
    if (a->whole != needs_whole(w, step))
        fail(w, "node %d is told that step %llu is the save of rank %d, and the record says %d",
             node, ull(step), (int)a->whole - 1, (int)needs_whole(w, step) - 1);
    if (step <= host->committed || step > w->record)
        fail(w, "node %d is told that step %llu is committed; before it %llu, the record says %llu",
             node, ull(step), ull(host->committed), ull(w->record));
    check_parts(w, step);
}

void check_port(struct world *w, int node, uint16_t port)
{
    if (port != w->port)
        fail(w, "node %d starts its processes with port %u; node 0 has picked %u", node, port,
             w->port);
}

static bool has_ended_well(const struct proc *p)
{
    return p->state == PROC_DEAD && p->ended_well && (p->is_done || p->has_left);
}

/* A rank that is done has trained, even if it had to be killed, or its node was cut off. */
static bool has_trained(const struct proc *p)
{
    return has_ended_well(p) || (p->is_done && p->is_attached);
}

bool had_stepped_before_notice(const struct world *w)
{
    return first_stepped_at(w) < w->first_notice_at;
}

/* A node with a notice of its own may leave before the start; the others do not see it. */
static bool one_left_unstarted(const struct world *w)
{
    for (int i = 0; i < w->s.nnodes; i++)
        if (w->hosts[i].has_exited && !w->hosts[i].is_started)
            return true;
    return false;
}

/* Promise 6 with stop.leftovers=leave: a node signals only its commands. */
void check_signal(struct world *w, int node, enum signal_target target)
{
    const struct host *host = &w->hosts[node];
    if (w->s.leaves_leftovers && target == TARGET_TREE)
        fail(w, "node %d signals what is to be left", node);
    if (w->s.leaves_leftovers && host->nended == w->s.nprocs)
        fail(w, "node %d signals processes when its commands have ended", node);
}

int64_t standstill(const struct world *w)
{
    int64_t sum = 0;
    for (int i = 0; i < w->s.nfaults; i++)
        if (w->s.faults[i].kind == DO_PAUSE || w->s.faults[i].kind == DO_FREEZE)
            sum += 2 * w->s.faults[i].length;
    return sum;
}

/* For how long after the end of its commands the node may hear nothing of node 0. */
static int64_t unheard(const struct world *w, int node)
{
    int64_t since = w->hosts[node].ended_at, until = w->hosts[node].cut_until;
    until = w->hosts[0].cut_until > until ? w->hosts[0].cut_until : until;
    return until > since ? until - since + 2 * S : 0;
}

/* A node ends the processes that its commands left behind soon after the commands, however much
 * time is left. But after a command that died of the notice they may save until the deadline. If
 * the job goes on after a notice, only node 0 ends that time. */
static int64_t sweep_limit(const struct world *w, int node)
{
    bool needs_kill = w->s.leftover[node] == LEFTOVER_STUBBORN && !w->s.leaves_leftovers;
    int64_t may_save = w->hosts[node].has_died_of_term ? S + w->s.most_grace : 0;
    if (may_save && w->s.restart.after_notice)
        may_save += unheard(w, node);
    return standstill(w) + (needs_kill ? 11 * S : S) + may_save;
}

void check_leftover(struct world *w, int node)
{
    const struct host *host = &w->hosts[node];
    if (host->ended_at && w->now > host->ended_at + sweep_limit(w, node))
        fail(w, "node %d sweeps %lld ms after its commands have ended", node,
             (long long)((w->now - host->ended_at) / NS_PER_MS));
}

/* True if the process was attached and ended with 0, but never reported its end: the 0 proves
 * nothing. */
static bool ended_in_silence(const struct world *w, const struct proc *p)
{
    bool is_silent = p->is_cut || (w->s.is_mute[p->index] && p->is_attached);
    return p->state == PROC_DEAD && p->ended_well && is_silent && !p->is_done;
}

/* True if the supervisor waits for the process to report its end. */
static bool may_stay_attached(const struct world *w, const struct proc *p)
{
    return w->s.stays_attached[p->index];
}

bool any_is(const struct world *w, bool (*is)(const struct world *w, const struct proc *p))
{
    for (int i = 0; i < w->nall; i++)
        if (is(w, &w->procs[i]))
            return true;
    return false;
}

bool any_ended_in_silence(const struct world *w)
{
    return any_is(w, ended_in_silence);
}

bool any_has_failed(const struct world *w)
{
    for (int i = 0; i < w->s.nnodes; i++)
        if (w->hosts[i].has_failed)
            return true;
    return false;
}

int64_t check_earliest(const int64_t deadlines[MAX_NOTICES])
{
    int64_t earliest = CLOCK_NEVER;
    for (int k = 0; k < MAX_NOTICES; k++)
        if (deadlines[k])
            earliest = clock_min(earliest, deadlines[k]);
    return earliest;
}

bool check_holds_notice(const struct host *host)
{
    return check_earliest(host->deadlines) != CLOCK_NEVER;
}

/* A job of one node waits for no other node. */
static void check_alone(struct world *w)
{
    const struct host *host = &w->hosts[0];
    bool has_ended_well = host->ended_at && !host->has_failed && !any_is(w, ended_in_silence);
    int64_t limit = sweep_limit(w, 0) + (any_is(w, may_stay_attached) ? S : 0);
    if (any_is(w, may_stay_attached) && (w->s.restart.max > 0 || w->s.restart.after_notice))
        limit += (10 + 10 + 5 + 1) * S; /* the node may leave yet, and would be started again */
    if (any_is(w, may_stay_attached) && w->s.draws_needs)
        limit += 10 * S; /* a round waits for a process that seems to live */
    if (w->s.hung_gives_up)
        limit += SIM_OTHERS_NS + (10 + 5) * S; /* it is examined, and others may give up, too */
    limit += w->s.restart.backoff_max_ns + (w->s.restart.after_notice ? w->s.most_grace : 0);
    if (host->ended_at && !w->s.slow_disk && w->now > host->ended_at + limit)
        fail(w, "the only node exits %lld ms after its commands",
             (long long)((w->now - host->ended_at) / NS_PER_MS));
    /* A start that hung ends when it is told to. It may be the last of several in a row that
     * brought no progress, or the node may be found unhealthy then. */
    bool was_told = host->told_leave_at && host->told_leave_at <= host->ended_at;
    bool may_follow = host->outcome == OUTCOME_NO_PROGRESS || host->outcome == OUTCOME_UNHEALTHY;
    bool has_hung = host->outcome == OUTCOME_HANG || (may_follow && was_told);
    if (has_ended_well && !host->had_notice && !w->s.is_replaced && !w->was_stopped && !has_hung &&
        host->outcome != OUTCOME_COMPLETED)
        fail(w, "every command had ended with success before the notice, and the outcome is %s",
             verdict_name(host->outcome));
    if (host->outcome == OUTCOME_FAILED && !host->has_failed && !w->s.is_replaced &&
        !any_is(w, ended_in_silence))
        fail(w, "failed, and no process had");
    if (any_is(w, ended_in_silence) && host->outcome == OUTCOME_COMPLETED)
        fail(w, "completed, and a process had ended without a report");
    check_unattached(w);
}

/* Here each reading has another time, any of which may be above the limit. One alone names no rank.
 */
void check_slow(struct world *w, int node)
{
    struct core_rank_report ranks[CORE_SLOTS_MAX];
    int n = w->hosts[node].core ? core_ranks(w->hosts[node].core, ranks, CORE_SLOTS_MAX) : 0;
    for (int i = 0; i < w->s.nprocs; i++)
        world_proc(w, node, i)->times_read++;
    for (int i = 0; i < n; i++)
        if (ranks[i].slow > 0 && ranks[i].slot >= 0 && ranks[i].slot < w->s.nprocs &&
            world_proc(w, node, ranks[i].slot)->times_read < 2)
            fail(w, "node %d: rank %d is slow by one time alone", node, ranks[i].rank);
}

/* Promise 8: a gate is lifted when every rank has served it. A gate that stays costs time in each
 * later step. */
void check_gate(struct world *w, const struct proc *p, uint64_t word)
{
    if (p->step < gate_step(word) || gate_tag(word) != p->served_tag || !gate_tag(word))
        return;
    for (int i = 0; i < w->s.nprocs; i++) {
        const struct proc *q = world_proc(w, p->node, i);
        bool is_there =
            proc_is_alive(q) || q->is_going || (q->is_connected && may_stay_attached(w, q));
        if (is_there && (q->served_tag != p->served_tag || q->served_at + S > w->now))
            return;
    }
    if (w->now > w->hosts[p->node].paused_until + S)
        fail(w, "node %d: the gate of round %u still stands", p->node, p->served_tag);
}

/* A node 0 that is preempted before the start stays as long as a reconnect may take, and tells the
 * nodes that join. A node that does not find node 0 ends with an error, and is not started again.
 */
void check_begin(struct world *w, int node)
{
    const struct host *chief = &w->hosts[0];
    int64_t stays = clock_min(w->s.least_grace / 2, SIM_BACK_NS);
    if (chief->has_exited && chief->outcome == OUTCOME_PREEMPTED && !w->s.has_loss &&
        chief->exit_at < w->first_notice_at + stays)
        fail(w, "node 0 has left before node %d, which could have been told of the notice", node);
}

static bool is_alive_on(const struct world *w, int node)
{
    for (int i = 0; i < w->s.nprocs; i++)
        if (proc_is_alive(&w->procs[node * w->s.nprocs + i]))
            return true;
    return false;
}

/* A node learns that a later attempt has taken over. From then on it may not report that its
 * training is complete. */
void check_replaced(struct world *w, int node)
{
    struct host *host = &w->hosts[node];
    if (!w->end_at && is_alive_on(w, node))
        host->knows_replaced = true;
    if (!host->has_exited)
        host->hears_replaced = true;
}

/* A node that continues and reports "completed" has overwritten the saves that the later attempt
 * resumes from. */
static void check_no_success(struct world *w, int node)
{
    const struct host *host = &w->hosts[node];
    for (int i = 0; i < w->s.nnodes; i++)
        if (w->hosts[i].knows_replaced && host->outcome == OUTCOME_COMPLETED)
            fail(w, "node %d says completed, and node %d knew that the job was taken over", node,
                 i);
    if (w->s.nnodes == 1 && host->knows_replaced && host->outcome != OUTCOME_FAILED &&
        !(w->was_stopped && host->outcome == OUTCOME_STOPPED))
        fail(w, "the only node knew that the job was taken over, and says %s",
             verdict_name(host->outcome));
}

/* A replaced node is not started again. A commit or a completion before the node knew stays valid.
 * Node 0 decides the outcome, because the others may learn of the replacement too late. */
static void check_no_return(struct world *w, int node)
{
    const struct host *host = &w->hosts[node];
    bool is_saved =
        host->first_outcome == OUTCOME_COMPLETED || host->first_outcome == OUTCOME_PREEMPTED;
    bool returns = verdict_is_restart(host->outcome) && host->outcome != OUTCOME_PREEMPTED;
    if (node == 0 && host->hears_replaced && returns)
        fail(w, "node 0 knew that the job was taken over, and says %s",
             verdict_name(host->outcome));
    if (is_saved && host->outcome != host->first_outcome)
        fail(w, "node %d has said %s, and says %s", node, verdict_name(host->first_outcome),
             verdict_name(host->outcome));
}

/* When a process that did not hang went on at the latest. A process that a debugger has stopped
 * does not count. */
static int64_t stands_until(const struct proc *p)
{
    int64_t stopped = p->is_traced ? 0 : p->stopped_until;
    return p->lags_until > stopped ? p->lags_until : stopped;
}

/* True if node 0 may have ended the job before it learned that this process goes on. If an
 * examination does not return, the steps are read for another reason. A failed restart ends the job
 * much later. */
static bool goes_on_unheard(const struct world *w, const struct proc *p)
{
    int64_t read_after = w->s.nnodes == 1 ? SIM_LOOK_NS : S;
    int64_t heard_after = read_after + 2 * S + 4 * w->s.delay_max + standstill(w);
    return stands_until(p) + heard_after > w->hosts[0].told_leave_at;
}

/* True if the process has gone on, but node 0 ended the job before it learned of that. */
static bool went_on_unheard(const struct world *w, const struct proc *p)
{
    return goes_on_unheard(w, p) && stands_until(p) <= w->hosts[0].told_leave_at;
}

/* True if the process hung until the end, or went on or ended too late for node 0 to learn of it.
 */
static bool hangs(const struct world *w, const struct proc *p)
{
    bool has_ended = net_late_until(w, p->node) && !proc_is_alive(p); /* behind a slow line */
    return p->hung_at || has_ended || goes_on_unheard(w, p);
}

/* Every node has known long enough that a notice is near. */
static bool is_notice_near(const struct world *w)
{
    return !w->s.has_loss && !w->s.drop &&
           check_nearest_at(w, check_least_plan(w)) < w->end_at - 5 * S;
}

/* The longest time from the last action of any process until a hang is found. This includes the
 * limit learned from pauses that were no hang, the collection of evidence, and the end of the
 * remaining processes. */
static int64_t hang_limit(const struct world *w)
{
    int64_t pause = w->s.eval_proc >= 0 ? w->s.eval_time : 0;
    for (int i = 0; i < w->s.nfaults; i++) {
        const struct fault *f = &w->s.faults[i];
        bool is_for_ever =
            f->length == SIM_FOR_EVER_NS; /* the process is ended, so nothing is learned */
        if ((f->kind == DO_STOP || f->kind == DO_LAG) && f->length > pause && !is_for_ever)
            pause = f->length;
    }
    int64_t save = schedule_longest(&w->s, w->s.save_time);
    pause = 2 * save > pause ? 2 * save : pause;
    int64_t limit = SIM_FACTOR * pause > SIM_EVAL_NS ? SIM_FACTOR * pause : SIM_EVAL_NS;
    return limit + limit / 4 + (10 + 5 + 25 + 10) * S + 2 * standstill(w);
}

/* No rank is behind if every rank that still trained has given up. Its failure is to follow, so it
 * has the limit of a step. */
static void check_none_behind(struct world *w, const struct host *host)
{
    int64_t ended_at = w->hosts[0].told_leave_at, stood = ended_at - w->went_on_at;
    if (stood > 0 && stood < SIM_STAND_NS)
        fail(w, "the ranks have stood for only %lld s: %s", (long long)(stood / S), host->why);
    for (int i = 0; i < w->nall; i++) {
        const struct proc *p = &w->procs[i];
        bool is_over = p->is_done || p->has_left || p->ended_well || p->gave_up_at;
        if ((p->is_attached || p->is_counting) && !is_over)
            fail(w, "process %d has not given up its wait: %s", i, host->why);
    }
}

/* A hang may be reported only if there is one. The named rank is behind, or has not attached. */
static void check_hang(struct world *w, const struct host *host)
{
    int rank, step;
    if (w->now > w->moved_at + hang_limit(w))
        fail(w, "the hang was found %lld s after the last action of a process",
             (long long)((w->now - w->moved_at) / S));
    check_gave_up_last(w);
    if (is_notice_near(w))
        fail(w, "a hang was found while a notice was near: %s", host->why);
    if (!any_is(w, hangs))
        fail(w, "a hang was found, and no process hangs: %s", host->why);
    if (w->s.patience && strncmp(host->why, "node ", 5) == 0)
        return; /* all others had ended by then */
    if (sscanf(host->why, "rank %d (process %*d on node %*d, ) is behind: it has stood at step %d",
               &rank, &step) != 2) {
        if (strstr(host->why, "no rank is known to be behind"))
            check_none_behind(w, host);
        else if (!strstr(host->why, "not attached within"))
            fail(w, "the hang does not name a rank: %s", host->why);
        return;
    }
    if (w->procs[rank].had_given_up)
        fail(w, "process %d gave up its wait for another, and is named: %s", rank, host->why);
    /* Compare the steps at the time of the decision. Later, processes that waited for an ended
     * process go on, and a failed restart ends the job much later. */
    for (int i = 0; i < w->nall; i++) {
        const struct proc *p = &w->procs[i];
        bool gave_up = p->gave_up_at && p->gave_up_at <= w->hosts[0].told_leave_at;
        if (p->hung_at && !gave_up && p->is_attached && p->left_step < (uint64_t)step)
            fail(w, "process %d hangs at step %llu, and the one named is: %s", i, ull(p->left_step),
                 host->why);
    }
    bool may_have_moved = any_is(w, went_on_unheard) && w->procs[rank].left_step > (uint64_t)step;
    if (w->procs[rank].left_step != (uint64_t)step && !may_have_moved)
        fail(w, "process %d is at step %llu: %s", rank, ull(w->procs[rank].left_step), host->why);
}

/* True if the process is stopped and has steps left. A process that has trained to its end has
 * none. */
static bool is_stopped(const struct world *w, const struct proc *p)
{
    return proc_is_alive(p) && p->state != PROC_ENDING && !p->is_traced &&
           p->stopped_until > w->now;
}

static bool stands(const struct world *w, const struct proc *p)
{
    bool waits = p->state == PROC_HUNG || p->state == PROC_COLLECTIVE ||
                 p->state == PROC_SAVE_BARRIER || is_stopped(w, p);
    return (p->is_attached || p->is_counting) && waits;
}

/* A hang must be found by now. Exceptions: a notice was near, so its deadline decides; no process
 * has attached, or the attached processes have ended, so no steps are known. */
void check_horizon(struct world *w)
{
    bool was_near = w->first_notice_at && check_nearest_at(w, w->s.grace) < w->now;
    bool is_due = w->s.is_watched && !was_near && w->moved_at + hang_limit(w) < w->now;
    for (int i = 0; i < w->nall && is_due; i++)
        if (stands(w, &w->procs[i]) && w->hosts[w->procs[i].node].is_alive)
            fail(w, "process %d has stood for %lld s, and the hang was not found", i,
                 (long long)((w->now - w->moved_at) / S));
}

/* Before the start nothing is saved, so no missing node keeps node 0 until the deadline. */
static void check_unstarted(struct world *w)
{
    const struct host *chief = &w->hosts[0];
    int64_t limit = SIM_BACK_NS + 4 * S + 8 * w->s.delay_max + standstill(w);
    if (chief->outcome == OUTCOME_PREEMPTED && !chief->is_started && !w->s.has_loss &&
        w->now > chief->stopped_at + limit)
        fail(w, "node 0 leaves %lld s after it knew that nothing starts",
             (long long)((w->now - chief->stopped_at) / S));
}

/* Promises 5 and 6, at the exit of one supervisor. */
void check_exit(struct world *w, int node)
{
    const struct host *host = &w->hosts[node];
    for (int i = 0; i < w->s.nprocs; i++) {
        const struct proc *p = &w->procs[node * w->s.nprocs + i];
        if (proc_is_alive(p) && !w->s.is_unkillable[p->index])
            fail(w, "node %d exits and leaves process %d behind", node, p->index);
    }
    if (host->has_leftover && !w->s.leaves_leftovers)
        fail(w, "node %d exits and leaves something behind", node);
    if (w->s.nnodes == 1)
        check_alone(w);
    check_no_success(w, node);
    check_no_return(w, node);
    if (node == 0) {
        check_count(w);
        check_unstarted(w);
    }
    switch (host->outcome) {
    case OUTCOME_COMPLETED:
        for (int i = 0; i < w->nall; i++)
            if (!has_trained(&w->procs[i]))
                fail(w, "node %d says completed, and process %d was not done", node, i);
        break;
    case OUTCOME_PREEMPTED:
        if (w->first_notice_at == 0)
            fail(w, "node %d says preempted, and there was no notice", node);
        if (host->is_started && !w->record_of_run && had_stepped_in_votes(w))
            fail(w, "node %d says preempted and committed, and nothing was", node);
        break;
    case OUTCOME_NODE_LOST:
        if (!w->s.has_loss && host->is_started && !one_left_unstarted(w))
            fail(w, "node %d says that a node is lost, and none was: %s", node, host->why);
        break;
    case OUTCOME_HANG:
        check_hang(w, host);
        break;
    case OUTCOME_FAILED:
        check_gave_up(w, node);
        break;
    case OUTCOME_NO_PROGRESS:
        if (!w->s.replace_wait && (w->s.first_step || !w->s.attaches || !w->has_stepped))
            fail(w, "node %d ends a job of which no rank was seen to begin anew", node);
        break;
    case OUTCOME_STOPPED:
        if (!w->was_stopped)
            fail(w, "node %d says that it was stopped by hand, and it was not", node);
        break;
    case OUTCOME_UNKNOWN:
        fail(w, "node %d exits without an outcome", node);
        break;
    default:
        break;
    }
    if ((host->outcome == OUTCOME_COMPLETED) != (host->code == 0))
        fail(w, "node %d exits with %d for %s", node, host->code, verdict_name(host->outcome));
}

void check_extra(struct world *w)
{
    const struct host *extra = &w->hosts[w->s.nnodes];
    if (w->extra_is == DO_TWIN && !w->s.has_loss && extra->outcome == OUTCOME_NODE_LOST)
        fail(w, "a twin is told that a node is lost, and none was: %s", extra->why);
    /* The node that is connected sends a message each second. */
    int64_t by = w->extra_since + 2 * S + 6 * w->s.delay_max + standstill(w);
    if (w->extra_is == DO_TWIN && !w->s.has_loss && w->first_notice_at == 0 && w->end_at > by &&
        extra->outcome != OUTCOME_NOT_STARTED)
        fail(w, "a twin was not refused: %s", extra->why);
    if (extra->outcome == OUTCOME_UNKNOWN)
        fail(w, "another supervisor of a node exits without an outcome");
}

/* A node that was started again while the job could still tell it ends as the others do. */
static void check_restart(struct world *w)
{
    const struct host *extra = &w->hosts[w->s.nnodes], *chief = &w->hosts[0];
    if (w->nhosts == w->s.nnodes || chief->exit_at < w->extra_since + 4 * w->s.delay_max)
        return;
    for (int i = 0; i < w->s.nnodes; i++)
        if (w->hosts[i].is_alive && w->hosts[i].code != extra->code)
            fail(w, "node %d exits with %d (%s), one that was started anew with %d (%s)", i,
                 w->hosts[i].code, w->hosts[i].why, extra->code, extra->why);
}

/* False if a node may have left before the start. The others have not met it, so they cannot know
 * why. */
static bool all_have_started(const struct world *w)
{
    for (int i = 0; i < w->s.nnodes; i++)
        if (!w->hosts[i].is_started)
            return false;
    return true;
}

/* True if a rank has trained to its end. A rank without lockstep is then past every step that the
 * others could save. Its unfinished background save is lost. */
bool any_is_done(const struct world *w)
{
    for (int i = 0; i < w->nall; i++)
        if (w->procs[i].is_done)
            return true;
    return false;
}

/* How long after a deadline a node may still leave. */
static int64_t in_time(const struct world *w)
{
    int64_t left = 4 * w->s.delay_max + standstill(w) + (w->is_seen_late ? SIM_SEEN_LATE_NS : 0);
    for (int i = 0; i < w->s.nnodes; i++)
        if (w->s.leftover[i] == LEFTOVER_STUBBORN)
            left += NS_PER_S / 2;
    return left;
}

void check_dirs_told(struct world *w, int node)
{
    int others = 0;
    for (int i = 0; i < w->nhosts; i++)
        others += w->hosts[i].has_other_dir;
    if (node != 0 || w->has_told_dirs || !others)
        fail(w, "node %d: names %d nodes with another directory", node, others);
    w->has_told_dirs = true;
}

/* Keep the present deadlines: a notice that is withdrawn later still took part in this end. */
void check_ending(struct world *w)
{
    w->end_at = w->now;
    for (int i = 0; i < w->s.nnodes; i++)
        w->hosts[i].end_deadline = check_earliest(w->hosts[i].deadlines);
}

static void check_left(struct world *w, int node, int64_t deadline, int64_t left)
{
    if (w->hosts[node].exit_at - left > deadline)
        fail(w, "node %d leaves %lld ms after a deadline", node,
             (long long)((w->hosts[node].exit_at - deadline) / NS_PER_MS));
}

/* A node that leaves for a notice leaves before any deadline. It waits for a save that can still
 * end until the time left is enough only for SIGKILL. The killed processes then take their time to
 * end. */
static void check_in_time(struct world *w)
{
    int64_t earliest = CLOCK_NEVER, left = in_time(w);
    bool has_meek = false;
    for (int i = 0; i < w->s.nnodes; i++) {
        earliest = clock_min(earliest, check_earliest(w->hosts[i].deadlines));
        has_meek = has_meek || w->s.leftover[i] == LEFTOVER_MEEK;
    }
    /* The nodes wait for a first step as long as for a save. */
    bool has_waited = w->hosts[0].outcome == OUTCOME_PREEMPTED && !w->record_of_run;
    if (w->hosts[0].outcome == OUTCOME_PREEMPTED_UNSAVED || has_waited || any_was_killed(w))
        left += schedule_longest(&w->s, w->s.teardown);
    if (w->hosts[0].outcome == OUTCOME_PREEMPTED_UNSAVED && has_meek)
        left += LEFTOVER_ENDS_NS;
    for (int i = 0; i < w->s.nnodes; i++)
        check_left(w, i, earliest, left);
}

/* A node that does not learn of other nodes' deadlines leaves by its own. It waits for two
 * heartbeats, and killed processes take their time to end. If messages are lost, the heartbeats
 * count from the last message that the node received. */
static void check_cut(struct world *w)
{
    int64_t left = in_time(w) + 2 * S + schedule_longest(&w->s, w->s.teardown);
    for (int i = 0; i < w->s.nnodes; i++) {
        int64_t deadline = check_earliest(w->hosts[i].deadlines), heard_at = w->hosts[i].heard_at;
        bool is_late = w->s.drop && heard_at > deadline;
        check_left(w, i, is_late ? heard_at : deadline, left);
    }
}

/* A notice stands from the start, and a rank attaches less than 12 s before the deadline, or later.
 * Then there may be no time for a save of all ranks. */
static bool attaches_late(const struct world *w)
{
    int64_t earliest = CLOCK_NEVER;
    for (int i = 0; i < w->s.nnodes; i++)
        earliest = clock_min(earliest, check_earliest(w->hosts[i].deadlines));
    return schedule_longest(&w->s, w->s.attach_at) + 12 * S > earliest;
}

/* With nothing but a notice, and enough time, every rank must have saved, once. */
static void check_benign(struct world *w)
{
    if (any_is_done(w) || (w->s.signals_all && any_has_failed(w)))
        return;
    bool may_miss = attaches_late(w);
    if (!w->s.restart.after_notice)
        check_in_time(w);
    for (int i = 0; i < w->s.nnodes; i++) {
        const struct host *host = &w->hosts[i];
        if ((host->outcome == OUTCOME_PREEMPTED_UNSAVED && !may_miss) ||
            host->outcome == OUTCOME_NODE_LOST || host->outcome == OUTCOME_FAILED ||
            host->outcome == OUTCOME_NOT_STARTED)
            fail(w, "node %d: %s (%s), though nothing was in the way of the save", i,
                 verdict_name(host->outcome), host->why);
    }
}

/* True if the rank has returned by itself. A rank that a deadline, or its own handler of SIGTERM,
 * may have ended does not count. */
static bool has_returned(const struct world *w, const struct proc *p)
{
    const struct host *host = &w->hosts[p->node];
    /* A commit may have ended the job before node 0 learned of the return. */
    bool has_commit = w->hosts[0].outcome == OUTCOME_PREEMPTED;
    int64_t unheard = has_commit ? 2 * w->s.delay_max : 0;
    bool is_by_itself = host->ended_at && host->ended_at + unheard <= w->end_at &&
                        (!host->told_leave_at || host->ended_at <= host->told_leave_at) &&
                        host->end_deadline > w->end_at + 20 * S;
    bool is_believed =
        !p->has_left_round && !w->s.is_bare[p->index] && p->page_step >= w->s.declared_last;
    return is_by_itself && !host->has_failed && has_ended_well(p) && p->is_attached && !p->is_cut &&
           (p->is_done || is_believed);
}

/* If every rank has trained to its end by itself, the job is complete. It is not trained again,
 * even if a notice holds. */
static void check_returned(struct world *w)
{
    const struct host *chief = &w->hosts[0];
    if (w->s.is_replaced || w->was_stopped || w->s.has_third_term || chief->outcome == OUTCOME_HANG)
        return;
    for (int i = 0; i < w->nall; i++)
        if (!has_returned(w, &w->procs[i]))
            return;
    if (chief->outcome != OUTCOME_COMPLETED)
        fail(w, "every rank had ended its training by itself, and node 0 says %s (%s)",
             verdict_name(chief->outcome), chief->why);
}

/* After a withdrawn notice the training goes on as if no notice had been given. */
static void check_withdrawn(struct world *w)
{
    if (had_stepped_before_notice(w) && w->hosts[0].outcome != OUTCOME_COMPLETED)
        fail(w, "the notice was withdrawn, and node 0 says %s (%s)",
             verdict_name(w->hosts[0].outcome), w->hosts[0].why);
}

/* The others detect a dead supervisor within the heartbeat's time-out, and soon leave. */
static void check_losses(struct world *w)
{
    static const int64_t limit = (15 + 2 + 10 + 10 + 5 + 5) * S;
    /* A round goes on for a while. */
    int64_t outlives = w->s.draws_needs ? 45 * S + 2 * schedule_longest(&w->s, w->s.save_time) : 0;
    for (int i = 0; i < w->s.nnodes; i++)
        for (int k = 0; k < w->s.nnodes; k++) {
            int64_t since = w->hosts[i].died_at + standstill(w); /* paused nodes run again */
            if (w->hosts[i].died_at && w->hosts[k].is_alive &&
                w->hosts[k].exit_at > since + w->s.most_grace + limit + outlives)
                fail(w, "node %d left %lld s after node %d had died", k,
                     (long long)((w->hosts[k].exit_at - w->hosts[i].died_at) / S), i);
        }
}

/* True if all nodes learn of a lost node at once: no save delays the end, and no node is cut off or
 * paused. */
static bool is_heard_at_once(const struct world *w)
{
    static const unsigned others = 1U << DO_CHECKPOINT | 1U << DO_SAVE_END | 1U << DO_ADVICE |
                                   1U << DO_PARTITION | 1U << DO_PAUSE | 1U << DO_FREEZE |
                                   1U << DO_BREAK;
    bool is = !w->first_notice_at && !w->s.own_every && !w->s.every_steps && !w->s.every_ns &&
              !w->s.drop && !w->s.reorder;
    for (int i = 0; i < w->s.nfaults; i++)
        is = is && !(others & 1U << w->s.faults[i].kind);
    return is;
}

/* A node that has died, and is known not to come back, is not waited for. */
static void check_deaths(struct world *w)
{
    int64_t limit = 3 * w->s.delay_max + 100 * NS_PER_MS;
    for (int i = 1; i < w->s.nnodes && is_heard_at_once(w); i++)
        for (int k = 0; k < w->s.nnodes; k++) {
            const struct host *host = &w->hosts[k];
            int64_t heard_at = host->stopped_at ? host->stopped_at : host->exit_at;
            if (w->hosts[i].died_heard && w->hosts[i].is_started && host->is_started &&
                host->is_alive && heard_at > w->hosts[i].died_at + limit)
                fail(w, "node %d goes on for %lld ms after node %d has died", k,
                     (long long)((heard_at - w->hosts[i].died_at) / NS_PER_MS), i);
        }
}

/* A process that dies while the job ends counts as failed only if it had announced its failure
 * before. */
void check_failed(struct world *w, const struct proc *p)
{
    struct host *host = &w->hosts[p->node];
    int64_t at = p->confessed_at ? p->confessed_at : w->now;
    if (host->has_exited || (host->stopped_at && at >= host->stopped_at))
        return;
    if (!host->failed.is_known || at < host->failed.wall)
        host->failed = (struct told){.is_known = true, .wall = at};
}

/* Processes that gave up their wait died of the same hang, and one of them is named. */
static bool is_same_hang(const struct world *w, const struct proc *p, int pid)
{
    int named = pid - 1000;
    return p->gave_up_at && named >= 0 && named < w->s.nnodes * w->s.nprocs &&
           w->procs[named].gave_up_at;
}

/* A supervisor reports a failure at once; it does not wait for the end of the process. */
void check_dying(struct world *w, const struct proc *p, const struct core_report *before)
{
    struct core_report report;
    bool is_running = before->state == NODE_RUNNING || before->state == NODE_SAVING;
    if (!is_running || before->first_cause.fault)
        return;
    core_report(w->hosts[p->node].core, &report);
    if (report.first_cause.fault == FAULT_LOST)
        return; /* every rank was done, so the earlier loss had not ended the job */
    if (w->s.signals_all && report.first_cause.code == 128 + SIGTERM)
        return; /* that command has died earlier */
    if (!report.first_cause.fault || (report.first_cause.pid != 1000 + p->index &&
                                      !is_same_hang(w, p, (int)report.first_cause.pid)))
        fail(w, "node %d knows that process %d has died, and does not report it", p->node,
             p->index);
}

/* A node that gets a request for the end of the job tells the others. The job is not started again,
 * whatever happens later. */
static void check_stop(struct world *w)
{
    int64_t by = w->stop_at + 4 * S + 8 * w->s.delay_max + standstill(w);
    if (w->end_at < w->stop_at || w->s.is_replaced || any_ended_in_silence(w) || any_has_failed(w))
        return;
    if (w->end_at > by)
        fail(w, "the end was asked for, and came %lld ms later",
             (long long)((w->end_at - w->stop_at) / NS_PER_MS));
    /* Node 0 learns at once of a request to itself. A request to another node takes longer, and
     * node 0 may decide something else meanwhile. */
    if ((w->stop_node == 0 || w->end_at > w->stop_at + 3 * S) &&
        w->hosts[0].outcome != OUTCOME_STOPPED)
        fail(w, "the end was asked for, and node 0 says %s (%s)", verdict_name(w->hosts[0].outcome),
             w->hosts[0].why);
}

/* True if the rank could not save the promised step. Either it still trained towards that step when
 * the node died, or its own saves took longer than the notice left. */
static bool missed_unsaved(const struct world *w, const struct proc *p)
{
    bool is_busy_saving = w->s.own_every && p->left_step && p->left_step < w->owed_step;
    return (p->has_missed || is_busy_saving) && !is_durable(w, p->index, w->owed_step);
}

/* Promise 4 at the end: every node has left. If no node was cut off, all have left with the same
 * code. */
void check_end(struct world *w)
{
    for (int i = 0; i < w->s.nnodes; i++) {
        const struct host *host = &w->hosts[i];
        if (host->is_alive && !host->has_exited)
            fail(w, "node %d will never exit: nothing more happens", i);
    }
    if (w->s.is_calm && w->record < w->owed_step && !any_is_done(w) && !any_is(w, missed_unsaved))
        fail(w, "every rank of a node had saved step %llu before it died; the record says %llu",
             ull(w->owed_step), ull(w->record));
    if (w->s.replace_wait) {
        replace_check_end(w);
        return;
    }
    if (all_have_started(w))
        check_losses(w);
    check_deaths(w);
    if (w->s.is_plain_restart)
        check_restart(w);
    check_first(w);
    needs_check_end(w);
    if (w->s.is_cut && all_have_started(w))
        check_cut(w);
    if (w->s.stands && w->first_notice_at && !w->s.has_loss)
        check_standing(w);
    if (w->s.repeats && w->repeated_at && !w->s.has_loss)
        check_repeated(w);
    if (w->s.is_stalled)
        check_stalled(w);
    if (w->s.has_loss || !all_have_started(w))
        return;
    for (int i = 1; i < w->s.nnodes; i++)
        if (w->hosts[i].code != w->hosts[0].code)
            fail(w, "node %d exits with %d (%s), node 0 with %d (%s)", i, w->hosts[i].code,
                 w->hosts[i].why, w->hosts[0].code, w->hosts[0].why);
    check_same_cause(w);
    check_all_told(w);
    check_signalled(w);
    if (w->stop_at)
        check_stop(w);
    check_saved_end(w);
    check_returned(w);
    check_done(w);
    if (w->s.is_benign)
        check_benign(w);
    if (w->s.is_prompt && !any_is_done(w))
        check_in_time(w);
    if (w->s.is_withdrawn)
        check_withdrawn(w);
    if (w->s.is_slowed)
        check_slowed(w);
    if (w->s.is_far)
        check_far(w);
    if (w->s.is_mended && w->hosts[0].outcome != OUTCOME_COMPLETED)
        fail(w, "processes were killed no more often than may be, and node 0 says %s (%s)",
             verdict_name(w->hosts[0].outcome), w->hosts[0].why);
    if (w->s.uses)
        check_use(w);
    if (w->s.is_lone)
        check_lone(w);
    if (w->s.is_long_saved)
        check_long_saved(w);
}
