/* SPDX-License-Identifier: Apache-2.0
 * Time, the queue of events, and the handling of each event. See sim.h.
 */
#include "sim.h"

#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define MS NS_PER_MS
#define S  NS_PER_S

/* By then everything that a schedule wants has been done. Nodes that still run are told to stop,
 * and must do so. */
#define HORIZON_NS (400 * S)
#define END_NS     (HORIZON_NS + 200 * S)
/* Far more than any schedule needs. */
#define EVENTS_MAX 100000

void trace(struct world *w, const char *fmt, ...)
{
    if (!w->trace)
        return;
    va_list ap;
    va_start(ap, fmt);
    fprintf(w->trace, "%10.4f  ", (double)w->now / S);
    vfprintf(w->trace, fmt, ap);
    fputc('\n', w->trace);
    va_end(ap);
}

void fail(struct world *w, const char *fmt, ...)
{
    if (w->failure[0])
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(w->failure, sizeof w->failure, fmt, ap);
    va_end(ap);
    trace(w, "BROKEN PROMISE: %s", w->failure);
}

/* --- the queue --- */

void world_at(struct world *w, struct happening h)
{
    assert(h.at >= w->now);
    h.seq = w->seq++;
    h.life = w->hosts[h.node].life;
    heap_add(&w->queue, &h, sizeof h);
}

/* Events that wait together are seen in their order of arrival, even if one had to wait more than
 * once. */
static void put_off(struct world *w, struct happening h, int64_t until)
{
    assert(until >= w->now);
    h.at = until;
    heap_add(&w->queue, &h, sizeof h);
}

/* --- events --- */

static void set_timer(struct world *w, int node)
{
    struct host *host = &w->hosts[node];
    int64_t wake = host->spare ? spare_wake_at(host->spare) : core_wake_at(host->core);
    if (wake != CLOCK_NEVER)
        wake -= host->clock;
    if (wake == host->timer_at)
        return;
    host->timer_at = wake;
    host->timer_epoch++;
    if (wake != CLOCK_NEVER)
        world_at(w, (struct happening){.at = wake > w->now ? wake : w->now,
                                       .what = H_TIMER,
                                       .node = node,
                                       .epoch = host->timer_epoch});
}

/* A state that is not told stays for ever in what people see. */
static void check_state_is_told(struct world *w, struct host *host)
{
    struct core_report report;
    core_report(host->core, &report);
    if (!host->tells_state && report.state != host->seen_state)
        fail(w, "node %d is \"%s\", and has told last that it is \"%s\"", host->number,
             node_state_name(report.state), node_state_name(host->seen_state));
    host->seen_state = report.state;
    host->tells_state = false;
}

void world_event(struct world *w, int node, struct event event)
{
    struct host *host = &w->hosts[node];
    if (!host->is_alive || host->has_exited)
        return;
    event.now = w->now + host->clock;
    event.wall = w->now;
    w->events++;
    if (host->spare) {
        spare_handle(host->spare, &event);
        if (!host->has_exited)
            set_timer(w, node);
        spares_settle(w, node);
        return;
    }
    core_handle(host->core, &event);
    if (!host->has_exited)
        set_timer(w, node);
    check_state_is_told(w, host);
    if (node == 0)
        check_told(w, 0, NULL);
    if (node == 0 && w->s.replace_wait)
        replace_check_wait(w), spares_check_wait(w);
}

struct proc *world_proc(struct world *w, int node, int slot)
{
    return &w->procs[node * w->s.nprocs + slot];
}

/* --- what happens --- */

/* The pages of a node's processes, as they were read. */
struct page_words {
    uint64_t steps[CORE_SLOTS_MAX];
    uint8_t phases[CORE_SLOTS_MAX];
    struct page_own own[CORE_SLOTS_MAX];
};

/* Any rank may look slow for a moment, so that the nodes judge in every way. */
static struct page_own any_own(struct world *w)
{
    if (!w->s.marks_waits)
        return (struct page_own){0};
    return (struct page_own){.own_ns = (uint64_t)rng_time(&w->rng, MS, 3 * MS), .whole_ns = 4 * MS};
}

/* Every process does nothing but wait for data. */
static uint64_t loading_of(const struct world *w, const struct proc *p)
{
    return p->loads_since ? (uint64_t)(w->now - p->loads_since) : 0;
}

static void on_read_steps(struct world *w, const struct happening *h)
{
    struct page_words *words = calloc(1, sizeof *words);
    for (int i = 0; i < w->s.nprocs && h->node < w->s.nnodes; i++) {
        words->steps[i] = world_proc(w, h->node, i)->page_step;
        words->phases[i] = world_proc(w, h->node, i)->page_phase;
        words->own[i] = any_own(w);
    }
    world_at(w, (struct happening){.at = w->now + rng_time(&w->rng, 0, MS / 10),
                                   .what = H_STEPS,
                                   .node = h->node,
                                   .data = words});
}

static void on_steps(struct world *w, const struct happening *h)
{
    struct page_words *words = h->data;
    for (int i = 0; i < w->s.nprocs && h->node < w->s.nnodes; i++)
        words->own[i].loading_ns = loading_of(w, world_proc(w, h->node, i));
    world_event(w, h->node,
                (struct event){.type = EV_STEPS,
                               .steps = {.by_slot = words->steps,
                                         .phase_by_slot = words->phases,
                                         .own_by_slot = words->own}});
    if (w->s.marks_waits && h->node < w->s.nnodes)
        check_slow(w, h->node);
    if (h->node < w->s.nnodes)
        check_loading(w, h->node);
    check_loading(w, 0);
}

static void on_examined(struct world *w, const struct happening *h)
{
    bool is_traced = h->arg2 % 2;
    if (is_traced)
        w->excused_at = w->now;
    world_event(w, h->node,
                (struct event){.type = EV_EXAMINED,
                               .examined = {.number = (uint32_t)h->arg,
                                            .stopped_pid = (int)(h->arg2 / 2),
                                            .is_traced = is_traced}});
}

static void on_dir_seen(struct world *w, const struct happening *h)
{
    w->hosts[h->node].has_other_dir = h->arg;
    w->hosts[h->node].dir_seen_at = w->now;
    world_event(w, h->node, (struct event){.type = EV_DIR_SEEN, .is_other_dir = h->arg});
}

/* The round in which all processes of a node have saved, 0: none. */
static uint32_t saved_tag(const struct world *w, int node)
{
    for (uint32_t tag = 63; tag > 0; tag--) {
        int n = 0;
        for (int i = 0; i < w->s.nprocs; i++)
            n += w->procs[node * w->s.nprocs + i].save_of_tag[tag] > 0;
        if (n == w->s.nprocs)
            return tag;
    }
    return 0;
}

/* The node's supervisor has just reported that all is saved. When the chief has the report, the
 * node dies, and the round must still be committed. */
static void die_when_saved(struct world *w, int node, uint64_t step)
{
    struct host *host = &w->hosts[node];
    uint32_t tag = saved_tag(w, node);
    if (!host->dies_when_saved || !tag || w->procs[node * w->s.nprocs].save_of_tag[tag] != step)
        return;
    host->dies_when_saved = false;
    w->owed_step = step;
    world_at(w, (struct happening){.at = w->now + w->s.delay_max + rng_time(&w->rng, MS, 50 * MS),
                                   .what = H_KILL_NODE,
                                   .node = node});
}

static void on_written(struct world *w, const struct happening *h)
{
    struct err err = {0};
    bool is_own = h->what == H_PREPARED;
    bool is_ghost = w->s.replace_wait && h->node >= w->s.nnodes;
    w->hosts[h->node].nwriting -= is_own;
    if (!is_own && h->node == 0)
        w->written_at = w->now;
    if (!is_own && h->node == 0 && w->begun_at && w->first_save == 0)
        w->first_save = w->now - w->begun_at;
    if (h->arg2 && w->s.is_replaced)
        check_replaced(w, h->node);
    if (h->arg2)
        err_set(&err, w->s.is_replaced ? ERR_REPLACED : ERR_SYSTEM, 28, "cannot write the record");
    world_event(w, h->node,
                (struct event){.type = is_own ? EV_PREPARED : EV_COMMITTED,
                               .unwritten = h->arg2 ? &err : NULL,
                               .paths = w->s.paths[h->node % MAX_NODES]});
    if (is_own && !h->arg2 && !is_ghost)
        die_when_saved(w, h->node, h->arg);
}

void world_kill(struct world *w, int node)
{
    if (!w->hosts[node].is_alive || w->hosts[node].has_exited)
        return;
    w->hosts[node].is_alive = false;
    w->hosts[node].died_at = w->now;
    w->hosts[node].died_heard =
        w->s.is_direct && node > 0 && w->hosts[node].is_up && !net_is_cut(w, node);
    for (int i = 0; i < w->s.nprocs && node < w->s.nnodes; i++) {
        struct proc *p = world_proc(w, node, i);
        p->state = p->state == PROC_NONE ? PROC_NONE : PROC_DEAD;
        p->epoch++;
    }
    net_host_died(w, node);
    for (int i = 0; w->s.misses_nodes && node < w->s.nnodes && i < w->nall; i++)
        if (w->procs[i].node != node)
            proc_miss(w, &w->procs[i]);
}

static void on_kill_node(struct world *w, const struct happening *h)
{
    world_kill(w, h->node);
}

static void on_kill_proc(struct world *w, const struct happening *h)
{
    if (w->hosts[h->node].is_alive)
        proc_die(w, &w->procs[h->proc], SIGKILL);
}

/* A signal is given once; a source that repeats its notice can leave less time. */
static void hold(struct world *w, int node, int notice, int64_t left)
{
    int64_t *deadline = &w->hosts[node].deadlines[notice];
    if (!w->hosts[node].held_notice_at)
        w->hosts[node].held_notice_at = w->now;
    if (!*deadline || (notice != NOTICE_OF_SIGNAL && w->now + left < *deadline))
        *deadline = w->now + left;
}

/* An event of a command: of the process, or of the shell around it. */
static void tell_of_command(struct world *w, const struct proc *p, enum event_type type, int status)
{
    int pid = (w->s.has_shells ? 500 : 1000) + p->index;
    world_event(
        w, p->node,
        (struct event){.type = type, .child = {.index = p->slot, .pid = pid, .status = status}});
}

/* The scheduler signals every process. Those that are attached catch it. */
static void end_shells(struct world *w, int node)
{
    for (int i = 0; i < w->s.nprocs; i++)
        if (!world_proc(w, node, i)->is_attached || !proc_is_alive(world_proc(w, node, i)))
            return;
    for (int i = 0; i < w->s.nprocs; i++) {
        struct proc *p = world_proc(w, node, i);
        if (p->has_lost_shell)
            continue;
        p->has_lost_shell = true;
        trace(w, "process %d: its shell dies of SIGTERM", p->index);
        tell_of_command(w, p, EV_CHILD_EXITED, SIGTERM);
    }
}

/* The scheduler's signal reaches the supervisor up to a second after the processes. A command that
 * has not attached dies of it. */
static void signal_later(struct world *w, const struct happening *h, int node)
{
    struct rng r = {w->s.seed + (uint64_t)w->now};
    struct happening later = *h;
    later.at = w->now + rng_time(&r, 0, rng_chance(&r, 500) ? 5 * MS : 900 * MS);
    later.arg2 = 1;
    for (int i = 0; i < w->s.nprocs; i++)
        if (!world_proc(w, node, i)->is_attached)
            proc_signal(w, world_proc(w, node, i), SIGTERM);
    world_at(w, later);
}

static void signal_node(struct world *w, int node, int number)
{
    bool kills_shells = w->s.has_shells && number == SIGTERM && node < w->s.nnodes;
    bool are_first = kills_shells && rng_chance(&w->rng, 500);
    w->moved_at = w->now;
    if (w->first_notice_at == 0 && number == SIGTERM)
        w->first_notice_at = w->now;
    if (number == SIGTERM)
        hold(w, node, NOTICE_OF_SIGNAL, w->s.grace);
    if (are_first)
        end_shells(w, node);
    world_event(w, node, (struct event){.type = EV_SIGNAL, .signal = {.number = number}});
    if (kills_shells && !are_first)
        end_shells(w, node);
    for (int i = 0; i < w->s.nprocs && number == SIGTERM && node < w->s.nnodes; i++)
        proc_catch(w, world_proc(w, node, i));
}

/* A source that gives a repeated notice once more, and leaves no less time, says nothing new. */
static bool says_again(const struct world *w, const struct fault *f, int64_t left)
{
    int64_t until = w->hosts[f->node].repeated[f->id];
    bool is_notice = f->kind == DO_NOTICE || f->kind == DO_REPEAT;
    return is_notice && until && (f->length == 0 || w->now + left > until - S);
}

static void note_notice(struct world *w, const struct fault *f)
{
    struct host *host = &w->hosts[f->node];
    int64_t left = f->length > 0 ? f->length : w->s.grace;
    if (says_again(w, f, left))
        return;
    host->repeated[f->id] = f->kind == DO_REPEAT && !host->deadlines[f->id] ? w->now + left : 0;
    if (w->first_notice_at == 0 && f->kind == DO_NOTICE)
        w->first_notice_at = w->now;
    if (f->kind == DO_NOTICE)
        hold(w, f->node, f->id, left);
    else if (f->kind != DO_REPEAT)
        host->deadlines[f->id] = 0;
}

static void source_says(struct world *w, const struct fault *f)
{
    static const enum notice_type types[DO__COUNT] = {[DO_NOTICE] = NOTICE_TERMINATE,
                                                      [DO_REPEAT] = NOTICE_TERMINATE,
                                                      [DO_CANCEL] = NOTICE_CANCEL,
                                                      [DO_ADVICE] = NOTICE_CHECKPOINT};
    struct notice notice = {.type = types[f->kind],
                            .is_repeated = f->kind == DO_REPEAT,
                            .source = "cloud",
                            .left_ns = f->length ? f->length : NOTICE_LEFT_UNKNOWN};
    snprintf(notice.id, sizeof notice.id, "event %d", f->id);
    w->moved_at = w->excused_at = w->now;
    if (f->kind == DO_REPEAT && !w->repeated_at)
        w->repeated_at = w->now;
    note_notice(w, f);
    if (!check_holds_notice(&w->hosts[f->node])) {
        w->hosts[f->node].held_notice = false;
        w->hosts[f->node].held_notice_at = 0;
    }
    world_event(w, f->node, (struct event){.type = EV_NOTICE, .notice = &notice});
}

static void ask_to_stop(struct world *w, int node)
{
    w->was_stopped = true;
    if (!w->stop_at && !w->end_at) {
        w->stop_at = w->now;
        w->stop_node = node;
    }
    world_event(w, node, (struct event){.type = EV_STOP_ASKED, .stop.why = "stopped by hand"});
}

static void ask_to_save_and_end(struct world *w, int node)
{
    struct core_report report;
    core_report(w->hosts[node].core, &report);
    bool can_save = report.state == NODE_RUNNING || report.state == NODE_SAVING;
    w->was_stopped = true;
    w->is_to_save_and_end = w->is_to_save_and_end || (node == 0 && can_save && !w->end_at);
    world_event(
        w, node,
        (struct event){.type = EV_STOP_ASKED, .stop = {.why = "stopped by hand", .saves = true}});
}

/* At the horizon. A job that goes on after its notices is not ended by a notice. */
static void tell_to_stop(struct world *w, int node)
{
    if (w->s.restart.after_notice)
        ask_to_stop(w, node);
    else
        signal_node(w, node, SIGTERM);
}

static void pause_host(struct world *w, int node, int64_t until)
{
    if (w->hosts[node].paused_until < until)
        w->hosts[node].paused_until = until;
}

/* Before its start, another supervisor may take the place of a node: the unit tests check this
 * case. */
static void start_extra(struct world *w, const struct fault *f)
{
    if (!w->hosts[f->node].is_started || w->nhosts > w->s.nnodes)
        return;
    if (f->kind == DO_RESTART)
        world_kill(w, f->node);
    w->extra_is = f->kind;
    /* The last messages of the first supervisor have arrived by then. */
    int64_t at = w->now + w->s.delay_max + rng_time(&w->rng, MS, S);
    world_at(w, (struct happening){.at = at, .what = H_EXTRA, .arg = (uint64_t)f->node});
}

static void stop_proc(struct world *w, const struct fault *f)
{
    w->procs[f->proc].stopped_until = w->now + f->length;
    w->procs[f->proc].is_traced = f->is_traced;
}

static void on_fault(struct world *w, const struct happening *h)
{
    const struct fault *f = &w->s.faults[h->arg];
    struct host *host = &w->hosts[f->node];
    char text[FAULT_TEXT];
    if (!host->is_alive || host->has_exited || (f->node >= w->s.nnodes && !spares_has(w, f->node)))
        return;
    bool is_signal = f->kind == DO_TERM || f->kind == DO_CHECKPOINT || f->kind >= DO_END;
    if (is_signal && w->now < host->paused_until) {
        struct happening later = *h;
        later.at = host->paused_until;
        world_at(w, later);
        return;
    }
    trace(w, "--- %s", fault_text(f, text));
    switch (f->kind) {
    case DO_TERM:
        if (w->s.signals_all && !h->arg2 && f->node < w->s.nnodes)
            signal_later(w, h, f->node);
        else
            signal_node(w, f->node, SIGTERM);
        break;
    case DO_CHECKPOINT:
        signal_node(w, f->node, SIGUSR2);
        break;
    case DO_KILL_PROC:
        proc_die(w, &w->procs[f->proc], SIGKILL);
        break;
    case DO_HANG:
        proc_hang(w, &w->procs[f->proc]);
        break;
    case DO_STOP:
        stop_proc(w, f);
        break;
    case DO_LAG:
        w->procs[f->proc].lags_until = w->now + f->length;
        break;
    case DO_KILL_NODE:
        world_kill(w, f->node);
        break;
    case DO_BREAK:
        net_break(w, f->node);
        break;
    case DO_PARTITION:
    case DO_ONE_WAY:
        net_fail(w, f);
        break;
    case DO_PAUSE:
        pause_host(w, f->node, w->now + f->length);
        break;
    case DO_FREEZE:
        for (int i = 0; i < w->s.nnodes; i++)
            pause_host(w, i, w->now + 2 * f->length);
        break;
    case DO_KILL_SAVED:
        host->dies_when_saved = f->node > 0; /* without the chief there is no commit */
        break;
    case DO_RESTART:
    case DO_TWIN:
        start_extra(w, f);
        break;
    case DO_CONFESS:
        proc_fail(w, &w->procs[f->proc], f->length);
        break;
    case DO_END:
        ask_to_stop(w, f->node);
        break;
    case DO_SAVE_END:
        ask_to_save_and_end(w, f->node);
        break;
    case DO_REPEAT:
    case DO_NOTICE:
    case DO_CANCEL:
    case DO_ADVICE:
        source_says(w, f);
        break;
    case DO__COUNT:
        break;
    }
}

/* A node has all reports of its commands. */
static void note_end(struct world *w, int node)
{
    struct host *host = &w->hosts[node];
    for (int i = 0; i < w->s.nprocs; i++)
        if (host->nended < w->s.nprocs || world_proc(w, node, i)->is_going)
            return;
    host->ended_at = w->now;
    host->had_notice = w->first_notice_at > 0;
    host->held_notice = check_holds_notice(host);
    host->had_signal = host->deadlines[NOTICE_OF_SIGNAL] > 0;
}

static void note_gone(struct world *w, const struct happening *h)
{
    w->procs[h->proc].is_going = false;
    note_end(w, h->node);
}

static void from_proc(struct world *w, const struct happening *h)
{
    const struct proc *p = &w->procs[h->proc];
    const struct procmsg *msg = h->data;
    struct core_report report;
    core_report(w->hosts[h->node].core, &report);
    if (msg->type == PROCMSG_ATTACH && report.round.id > 0)
        w->procs[h->proc].exempt_tag = report.round.id - (report.state == NODE_SAVING);
    struct event event = {
        .type = msg->type == PROCMSG_ATTACH ? EV_PROC_ATTACHED : EV_PROC_MESSAGE,
        .proc = {
            .slot = p->slot, .pid = 1000 + p->index, .msg = msg, .loading_ns = loading_of(w, p)}};
    if (msg->type == PROCMSG_CLOSE) {
        w->procs[h->proc].has_left_round = report.state == NODE_SAVING;
        note_gone(w, h);
    }
    if (msg->type == PROCMSG_ATTACH) {
        needs_attached(w, &w->procs[h->proc], msg->flags);
        w->procs[h->proc].loads_since = w->now;
    }
    if (msg->type == PROCMSG_ERROR)
        w->procs[h->proc].confessed_at = w->now;
    world_event(w, h->node, event);
    if (msg->type == PROCMSG_CLOSE)
        check_loaded(w, h->node, &event);
}

static void proc_gone(struct world *w, const struct happening *h)
{
    note_gone(w, h);
    world_event(w, h->node,
                (struct event){.type = EV_PROC_GONE,
                               .proc = {.slot = w->procs[h->proc].slot,
                                        .step = h->arg,
                                        .loading_ns = loading_of(w, &w->procs[h->proc])}});
}

static void child_started(struct world *w, const struct happening *h)
{
    if (w->hosts[h->node].is_bad)
        replace_start_badly(w, &w->procs[h->proc]);
    else
        tell_of_command(w, &w->procs[h->proc], EV_CHILD_STARTED, 0);
}

static void child_dying(struct world *w, const struct happening *h)
{
    const struct proc *p = &w->procs[h->proc];
    struct core_report before;
    if (!w->hosts[h->node].is_alive || h->generation != p->generation || w->s.has_shells)
        return;
    core_report(w->hosts[h->node].core, &before);
    check_failed(w, p);
    tell_of_command(w, p, EV_CHILD_DYING, (int)h->arg);
    check_dying(w, p, &before);
}

/* The command runs on until it is ended. */
static void child_bad(struct world *w, const struct happening *h)
{
    struct proc *p = &w->procs[h->proc];
    struct host *host = &w->hosts[h->node];
    struct core_report before;
    if (!host->is_alive || h->generation != p->generation || p->has_lost_shell || !proc_is_alive(p))
        return;
    core_report(host->core, &before);
    trace(w, "process %d: prints a line that is a failure", p->index);
    p->has_bad_line = !p->has_missed;
    host->has_failed = true;
    check_failed(w, p);
    world_event(
        w, h->node,
        (struct event){.type = EV_CHILD_BAD, .child = {.index = p->slot, .line = "loss: nan"}});
    if (!w->s.has_shells)
        check_dying(w, p, &before);
}

static void miss_process(struct world *w, const struct happening *h)
{
    for (int i = 0; i < w->nall; i++)
        if (i != h->proc && w->procs[i].generation == h->generation)
            proc_miss(w, &w->procs[i]);
}

/* The end of the last command is reported after the end of the tree, as in src/run. */
static void child_exited(struct world *w, const struct happening *h)
{
    const struct proc *p = &w->procs[h->proc];
    struct host *host = &w->hosts[h->node];
    if (!host->is_alive)
        return;
    bool is_last = host->nended + 1 == w->s.nprocs;
    w->procs[h->proc].has_exited = true;
    host->has_failed = host->has_failed || h->arg;
    host->has_died_of_term = host->has_died_of_term || h->arg == SIGTERM;
    if (h->arg)
        check_failed(w, p);
    if (is_last && !host->has_leftover)
        world_event(w, h->node, (struct event){.type = EV_TREE_EMPTY});
    host->nended++;
    if (!h->arg)
        w->went_on_at = w->seen_at = w->now;
    note_end(w, h->node);
    if (!p->has_lost_shell)
        tell_of_command(w, p, EV_CHILD_EXITED, (int)h->arg);
}

static void leftover_gone(struct world *w, const struct happening *h)
{
    struct host *host = &w->hosts[h->node];
    if (!host->has_leftover)
        return;
    trace(w, "node %d: its leftover ends", h->node);
    host->has_leftover = false;
    check_leftover(w, h->node);
    if (host->nended == w->s.nprocs)
        world_event(w, h->node, (struct event){.type = EV_TREE_EMPTY});
}

static void timer(struct world *w, const struct happening *h)
{
    struct host *host = &w->hosts[h->node];
    if (h->epoch != host->timer_epoch)
        return;
    host->timer_at = CLOCK_NEVER;
    world_event(w, h->node, (struct event){.type = EV_TIMER});
}

/* The scheduler has started the job twice before, and no record exists. The rules for a whole job
 * do not know the end that follows from that. */
static void fill_starts(const struct schedule *s, struct core_params *p)
{
    bool has_rule = s->stands || s->repeats || s->is_stalled || s->is_slowed || s->is_far ||
                    s->uses || s->is_lone || s->is_long_saved;
    p->attempts_without_commit = s->seed % 32 == 24 ? 2 : 0;
    p->no_progress_limit = p->attempts_without_commit && !has_rule ? 3 : 0;
}

static void fill_params(const struct schedule *s, int number, struct core_params *p)
{
    int node = number % s->nnodes;
    memset(p, 0, sizeof *p);
    p->node_rank = number;
    p->spares = s->spares;
    p->nnodes = s->nnodes;
    p->children = p->expected_procs = s->nprocs;
    p->attempt = 1;
    p->resume_step = s->first_step;
    p->incarnation = 1000 + (uint64_t)node;
    str_copy(p->identity, sizeof p->identity, "sim");
    for (int i = 0; i < 65; i++)
        p->signals[i].rule = SIGNAL_FORWARD;
    p->signals[SIGTERM] = (struct signal_plan){SIGNAL_PREEMPT, s->grace, s->guesses[node]};
    p->signals[SIGUSR2] = (struct signal_plan){SIGNAL_CHECKPOINT, 0};
    p->grace_ns = s->grace;
    p->is_guess = s->guesses[node];
    p->train_on = !s->trains_on ? TRAIN_ON_NEVER : s->is_auto ? TRAIN_ON_AUTO : TRAIN_ON_ALWAYS;
    p->save_mode = s->is_forwarded ? SAVE_FORWARD : SAVE_ATTACH;
    p->save_ns = s->known_save;
    p->start_ns = s->known_start;
    p->end_ns = s->known_end;
    p->every_steps = s->every_steps;
    p->every_ns = s->every_ns;
    p->every_most_ns = s->every_most;
    p->known_least_ns = s->every_ns; /* more rounds would have no room in save_of_tag */
    p->known_most_ns = 2 * s->every_most;
    p->failures = s->failures;
    fill_starts(s, p);
    p->ran_ns = s->seed % 2 ? (int64_t)(s->seed % 1000) * s->every_most : 0;
    p->needs = s->needs;
    p->shares_saves = s->shares_saves;
    if (s->draws_needs ? s->shares_saves : s->seed % 8 == 5)
        str_copy(p->shared_dir, sizeof p->shared_dir, "directory");
    p->join_timeout_ns = 60 * S;
    p->heartbeat_interval_ns = S;
    p->heartbeat_timeout_ns = 15 * S;
    p->tell_ns = 30 * S;
    p->reconnect_ns = SIM_BACK_NS;
    p->exit_wait_ns = 10 * S;
    p->term_wait_ns = 10 * S;
    p->kill_wait_ns = 5 * S;
    p->commit_wait_ns = 30 * S;
    p->watchdog = (struct watchdog_plan){.mode = s->is_watched ? WATCHDOG_ON : WATCHDOG_OFF,
                                         .factor = SIM_FACTOR,
                                         .follows_timeout = true,
                                         .end_ns = SIM_END_NS,
                                         .evidence_ns = 10 * S};
    for (int i = 0; i < PAGE_PHASES; i++)
        p->watchdog.limit_ns[i] = i == PAGE_EVAL ? SIM_EVAL_NS : SIM_STAND_NS;
    p->leftovers = s->leaves_leftovers ? LEFTOVERS_LEAVE : LEFTOVERS_KILL;
    p->exit = (struct exit_codes){42, 42, 42, 42, 43, 44, 45, 0};
    p->restart = s->restart;
    p->replace_wait_ns = s->replace_wait;
    p->replace_max = s->replace_max;
    p->checks_health = s->checks_health;
    p->checks_net = s->checks_net;
}

static void make_host(struct world *w, int host, const struct core_params *params, bool is_spare)
{
    struct seat *seat = &w->seats[w->lives % MAX_LIVES];
    if (w->lives >= MAX_LIVES)
        fail(w, "%d supervisors in one schedule", MAX_LIVES);
    *seat = (struct seat){.world = w, .number = host};
    w->hosts[host] = (struct host){.seat = seat,
                                   .number = host,
                                   .node = params->node_rank,
                                   .life = w->lives++,
                                   .is_alive = true,
                                   .timer_at = CLOCK_NEVER,
                                   .gate = GATE_OPEN,
                                   .committed = w->s.first_step,
                                   .own_number = params->node_rank,
                                   .clock = w->s.clock[params->node_rank % w->s.nnodes]};
    if (is_spare)
        w->hosts[host].spare = spare_new(params, shell_perform, seat);
    else
        w->hosts[host].core = core_new(params, shell_perform, seat);
}

static void make_later(struct world *w, int host, int number, bool is_spare)
{
    struct core_params params;
    fill_params(&w->s, number, &params);
    params.incarnation = 3000 + w->lives;
    params.resume_step = w->record;
    make_host(w, host, &params, is_spare);
}

void world_make_replacement(struct world *w, int host, int node)
{
    make_later(w, host, node, false);
}

void world_make_spare(struct world *w, int host, int number)
{
    make_later(w, host, number, true);
}

static void extra_starts(struct world *w, const struct happening *h)
{
    struct core_params params;
    int node = (int)h->arg, extra = w->nhosts;
    fill_params(&w->s, node, &params);
    params.incarnation = 2000;
    trace(w, "--- node %d: another supervisor is started", node);
    make_host(w, extra, &params, false);
    w->nhosts++;
    w->extra_since = w->now;
    world_event(w, extra, (struct event){.type = EV_START});
}

static void begin_host(struct world *w, const struct happening *h)
{
    int node = (int)h->arg;
    if (node < w->s.nnodes && spares_begin_late(w, node))
        return;
    trace(w, "--- node %d: begins", node);
    w->hosts[node].is_to_come = false;
    w->hosts[node].is_alive = true;
    if (node < w->s.nnodes)
        check_begin(w, node);
    world_event(w, node, (struct event){.type = EV_START});
}

/* A happening with `is_free` does not wait for a stopped supervisor: the processes and the network
 * go on without it. */
static const struct {
    void (*handle)(struct world *w, const struct happening *h);
    bool is_free;
} handlers[] = {
    [H_TIMER] = {timer},
    [H_READ_STEPS] = {on_read_steps},
    [H_STEPS] = {on_steps},
    [H_EXAMINED] = {on_examined},
    [H_DIR_SEEN] = {on_dir_seen},
    [H_CHECKED] = {health_checked},
    [H_MEASURED] = {network_measured},
    [H_MEASURED_LATE] = {network_check_late},
    [H_PREPARED] = {on_written},
    [H_COMMITTED] = {on_written},
    [H_CONNECTED] = {net_connected, true},
    [H_TO_CHIEF] = {net_arrive},
    [H_TO_NODE] = {net_arrive},
    [H_DOWN_NODE] = {net_down},
    [H_DOWN_CHIEF] = {net_down},
    [H_CHILD_STARTED] = {child_started},
    [H_CHILD_DYING] = {child_dying},
    [H_CHILD_BAD] = {child_bad},
    [H_MISSED] = {miss_process, true},
    [H_CHILD_EXITED] = {child_exited},
    [H_LEFTOVER_GONE] = {leftover_gone},
    [H_KILL_NODE] = {on_kill_node, true},
    [H_KILL_PROC] = {on_kill_proc, true},
    [H_PROC] = {proc_move, true},
    [H_WRITTEN] = {proc_written, true},
    [H_FROM_PROC] = {from_proc},
    [H_TO_PROC] = {proc_told, true},
    [H_PROC_GONE] = {proc_gone},
    [H_FAULT] = {on_fault, true},
    [H_BEGIN] = {begin_host, true},
    [H_EXTRA] = {extra_starts, true},
    [H_LOOK] = {replace_look, true},
    [H_REPLACE] = {replace_begin, true},
    [H_GHOST_START] = {replace_ghost_started},
    [H_GHOST_END] = {replace_ghost_end},
};

static int node_of(const struct happening *h)
{
    return h->what == H_TO_CHIEF || h->what == H_DOWN_CHIEF ? 0 : h->node;
}

/* --- a whole schedule --- */

static void set_up(struct world *w)
{
    w->next_conn = CONN_FIRST;
    w->nhosts = w->s.nnodes;
    w->nall = w->s.nnodes * w->s.nprocs;
    w->record = w->base_step = w->s.first_step;
    for (int i = 0; i < w->nall; i++)
        w->procs[i] = (struct proc){.index = i,
                                    .rank = i,
                                    .node = i / w->s.nprocs,
                                    .slot = i % w->s.nprocs,
                                    .step = w->s.first_step,
                                    .page_step = w->s.first_step};
    for (int i = 0; i < w->s.nnodes; i++) {
        struct core_params params;
        fill_params(&w->s, i, &params);
        make_host(w, i, &params, false);
        w->hosts[i].is_to_come = w->s.begins_at[i] > 0;
        w->hosts[i].is_alive = w->s.begins_at[i] == 0;
    }
    for (int i = 0; i < w->s.nnodes; i++)
        if (w->hosts[i].is_alive)
            world_event(w, i, (struct event){.type = EV_START});
        else if (w->hosts[i].is_to_come)
            world_at(w, (struct happening){
                            .at = w->s.begins_at[i], .what = H_BEGIN, .arg = (uint64_t)i});
    if (w->s.replace_wait)
        world_at(w, (struct happening){.at = w->now, .what = H_LOOK});
    spares_begin(w);
    /* Time passes even if all nodes stand still. */
    world_at(w, (struct happening){.at = HORIZON_NS + 1, .what = H_TIMER, .epoch = UINT64_MAX});
    for (int i = 0; i < w->s.nfaults; i++)
        world_at(w,
                 (struct happening){.at = w->s.faults[i].at, .what = H_FAULT, .arg = (uint64_t)i});
}

static bool all_have_exited(const struct world *w)
{
    for (int i = 0; i < w->nhosts; i++)
        if (w->hosts[i].is_to_come || (w->hosts[i].is_alive && !w->hosts[i].has_exited))
            return false;
    return true;
}

/* Time must pass: a supervisor with endless immediate work would use a whole processor. */
static void check_time(struct world *w)
{
    static const uint64_t limit = 20000;
    if (w->now != w->same_since)
        w->same_count = 0;
    w->same_since = w->now;
    if (w->same_count++ > limit)
        fail(w, "time stands still: %llu events at once", ull(limit));
    if (w->events > EVENTS_MAX)
        fail(w, "%d events in one schedule: the same happens again and again", EVENTS_MAX);
}

static void run_queue(struct world *w)
{
    bool is_late = false;
    while (w->queue.n > 0 && !all_have_exited(w) && !w->failure[0]) {
        struct happening h;
        heap_take(&w->queue, &h, sizeof h);
        w->now = h.at;
        check_time(w);
        if (h.life != w->hosts[h.node].life) {
            free(h.data);
            continue;
        }
        int64_t paused_until = w->hosts[node_of(&h)].paused_until;
        int64_t stopped_until = h.what == H_PROC ? proc_rests_until(&w->procs[h.proc]) : 0;
        if (w->now < stopped_until) {
            h.at = stopped_until;
            world_at(w, h);
            continue;
        }
        if (!handlers[h.what].is_free && w->now < paused_until) {
            put_off(w, h, paused_until);
            continue;
        }
        handlers[h.what].handle(w, &h);
        free(h.data);
        if (!is_late && w->now > HORIZON_NS) {
            is_late = true;
            check_horizon(w);
            for (int i = 0; i < w->nhosts; i++)
                tell_to_stop(w, i);
        }
        if (w->now > END_NS) {
            fail(w, "a supervisor still runs %lld s after the last notice",
                 (long long)(END_NS - HORIZON_NS) / S);
            break;
        }
    }
}

void world_run(struct world *w, const struct schedule *schedule, FILE *out)
{
    struct heap queue = w->queue;
    memset(w, 0, sizeof *w);
    w->queue = queue;
    w->s = *schedule;
    w->bug.proc = -1;
    w->trace = out;
    w->rng.state = schedule->seed ^ UINT64_C(0x5deece66d);
    set_up(w);
    run_queue(w);
    if (!w->failure[0])
        check_end(w);
    while (w->queue.n > 0) {
        struct happening h;
        heap_take(&w->queue, &h, sizeof h);
        free(h.data);
    }
    for (int i = 0; i < w->nhosts; i++) {
        core_free(w->hosts[i].core);
        spare_free(w->hosts[i].spare);
    }
}
