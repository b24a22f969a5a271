/* SPDX-License-Identifier: Apache-2.0
 * Lost nodes that are replaced: the schedules, the supervisors that come and those that were given
 * up, and the checks. See sim.h.
 *
 * A new supervisor takes the place of the old one in w->hosts. The old one becomes a ghost, a host
 * behind all nodes, with its line and with all that was on its way. Of the ghost's processes only
 * this matters: whether they have ended.
 */
#include "sim.h"

#include "core/common/verdict.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define MS NS_PER_MS
#define S  NS_PER_S

/* How often the scheduler looks whether a node needs a new supervisor. */
#define LOOK_NS (S / 2)
/* As in fill_params(). */
#define KILL_WAIT (5 * S)
#define JOIN      (60 * S)
#define NOT_FOUND "cannot execute train: not found"

/* --- the schedule --- */

static void draw_fault(struct schedule *s, int64_t at, struct rng *r)
{
    static const enum fault_kind kinds[] = {DO_KILL_NODE, DO_KILL_NODE, DO_PARTITION,  DO_PARTITION,
                                            DO_ONE_WAY,   DO_BREAK,     DO_KILL_PROC,  DO_PAUSE,
                                            DO_FREEZE,    DO_KILL_NODE, DO_CHECKPOINT, DO_END,
                                            DO_NOTICE,    DO_TERM};
    struct fault *f = &s->faults[s->nfaults++];
    bool is_common = rng_chance(r, 800);
    *f = (struct fault){.kind = kinds[rng_below(r, is_common ? 6 : ARRAY_LEN(kinds))],
                        .at = at,
                        .node = 1 + (int)rng_below(r, (uint64_t)s->nnodes - 1),
                        .proc = (int)rng_below(r, (uint64_t)(s->nnodes * s->nprocs)),
                        .length = rng_time(r, S, rng_chance(r, 500) ? 20 * S : 80 * S)};
    if (rng_chance(r, 20))
        f->node = 0;
    f->way =
        (struct one_way){.is_up = rng_chance(r, 500),
                         .late_tenth = rng_chance(r, 500) ? 0 : 1 + (unsigned)rng_below(r, 60)};
    /* A line that breaks, and does not work again: node 0 gives the node up long before its lease
     * ends. */
    if (f->kind == DO_PARTITION && s->nfaults < MAX_FAULTS && rng_chance(r, 500)) {
        s->faults[s->nfaults] = *f;
        s->faults[s->nfaults++].kind = DO_BREAK;
    }
}

static void draw_training(struct schedule *s, struct rng *r)
{
    int64_t step = rng_time(r, S / 10, S / 4);
    for (int i = 0; i < s->nnodes * s->nprocs; i++) {
        s->step_time[i] = step;
        s->is_silent[i] = s->is_mute[i] = s->is_hidden[i] = s->stays_attached[i] = false;
        s->is_stubborn[i] = rng_chance(r, 200);
    }
    s->slow_from = s->declared_last = 0;
    s->last_step = s->first_step + 12 * (1 + (uint64_t)(120 * S / (12 * step)));
    s->every_steps = 0;
    s->every_ns = rng_chance(r, 800) ? rng_time(r, 8 * S, 20 * S) : 0;
    s->every_most = 0;
}

/* No rule for other schedules holds here. */
static void clear_rules(struct schedule *s)
{
    s->is_benign = s->has_shells = s->is_prompt = s->is_cut = s->is_calm = s->is_lone = false;
    s->is_withdrawn = s->is_mended = s->is_saved_end = s->is_plain_restart = s->is_regular = false;
    s->is_far = s->is_slowed = s->is_stalled = s->is_long_saved = s->has_third_term = false;
    s->uses = s->stands = 0;
    s->repeats = s->is_replaced = s->has_unfit = false;
    s->patience = 0;
    s->has_loss = true;
    s->restart.after_notice = false;
    memset(s->leftover, 0, sizeof s->leftover);
    memset(s->begins_at, 0, sizeof s->begins_at);
}

/* Drawn apart: several nodes have a notice, and no more than three may be replaced. */
static void draw_notices(struct schedule *s)
{
    struct rng r = {s->seed * UINT64_C(0x9e3779b97f4a7c15) + 2};
    if (!rng_chance(&r, 50))
        return;
    int64_t at = rng_time(&r, 2 * S, 30 * S);
    s->replace_max = (int)rng_below(&r, 4);
    s->nfaults = 0;
    for (int n = 2 + (int)rng_below(&r, 3); n > 0; n--) {
        s->faults[s->nfaults++] =
            (struct fault){.kind = rng_chance(&r, 500) ? DO_TERM : DO_NOTICE,
                           .at = at,
                           .node = 1 + (int)rng_below(&r, (uint64_t)s->nnodes - 1),
                           .length = rng_time(&r, 5 * S, 80 * S)};
        at += rng_chance(&r, 300) ? 0 : rng_time(&r, 0, rng_chance(&r, 500) ? 5 * S : 40 * S);
    }
}

/* From a generator of its own, so that the other schedules stay what they are. By this constant the
 * kept seeds are among them. */
void replace_draw(struct schedule *s)
{
    struct rng r = {s->seed * UINT64_C(0x9e3779b97f4a7c15) + 1022};
    if (!rng_chance(&r, 40) || s->nnodes == 1)
        return;
    clear_rules(s);
    draw_training(s, &r);
    s->replace_wait = rng_time(&r, 10 * S, rng_chance(&r, 500) ? 30 * S : 90 * S);
    s->replace_max = rng_chance(&r, 800) ? 10 : (int)rng_below(&r, 3);
    s->nfaults = 0;
    int64_t at = rng_time(&r, 2 * S, 30 * S);
    for (int n = 1 + (int)rng_below(&r, 4); n > 0; n--) {
        draw_fault(s, at, &r);
        at += rng_chance(&r, 300) ? 0 : rng_time(&r, 0, rng_chance(&r, 500) ? 5 * S : 40 * S);
    }
    for (int i = 0; i < MAX_GHOSTS; i++)
        s->comes_after[i] = rng_chance(&r, 150) ? -1 : rng_time(&r, MS, s->replace_wait * 5 / 4);
    s->bad_one = rng_chance(&r, 200) ? 1 + (int)rng_below(&r, 2) : 0;
    draw_notices(s);
}

void replace_print(const struct schedule *s, FILE *out)
{
    if (!s->replace_wait)
        return;
    fprintf(out, "  the job waits %.1f s for a replacement, %d times; they come after",
            (double)s->replace_wait / S, s->replace_max);
    for (int i = 0; i < MAX_GHOSTS; i++)
        fprintf(out, " %.1f", (double)s->comes_after[i] / S);
    if (s->bad_one)
        fprintf(out, "; the commands of number %d cannot be executed", s->bad_one);
    fputc('\n', out);
}

/* --- the ghost --- */

static bool is_of_proc(enum what what)
{
    return what == H_PROC || what == H_WRITTEN || what == H_FROM_PROC || what == H_TO_PROC ||
           what == H_PROC_GONE || what == H_CHILD_STARTED || what == H_CHILD_DYING ||
           what == H_CHILD_BAD || what == H_CHILD_EXITED || what == H_MISSED || what == H_KILL_PROC;
}

/* The ghost gets the messages and events that are on their way to the old supervisor. */
static void redirect(struct world *w, int node, int ghost)
{
    struct happening *list = (struct happening *)w->queue.items;
    for (size_t i = 0; i < w->queue.n; i++) {
        struct happening *h = &list[i];
        if (h->node != node || h->life != w->hosts[ghost].life)
            continue;
        h->node = ghost;
        if (is_of_proc(h->what))
            h->life = LIFE_OVER;
    }
}

static void become_ghost(struct world *w, const struct host *old, int ghost)
{
    int node = old->number;
    w->hosts[ghost] = *old;
    w->hosts[ghost].number = w->hosts[ghost].seat->number = ghost;
    w->hosts[ghost].node = node;
}

static void ghost_at(struct world *w, int ghost, int slot, int64_t after)
{
    world_at(w,
             (struct happening){
                 .at = w->now + after, .what = H_GHOST_END, .node = ghost, .arg = (uint64_t)slot});
}

static void take_procs(struct world *w, int node, int ghost)
{
    for (int i = 0; i < w->s.nprocs; i++) {
        struct proc *p = world_proc(w, node, i);
        struct ghost_proc *g = &w->hosts[ghost].procs[i];
        bool was_started = w->hosts[ghost].is_started && w->hosts[ghost].is_alive;
        *g = (struct ghost_proc){.is_alive = proc_is_alive(p) && was_started,
                                 .is_awaited = was_started && !p->has_exited,
                                 .is_connected = p->is_connected || p->is_going,
                                 .is_unkillable = w->s.is_unkillable[p->index]};
        if (g->is_awaited && !g->is_alive)
            ghost_at(w, ghost, i, MS);
        p->state = PROC_DEAD;
        p->epoch++;
        p->is_connected = p->is_going = false; /* a rank that is done has trained all the same */
    }
}

static void end_ghost_proc(struct world *w, int ghost, int slot, int status)
{
    struct host *host = &w->hosts[ghost];
    struct ghost_proc *g = &host->procs[slot];
    bool is_last = true;
    g->is_alive = false;
    if (!g->is_awaited)
        return;
    g->is_awaited = false;
    trace(w, "ghost %d: process %d ends", ghost, slot);
    for (int i = 0; i < w->s.nprocs; i++)
        is_last = is_last && !host->procs[i].is_awaited;
    if (g->is_connected)
        world_event(w, ghost, (struct event){.type = EV_PROC_GONE, .proc = {.slot = slot}});
    if (is_last)
        world_event(w, ghost, (struct event){.type = EV_TREE_EMPTY});
    world_event(w, ghost,
                (struct event){.type = EV_CHILD_EXITED,
                               .child = {.index = slot,
                                         .pid = 1000 + host->node * w->s.nprocs + slot,
                                         .status = status}});
}

void replace_ghost_end(struct world *w, const struct happening *h)
{
    end_ghost_proc(w, h->node, (int)h->arg, SIGKILL);
}

/* SIGKILL ends a process for certain within kill_wait. */
void replace_signal(struct world *w, int ghost, int number)
{
    struct host *host = &w->hosts[ghost];
    trace(w, "ghost %d: signal %d", ghost, number);
    for (int i = 0; number == SIGKILL && i < w->s.nprocs; i++)
        if (host->procs[i].is_alive && !host->procs[i].is_unkillable)
            ghost_at(w, ghost, i, rng_time(&w->rng, MS, KILL_WAIT - 100 * MS));
}

/* An order that was late begins a generation, and its place was not given away yet. */
void replace_ghost_starts(struct world *w, int ghost)
{
    struct host *host = &w->hosts[ghost];
    if (host->is_claimant)
        fail(w, "a supervisor starts processes as node %d before node 0 has admitted it",
             host->node);
    if (w->hosts[host->node].is_started)
        fail(w, "a supervisor of node %d that was replaced starts processes", host->node);
    for (int i = 0; i < w->s.nprocs; i++) {
        host->procs[i] = (struct ghost_proc){
            .is_alive = true, .is_awaited = true, .is_unkillable = w->s.is_unkillable[i]};
        world_at(w, (struct happening){
                        .at = w->now, .what = H_GHOST_START, .node = ghost, .arg = (uint64_t)i});
    }
}

void replace_ghost_started(struct world *w, const struct happening *h)
{
    int pid = 1000 + w->hosts[h->node].node * w->s.nprocs + (int)h->arg;
    world_event(
        w, h->node,
        (struct event){.type = EV_CHILD_STARTED, .child = {.index = (int)h->arg, .pid = pid}});
}

/* --- the replacement --- */

/* The supervisor has ended, or node 0 has given it up. A supervisor that has not joined yet
 * may wait for the place. Before the start only a node that must not train gets another one. */
static bool is_lost(const struct world *w, int node)
{
    const struct host *host = &w->hosts[node];
    struct core_peer_report peers[MAX_NODES];
    int n = core_peers(w->hosts[0].core, peers, MAX_NODES);
    return !host->is_alive || host->has_exited ||
           (node < n && host->was_welcome && str_is(peers[node].state, "lost"));
}

static bool needs_another(const struct world *w, int node)
{
    const struct host *chief = &w->hosts[0];
    bool may_come =
        w->nhosts < MAX_HOSTS && w->ncome < MAX_GHOSTS && w->s.comes_after[w->ncome] >= 0;
    if (!may_come || !chief->is_alive || chief->has_exited || w->end_at)
        return false;
    if (!chief->is_started && !w->hosts[node].is_unfit)
        return false;
    return is_lost(w, node);
}

/* Every node but node 0 has a scheduler that watches it. */
void replace_look(struct world *w, const struct happening *h)
{
    for (int i = 1; i < w->s.nnodes; i++) {
        if (w->hosts[i].is_to_be_replaced || !needs_another(w, i))
            continue;
        w->hosts[i].is_to_be_replaced = true;
        world_at(w, (struct happening){.at = w->now + w->s.comes_after[w->ncome++],
                                       .what = H_REPLACE,
                                       .arg = (uint64_t)i});
    }
    world_at(w, (struct happening){.at = w->now + LOOK_NS, .what = H_LOOK});
}

void replace_begin(struct world *w, const struct happening *h)
{
    int node = (int)h->arg, ghost = w->nhosts;
    struct host *old = &w->hosts[node];
    bool is_lost_now = is_lost(w, node);
    old->is_to_be_replaced = false;
    if (w->s.spares && ghost < MAX_HOSTS && !w->hosts[0].has_exited) {
        spares_claim(w, ghost, node);
        return;
    }
    if (ghost >= MAX_HOSTS || !is_lost_now || w->hosts[0].has_exited || !w->hosts[0].is_alive)
        return;
    trace(w, "--- node %d: a replacement is started; the old supervisor is ghost %d", node, ghost);
    w->nhosts++;
    become_ghost(w, old, ghost);
    redirect(w, node, ghost);
    take_procs(w, node, ghost);
    world_make_replacement(w, node, node);
    w->hosts[node].is_bad = w->nhosts - w->s.nnodes == w->s.bad_one;
    world_event(w, node, (struct event){.type = EV_START});
}

void replace_start_badly(struct world *w, struct proc *p)
{
    static const struct err err = {.code = ERR_NOT_FOUND, .text = NOT_FOUND};
    trace(w, "process %d: cannot be executed", p->index);
    p->state = PROC_DEAD;
    p->epoch++;
    p->has_exited = true;
    if (++w->hosts[p->node].nended == w->s.nprocs)
        world_event(w, p->node, (struct event){.type = EV_TREE_EMPTY});
    world_event(w, p->node,
                (struct event){.type = EV_CHILD_FAILED, .child = {.index = p->slot, .err = &err}});
}

void replace_take_seat(struct world *w, int host)
{
    struct host claimant = w->hosts[host];
    int node = claimant.node;
    trace(w, "--- node %d: has another supervisor; the old one is ghost %d", node, host);
    become_ghost(w, &w->hosts[node], host);
    w->hosts[host].is_to_come = false;
    redirect(w, node, host);
    take_procs(w, node, host);
    w->hosts[node] = claimant;
    w->hosts[node].is_claimant = false;
    w->hosts[node].number = w->hosts[node].seat->number = node;
    struct happening *list = (struct happening *)w->queue.items;
    for (size_t i = 0; i < w->queue.n; i++)
        if (list[i].node == host && list[i].life == claimant.life)
            list[i].node = node;
}

/* --- the checks --- */

/* Called when a generation begins on a node: no process of an older one trains. A supervisor that
 * stands still cannot kill. A node that gets its order late may begin the generation after the loss
 * of another one that has begun it. */
void replace_check_start(struct world *w, int node, uint32_t generation)
{
    if (node == 0) { /* another node may begin it when node 0 waits again */
        w->waits_since = 0;
        w->has_waited = false;
    }
    for (int i = w->s.nnodes; i < w->nhosts; i++)
        for (int k = 0; k < w->s.nprocs; k++) {
            const struct ghost_proc *g = &w->hosts[i].procs[k];
            bool is_together = w->hosts[i].generation == generation && w->hosts[i].node != node;
            bool stood_still = w->now < w->hosts[i].paused_until + KILL_WAIT;
            if (g->is_alive && !g->is_unkillable && !stood_still && !is_together)
                fail(w, "node %d starts its processes, and those of the lost node %d still train",
                     node, w->hosts[i].node);
        }
}

/* The report names each lost node. */
static void check_named(struct world *w, const struct core_wait *wait)
{
    struct core_peer_report peers[MAX_NODES];
    int n = core_peers(w->hosts[0].core, peers, MAX_NODES), named = 0;
    for (int i = 0; i < n; i++)
        if (str_is(peers[i].state, "lost") && wait->vacant[named++].node != i)
            fail(w, "the job waits for node %d, and the report does not name it", i);
    if (named != wait->nvacant)
        fail(w, "%d nodes are lost, and the report has %d vacant places", named, wait->nvacant);
}

/* Called after each event of node 0. */
void replace_check_wait(struct world *w)
{
    struct core_report r;
    core_report(w->hosts[0].core, &r);
    bool waits = r.wait.since && r.wait.nvacant > 0 && r.state == NODE_RESTARTING;
    w->has_waited = w->has_waited || r.wait.since;
    if (!waits)
        return;
    check_named(w, &r.wait);
    for (int i = 0; i < MAX_NOTICES; i++)
        if (w->hosts[0].deadlines[i] && w->now > w->hosts[0].deadlines[i] + S + standstill(w))
            fail(w, "node 0 waits for a replacement beyond the deadline of its own notice");
    if (!w->waits_since)
        w->waits_since = w->now;
    if (w->now > w->waits_since + w->s.replace_wait + S + standstill(w))
        fail(w, "node 0 still waits, %lld s after the first loss",
             (long long)((w->now - w->waits_since) / S));
}

/* Node 0 says that a supervisor has taken the place of another. */
void replace_check_taken(struct world *w)
{
    if (++w->nreplaced > w->s.replace_max)
        fail(w, "%d lost nodes were replaced, and %d may be", w->nreplaced, w->s.replace_max);
}

/* No process fails by itself, and node 0 hears of a dead node before a process has failed for long.
 */
static bool is_sound(const struct world *w)
{
    static const unsigned others = 1U << DO_KILL_PROC | 1U << DO_FREEZE | 1U << DO_ONE_WAY |
                                   1U << DO_PARTITION | 1U << DO_PAUSE;
    const struct schedule *s = &w->s;
    for (int i = 0; i < w->nall; i++)
        if (w->procs[i].has_bad_line)
            return false;
    for (int i = 0; i < s->nfaults; i++)
        if (others & 1U << s->faults[i].kind)
            return false;
    for (int i = 0; i < s->nnodes * s->nprocs; i++)
        if (s->ends_early[i] || s->cut_at[i] || s->is_terse[i] || s->is_bare[i])
            return false;
    return s->attaches && !s->drop && !s->misses_procs && s->is_watched;
}

/* Before the start an unhealthy node ends the job only when all nodes should have joined. */
static void check_unfit(struct world *w)
{
    const struct host *chief = &w->hosts[0];
    bool may_wait = w->nvacated < w->s.replace_max && !w->was_stopped && !w->first_notice_at &&
                    chief->has_exited && !chief->is_started;
    if (may_wait && chief->outcome == OUTCOME_UNHEALTHY && !chief->is_unfit &&
        chief->exit_at < JOIN)
        fail(w, "node 0 is healthy, and waits for no other node before the start: %s", chief->why);
}

/* The job has saved for the notice, and has not trained on since. */
static void check_saved_wait(struct world *w)
{
    const struct host *chief = &w->hosts[0];
    if (chief->has_exited && chief->outcome == OUTCOME_PREEMPTED_UNSAVED &&
        chief->saved_generation == 1 + chief->report.generation)
        fail(w, "node 0 says that the job has not saved, and it had: %s", chief->why);
}

static bool is_left_unkillable(const struct world *w, const struct proc *p)
{
    return w->s.is_unkillable[p->index] && proc_is_alive(p);
}

static bool leaves_unkillable(const struct world *w)
{
    return any_is(w, is_left_unkillable) &&
           strstr(w->hosts[0].why, "processes that cannot be killed are left on");
}

/* A notice to another node, an illness of it, or a command that it cannot execute, does not end the
 * job if that could wait. Node 0 may hear of an illness or a command when the job ends already. */
static void check_spared(struct world *w)
{
    const struct host *chief = &w->hosts[0];
    bool may_wait = w->s.replace_max >= MAX_GHOSTS + MAX_NODES && !w->was_stopped &&
                    chief->has_exited && chief->is_started;
    check_unfit(w);
    if (!may_wait || check_holds_notice(chief))
        return;
    if (chief->outcome == OUTCOME_PREEMPTED && !any_is_done(w) && !leaves_unkillable(w) &&
        !strstr(chief->why, "the generation did not end in time"))
        fail(w, "node 0 has no notice, and does not wait for a replacement: %s", chief->why);
    if (chief->outcome == OUTCOME_UNHEALTHY && chief->first_outcome == OUTCOME_UNHEALTHY &&
        !chief->is_unfit)
        fail(w, "node 0 is healthy, and does not wait for a replacement: %s", chief->why);
    if (chief->outcome == OUTCOME_FAILED && strstr(chief->first_why, NOT_FOUND))
        fail(w, "a replacement could not start, and node 0 does not wait for another: %s",
             chief->why);
}

/* Nothing but the budget, a notice or a user forbids the wait. A process that fails because a node
 * is lost does not forbid it. */
void replace_check_end(struct world *w)
{
    const struct host *chief = &w->hosts[0];
    bool may_wait = w->s.replace_max >= MAX_GHOSTS + MAX_NODES && !w->first_notice_at &&
                    !w->was_stopped && chief->has_exited && !w->has_waited;
    bool is_by_loss = chief->outcome == OUTCOME_NODE_LOST &&
                      (chief->first_outcome == OUTCOME_NODE_LOST || is_sound(w));
    if (may_wait && is_by_loss)
        fail(w, "node 0 did not wait for a replacement: %s", chief->why);
    check_spared(w);
    check_saved_wait(w);
}

void replace_check_exit(struct world *w, int ghost)
{
    const struct host *host = &w->hosts[ghost];
    for (int i = 0; i < w->s.nprocs; i++)
        if (host->procs[i].is_alive && !host->procs[i].is_unkillable)
            fail(w, "ghost %d exits, and its process %d still runs", ghost, i);
    if (host->outcome == OUTCOME_COMPLETED)
        fail(w, "a supervisor that was replaced says completed");
}

/* Node 0 sends an order over this line. The end of the job for good may be told to any. */
void replace_check_answer(struct world *w, int line, const struct peermsg *msg)
{
    bool is_end = msg->order.end != END_NONE && !msg->order.restart;
    if (line >= w->s.nnodes && msg->order.echo_ns && !is_end)
        fail(w, "node 0 answers a supervisor of node %d that was replaced", w->hosts[line].node);
    if (line >= w->s.nnodes && w->hosts[line].generation + 1 == msg->stamp.generation &&
        msg->order.start && msg->order.end == END_NONE) /* an empty order holds a twin */
        fail(w, "node 0 lets a supervisor that was replaced start generation %u",
             msg->stamp.generation);
}
