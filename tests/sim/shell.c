/* SPDX-License-Identifier: Apache-2.0
 * The shell's part of each node: it performs the core's actions, each taking its time. See sim.h.
 */
#include "sim.h"

#include "base/log.h"
#include "core/common/verdict.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define MS NS_PER_MS
#define S  NS_PER_S

/* Saves beyond the step that is resumed from are not relied upon any more. */
static void forget_saves(struct world *w, int node)
{
    struct host *host = &w->hosts[node];
    memset(host->held, 0, sizeof host->held);
    for (int i = node * w->s.nprocs; i < (node + 1) * w->s.nprocs; i++) {
        size_t n = 0, all = w->ndurable[i];
        for (size_t k = 0; k < all && k < ARRAY_LEN(w->durable[0]); k++)
            if (w->durable[i][k] <= w->base_step)
                w->durable[i][n++] = w->durable[i][k];
        w->ndurable[i] = n;
    }
}

static void begin_generation(struct world *w, int node, const struct action *a)
{
    struct host *host = &w->hosts[node];
    check_generation(w, node, a->start.generation, a->start.resume_step);
    w->generation = a->start.generation;
    w->base_step = a->start.resume_step;
    host->generation = a->start.generation;
    host->failed = (struct told){0};
    for (int i = 0; node == 0 && i < w->nhosts; i++) /* node 0 forgets the open requests */
        w->hosts[i].told = (struct told){0};
    host->signalled_at = host->killed_at = host->stopped_at = host->told_leave_at = 0;
    host->nended = 0;
    host->ended_at = 0;
    host->has_died_of_term = host->has_failed = host->had_notice = host->held_notice =
        host->had_signal = false;
    for (int i = 0; i < MAX_NOTICES; i++)
        if (host->deadlines[i] <= w->now)
            host->deadlines[i] = 0;
    if (!check_holds_notice(host))
        host->held_notice_at = 0;
    forget_saves(w, node);
}

/* Never returns the same port twice. */
static void act_port(struct world *w, int node, const struct action *a)
{
    *a->port = ++w->port;
    trace(w, "node %d: picks port %u", node, w->port);
}

static void act_start(struct world *w, int node, const struct action *a)
{
    lease_check_start(w, node);
    if (w->s.replace_wait && node >= w->s.nnodes) {
        replace_ghost_starts(w, node);
        return;
    }
    w->hosts[node].is_started = true;
    if (w->hosts[node].committed < a->start.resume_step)
        w->hosts[node].committed =
            a->start.resume_step; /* a replacement learns of it as it joins */
    replace_check_start(w, node, a->start.generation);
    check_port(w, node, a->start.port);
    health_check_start(w, node, a->start.generation);
    network_check_start(w, node);
    if (node >= w->s.nnodes) {
        fail(w, "a second supervisor of a node starts processes");
        return;
    }
    if (a->start.generation > 0)
        begin_generation(w, node, a);
    w->hosts[node].has_leftover = w->s.leftover[node] != LEFTOVER_NONE;
    trace(w, "node %d: starts its processes, generation %u", node, a->start.generation);
    proc_start(w, node);
}

/* Processes that a command has left running beside the training. They end of SIGKILL, or, if meek,
 * of SIGTERM in their own time. */
static void signal_leftover(struct world *w, int node, int number)
{
    const struct host *host = &w->hosts[node];
    bool ends = number == SIGKILL || (number == SIGTERM && w->s.leftover[node] == LEFTOVER_MEEK);
    if (host->has_leftover && ends)
        world_at(w, (struct happening){.at = w->now + rng_time(&w->rng, 0, LEFTOVER_ENDS_NS),
                                       .what = H_LEFTOVER_GONE,
                                       .node = node});
}

static void act_signal(struct world *w, int node, const struct action *a)
{
    if (w->s.replace_wait && node >= w->s.nnodes)
        replace_signal(w, node, a->signal.number);
    if (node >= w->s.nnodes)
        return; /* it has no processes */
    trace(w, "node %d: signal %d to its processes", node, a->signal.number);
    check_signal(w, node, a->signal.target);
    if (!w->hosts[node].signalled_at)
        w->hosts[node].signalled_at = w->now;
    if (a->signal.number == SIGKILL)
        check_kill(w, node);
    if (a->signal.number == SIGKILL && !w->hosts[node].killed_at)
        w->hosts[node].killed_at = w->now;
    if (a->signal.target == TARGET_TREE)
        signal_leftover(w, node, a->signal.number);
    for (int i = 0; i < w->s.nprocs; i++)
        proc_signal(w, world_proc(w, node, i), a->signal.number);
}

/* A process that says nothing is known to have given up when it has died. One without a connection
 * cannot say it. A message that is lost is repeated by a later heartbeat. */
static bool has_told_to_give_up(const struct world *w, const struct proc *p)
{
    int64_t wait = 2 * w->s.delay_max + (w->s.says_so ? 0 : S) + (w->s.drop ? 4 * S : 0);
    return p->gave_up_at && !p->is_cut && w->now > p->gave_up_at + wait;
}

static void act_gate(struct world *w, int node, const struct action *a)
{
    struct host *host = &w->hosts[node];
    host->gate = a->gate;
    if (gate_tag(a->gate) == GATE_TAG_LEAVE && !host->told_leave_at) {
        host->told_leave_at = w->now;
        for (int i = 0; node == 0 && i < w->nall; i++) {
            w->procs[i].left_step = w->procs[i].page_step;
            w->procs[i].had_given_up = has_told_to_give_up(w, &w->procs[i]);
        }
    }
    trace(w, "node %d: gate step %llu tag %u%s%s", node, ull(gate_step(a->gate)), gate_tag(a->gate),
          gate_is_decided(a->gate) ? " decided" : "", gate_ends_run(a->gate) ? " ends run" : "");
}

static void act_read_steps(struct world *w, int node, const struct action *a)
{
    world_at(w, (struct happening){.at = w->now + rng_time(&w->rng, 0, MS / 10),
                                   .what = H_READ_STEPS,
                                   .node = node});
}

/* Most often in time, sometimes not at all. But a process that a debugger has stopped is seen at
 * once. */
static void act_examine(struct world *w, int node, const struct action *a)
{
    int64_t took = rng_time(&w->rng, MS, rng_chance(&w->rng, 100) ? 60 * S : 8 * S);
    int pid = 0;
    bool is_traced = false;
    for (int i = 0; i < w->s.nprocs && node < w->s.nnodes && !is_traced; i++) {
        const struct proc *p = world_proc(w, node, i);
        if (p->stopped_until <= w->now || !proc_is_alive(p))
            continue;
        pid = 1000 + p->index;
        is_traced = p->is_traced;
    }
    world_at(w, (struct happening){.at = w->now + (is_traced ? MS : took),
                                   .what = H_EXAMINED,
                                   .node = node,
                                   .arg = a->examine,
                                   .arg2 = (uint64_t)pid * 2 + is_traced});
}

/* Draws nothing, so that the other schedules of the seeds stay as they are. */
static void act_seek_dir(struct world *w, int node, const struct action *a)
{
    trace(w, "node %d: looks for the directory of node 0", node);
    bool is_drawn = w->s.draws_needs && node < w->s.nnodes;
    if (is_drawn && w->s.sees_dirs_late) {
        w->hosts[node].seeks_dir = true;
        return;
    }
    world_at(w, (struct happening){.at = w->now + (int64_t)(w->s.seed % 5) * S,
                                   .what = H_DIR_SEEN,
                                   .node = node,
                                   .arg = is_drawn ? w->s.has_other_dir[node]
                                                   : (w->s.seed / 8 + (uint64_t)node) % 3 == 0});
}

static void act_check(struct world *w, int node, const struct action *a)
{
    health_check(w, node);
}

static void act_proc_send(struct world *w, int node, const struct action *a)
{
    if (node >= w->s.nnodes)
        return;
    struct proc *p = world_proc(w, node, a->proc.slot);
    struct procmsg *copy = malloc(sizeof *copy);
    *copy = *a->proc.msg;
    int64_t at = w->now + rng_time(&w->rng, 0, MS / 5);
    p->told_at = at > p->told_at ? at : p->told_at + 1;
    proc_at(w, p, (struct happening){.at = p->told_at, .what = H_TO_PROC, .data = copy});
}

static int64_t disk_time(struct world *w)
{
    return rng_chance(&w->rng, w->s.slow_disk) ? rng_time(&w->rng, S, 15 * S)
                                               : rng_time(&w->rng, MS / 10, 20 * MS);
}

static void act_prepare(struct world *w, int node, const struct action *a)
{
    struct host *host = &w->hosts[node];
    host->held[0] = a->step;
    host->held[1] = a->own;
    host->nwriting++;
    trace(w, "node %d: prepares %llu, and holds %llu", node, ull(a->step), ull(a->own));
    check_held(w, w->record);
    world_at(w, (struct happening){.at = w->now + disk_time(w),
                                   .what = H_PREPARED,
                                   .node = node,
                                   .arg = a->step,
                                   .arg2 = rng_chance(&w->rng, w->s.bad_disk)});
}

static void act_commit(struct world *w, int node, const struct action *a)
{
    bool is_bad = rng_chance(&w->rng, w->s.bad_disk);
    trace(w, "node %d: writes the commit record of step %llu", node, ull(a->step));
    check_commit(w, a);
    w->written_at = CLOCK_NEVER;
    if (w->now - w->begun_at > w->slowest_save)
        w->slowest_save = w->now - w->begun_at;
    if (!is_bad) {
        w->record = a->step;
        w->record_at = w->now;
        w->record_of_run = true;
    }
    world_at(w, (struct happening){.at = w->now + disk_time(w),
                                   .what = H_COMMITTED,
                                   .node = node,
                                   .arg = a->step,
                                   .arg2 = is_bad});
}

static void act_close(struct world *w, int node, const struct action *a)
{
    net_close(w, node, a->peer.conn);
}

static void act_committed(struct world *w, int node, const struct action *a)
{
    struct host *host = &w->hosts[node];
    check_committed(w, node, a);
    host->committed = a->step;
}

/* No step is left that could be saved. */
static bool any_is_at_its_last_step(const struct world *w)
{
    for (int i = 0; i < w->nall; i++)
        if (w->procs[i].step >= w->s.last_step)
            return true;
    return false;
}

static void act_log(struct world *w, int node, const struct action *a)
{
    if (a->log.level <= LOG_INFO)
        trace(w, "node %d: %s: %s", node, a->log.topic, a->log.text);
    if (node == 0 && strstr(a->log.text, "(ballot 1)"))
        w->proposed_at = w->now;
    if (node == 0 && str_starts(a->log.text, "every rank saves step ")) {
        w->ends_run = strstr(a->log.text, ", then leaves");
        needs_decided(w, a->log.text);
    }
    if (node == 0 && !w->end_at && str_is(a->log.topic, "ending"))
        check_ending(w);
    if (w->s.is_saved_end && strstr(a->log.text, "goes on: the save failed") && !any_is_done(w) &&
        !any_is_at_its_last_step(w))
        fail(w, "node %d: %s", node, a->log.text);
    if (node == 0 &&
        (strstr(a->log.text, ") is replaced by ") || str_starts(a->log.text, "the place of node ")))
        replace_check_taken(w);
    if (node == 0)
        spares_logged(w, a->log.text);
    if (node == 0 && str_is(a->log.topic, "lost") && strstr(a->log.text, "it is not healthy"))
        health_lost(w);
    if (strstr(a->log.text, " pairs, median "))
        network_check_result(w);
    if (strstr(a->log.text, "but another one"))
        check_dirs_told(w, node);
    if (node == 0 && strstr(a->log.text, "goes on: "))
        w->is_to_save_and_end = false;
    if (str_is(a->log.topic, "bug"))
        fail(w, "node %d: %s", node, a->log.text);
}

static void act_state(struct world *w, int node, const struct action *a)
{
    struct host *host = &w->hosts[node];
    struct core_report report;
    if (host->spare)
        return;
    core_report(host->core, &report);
    if (node == 0)
        check_cause(w, &report);
    if (report.restarts_after == OUTCOME_PREEMPTED)
        host->saved_generation = 1 + report.generation;
    if (host->stopped_at)
        return;
    if (report.state != NODE_STOPPING && report.state != NODE_LEAVING)
        return;
    host->stopped_at = w->now;
    host->first_outcome = report.outcome;
    str_copy(host->first_why, sizeof host->first_why, report.why);
}

static void act_exit(struct world *w, int node, const struct action *a)
{
    struct host *host = &w->hosts[node];
    host->has_exited = true;
    host->outcome = a->exit.outcome;
    host->code = a->exit.code;
    host->exit_at = w->now;
    if (host->core)
        core_report(host->core, &host->report);
    str_copy(host->why, sizeof host->why, a->exit.text);
    trace(w, "node %d: exits with %d, %s: %s", node, a->exit.code, verdict_name(a->exit.outcome),
          a->exit.text);
    if (node == 0)
        check_last_mark(w);
    if (node == 0)
        spares_check_end(w);
    health_check_exit(w, node);
    if (spares_has(w, node))
        spares_exit(w, node, a);
    else if (node < w->s.nnodes)
        check_exit(w, node);
    else if (w->s.replace_wait)
        replace_check_exit(w, node);
    else
        check_extra(w);
    /* The node's last messages are still delivered; its connections close after them. */
    for (int i = 1; i < w->nhosts; i++)
        if ((i == node || node == 0) && w->hosts[i].conn)
            net_close(w, node, node == 0 ? w->hosts[i].conn : CONN_CHIEF);
}

static void act_uncount(struct world *w, int node, const struct action *a)
{
    w->hosts[node].is_uncounted = true;
}

static void act_note_end(struct world *w, int node, const struct action *a)
{
    trace(w, "node %d: records an end of %lld ms", node, (long long)(a->end_ns / NS_PER_MS));
    check_noted_end(w, a->end_ns);
}

static void act_strike(struct world *w, int node, const struct action *a)
{
    health_struck(w, node);
}

/* A second supervisor of node 0 marks for itself. */
static void act_mark(struct world *w, int node, const struct action *a)
{
    if (node == 0)
        check_mark(w, a);
}

/* NULL: nothing happens. */
static void (*const acts[ACT__COUNT])(struct world *w, int node, const struct action *a) = {
    [ACT_START] = act_start,         [ACT_SIGNAL] = act_signal,
    [ACT_GATE] = act_gate,           [ACT_READ_STEPS] = act_read_steps,
    [ACT_PROC_SEND] = act_proc_send, [ACT_PREPARE] = act_prepare,
    [ACT_COMMIT] = act_commit,       [ACT_CONNECT] = net_connect,
    [ACT_SEND] = net_send,           [ACT_CLOSE] = act_close,
    [ACT_COMMITTED] = act_committed, [ACT_LOG] = act_log,
    [ACT_STATE] = act_state,         [ACT_EXIT] = act_exit,
    [ACT_SEEK_DIR] = act_seek_dir,   [ACT_EXAMINE] = act_examine,
    [ACT_PORT] = act_port,           [ACT_UNCOUNT] = act_uncount,
    [ACT_NOTE_END] = act_note_end,   [ACT_MARK] = act_mark,
    [ACT_CHECK] = act_check,         [ACT_TAKE] = spares_take,
    [ACT_STRIKE] = act_strike,       [ACT_MEASURE] = network_measure,
};

/* The actions with which the shell writes the state anew, for people. */
static bool tells_state(enum action_type type)
{
    return type == ACT_STATE || type == ACT_GATE || type == ACT_COMMITTED;
}

void shell_perform(void *shell, const struct action *action)
{
    struct seat *seat = shell;
    if (tells_state(action->type))
        seat->world->hosts[seat->number].tells_state = true;
    if (acts[action->type])
        acts[action->type](seat->world, seat->number, action);
}
