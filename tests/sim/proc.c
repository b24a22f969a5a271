/* SPDX-License-Identifier: Apache-2.0
 * The training process, with libpch's rules: finish a step, store it, load the gate, and so on.
 * Storing and loading are two moments, so that the supervisor's own store and loads may fall
 * between them. See sim.h.
 */
#include "sim.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define MS NS_PER_MS
#define S  NS_PER_S

/* If two processes fail, the order is known only if the failures are this far apart. */
#define LARGE_NS (700 * MS)

bool proc_is_alive(const struct proc *p)
{
    return p->state != PROC_NONE && p->state != PROC_DEAD;
}

int64_t proc_rests_until(const struct proc *p)
{
    return p->stopped_until > p->lags_until ? p->stopped_until : p->lags_until;
}

void proc_at(struct world *w, const struct proc *p, struct happening h)
{
    h.node = p->node;
    h.proc = p->index;
    h.generation = p->generation;
    world_at(w, h);
}

static void plan(struct world *w, struct proc *p, enum proc_state state, int64_t after)
{
    p->state = state;
    p->epoch++;
    if (after >= 0)
        proc_at(w, p, (struct happening){.at = w->now + after, .what = H_PROC, .epoch = p->epoch});
}

static void say(struct world *w, struct proc *p, const struct procmsg *msg)
{
    struct procmsg *copy = malloc(sizeof *copy);
    *copy = *msg;
    int64_t at = w->now + rng_time(&w->rng, 0, MS / 5);
    p->said_at = at > p->said_at ? at : p->said_at + 1;
    proc_at(w, p, (struct happening){.at = p->said_at, .what = H_FROM_PROC, .data = copy});
}

/* The supervisor sees the end of the connection after all earlier messages. */
static void hang_up(struct world *w, struct proc *p, int64_t at)
{
    p->is_connected = false;
    p->is_going = true;
    p->said_at = p->said_at > at ? p->said_at + 1 : at;
    proc_at(w, p, (struct happening){.at = p->said_at, .what = H_PROC_GONE, .arg = p->page_step});
}

/* pch_close, or the intended end of a program. */
static void say_goodbye(struct world *w, struct proc *p, int status)
{
    say(w, p, &(struct procmsg){.type = PROCMSG_CLOSE, .step = p->page_step, .number = status});
    p->has_said_goodbye = status == 0;
    p->is_connected = false;
    p->is_going = true;
}

/* --- steps --- */

static bool has_finished(const struct proc *p, uint64_t step)
{
    return p->step >= step || p->is_done || p->ended_well;
}

/* False for processes of the last generation, whose successors are still to be started. */
static bool is_of_now(const struct world *w, const struct proc *p)
{
    return p->generation == w->generation;
}

static bool peers_have_finished(const struct world *w, uint64_t step)
{
    for (int i = 0; i < w->nall; i++)
        if (w->procs[i].state != PROC_NONE &&
            !(is_of_now(w, &w->procs[i]) && has_finished(&w->procs[i], step)))
            return false;
    return true;
}

static int64_t step_time(const struct world *w, const struct proc *p)
{
    bool is_slow = w->s.slow_from && p->step >= w->s.slow_from &&
                   (!w->s.slow_until || p->step < w->s.slow_until);
    return w->s.step_time[p->index] * (is_slow ? w->s.slow_by : 1);
}

static bool has_bug(const struct world *w, const struct proc *p)
{
    return w->bug.proc == p->index && w->bug.step == p->step && p->is_attached;
}

static void next_step(struct world *w, struct proc *p)
{
    if (has_bug(w, p))
        proc_confess(w, p, rng_time(&w->rng, 0, 20 * MS));
    else if (w->s.is_lockstep && !peers_have_finished(w, p->step))
        plan(w, p, PROC_COLLECTIVE, w->s.patience ? w->s.patience : -1);
    else
        plan(w, p, PROC_TRAINING, rng_time(&w->rng, step_time(w, p) / 2, step_time(w, p)));
}

/* A process has come further, so the processes that waited for it may go on. */
static void wake_collective(struct world *w)
{
    for (int i = 0; i < w->nall; i++) {
        struct proc *p = &w->procs[i];
        if (p->state == PROC_COLLECTIVE && peers_have_finished(w, p->step))
            next_step(w, p);
    }
}

static bool all_have_begun(const struct world *w, uint32_t tag)
{
    for (int i = 0; i < w->nall; i++) {
        const struct proc *p = &w->procs[i];
        if (p->state != PROC_NONE && p->served_tag != tag && !p->is_done && !p->ended_well)
            return false;
    }
    return true;
}

static void wake_savers(struct world *w)
{
    for (int i = 0; i < w->nall; i++) {
        struct proc *p = &w->procs[i];
        if (p->state == PROC_SAVE_BARRIER && all_have_begun(w, p->saving_tag))
            plan(w, p, PROC_SAVING, w->s.save_time[p->index]);
    }
}

/* --- the end --- */

/* The supervisor may learn at once that an attached process has failed. The files of the process
 * are closed, and its end is reported, only after its memory has been taken down. Returns how long
 * that takes. */
static int64_t tell_of_death(struct world *w, const struct proc *p, int status)
{
    struct rng r = {w->s.seed + (uint64_t)w->now};
    int64_t teardown = w->s.teardown[p->index], at = w->now + rng_time(&r, 0, MS / 2);
    if (!p->is_attached || !status || teardown < 0)
        return 0;
    /* The earlier messages of the process are read first. */
    at = p->said_at < at ? at : p->said_at + 1;
    proc_at(w, p, (struct happening){.at = at, .what = H_CHILD_DYING, .arg = (uint64_t)status});
    if (w->s.misses_procs && teardown > LARGE_NS)
        proc_at(w, p, (struct happening){.at = w->now + teardown, .what = H_MISSED});
    return teardown;
}

/* A crash may be unknown until the supervisor sees the end of the process, and the supervisor may
 * be kept waiting. The other processes miss the crashed one at once. Returns how late the end is
 * seen. */
static int64_t be_missed(struct world *w, const struct proc *p, int status)
{
    struct rng r = {w->s.seed + (uint64_t)w->now};
    if (!w->s.misses_procs || w->s.teardown[p->index] >= 0 || status != SIGKILL)
        return 0;
    w->is_seen_late = true;
    proc_at(w, p, (struct happening){.at = w->now, .what = H_MISSED});
    return rng_time(&r, 0, SIM_SEEN_LATE_NS);
}

void proc_die(struct world *w, struct proc *p, int status)
{
    if (!proc_is_alive(p))
        return;
    trace(w, "process %d: ends with status %d at step %llu", p->index, status, ull(p->step));
    const struct proc *other = w->bug.proc >= 0 ? &w->procs[w->bug.proc] : p;
    bool is_told_to_end = w->hosts[p->node].signalled_at > 0;
    if (other != p && other->node == p->node && proc_is_alive(other) && status && !is_told_to_end)
        w->bug.is_second = true;
    p->state = PROC_DEAD;
    p->epoch++;
    p->ended_well = status == 0;
    p->has_missed = p->has_missed && status == p->dies_with; /* or the process was killed before it
                                                              * could fail */
    int64_t gone = w->now + tell_of_death(w, p, status) + be_missed(w, p, status);
    if (p->is_connected && status == 0 && (!w->s.is_mute[p->index] || w->s.is_hidden[p->index]))
        say_goodbye(w, p, w->s.is_hidden[p->index]);
    else if (p->is_connected && (status != 0 || !w->s.stays_attached[p->index]))
        hang_up(w, p, gone + rng_time(&w->rng, 0, MS));
    gone += rng_time(&w->rng, 0, 2 * MS);
    proc_at(w, p, (struct happening){.at = gone, .what = H_CHILD_EXITED, .arg = (uint64_t)status});
    wake_collective(w);
    wake_savers(w);
}

static void finish(struct world *w, struct proc *p)
{
    p->is_done = !p->is_attached || !(w->s.is_mute[p->index] || w->s.is_terse[p->index]);
    p->has_left = !p->is_done && w->s.is_terse[p->index];
    p->finished_at = w->now;
    if (p->is_attached && p->is_done)
        say(w, p, &(struct procmsg){.type = PROCMSG_DONE, .step = p->step});
    int64_t takes = rng_time(&w->rng, MS, 50 * MS);
    plan(w, p, PROC_ENDING, p->is_done && p->is_attached ? takes + w->s.lingers[p->index] : takes);
    wake_collective(w);
    wake_savers(w);
}

static void leave(struct world *w, struct proc *p)
{
    p->was_told_exit = true;
    int64_t soon = rng_time(&w->rng, MS, 200 * MS), takes = w->s.exit_time[p->index];
    plan(w, p, PROC_ENDING, takes ? takes : soon);
}

/* The program's own handler ends the training, and the program returns 0. */
void proc_catch(struct world *w, struct proc *p)
{
    struct rng r = {w->s.seed + (uint64_t)w->now};
    bool is_training = proc_is_alive(p) && p->state != PROC_ENDING && p->state != PROC_HUNG;
    if (!w->s.is_bare[p->index] || !is_training || !p->is_attached || !rng_chance(&r, 500))
        return;
    trace(w, "process %d: catches SIGTERM, and ends by itself", p->index);
    plan(w, p, PROC_ENDING, rng_time(&r, MS, 3 * S));
}

void proc_confess(struct world *w, struct proc *p, int64_t lingers)
{
    if (!proc_is_alive(p) || !p->is_attached)
        return;
    trace(w, "process %d: says why it fails", p->index);
    struct procmsg msg = {.type = PROCMSG_ERROR, .number = 3};
    str_copy(msg.text, sizeof msg.text, p->index % 2 ? "out of luck" : SIM_REPEATS);
    if (has_bug(w, p)) /* its number is another one each time */
        str_addf(msg.text, sizeof msg.text, SIM_BUG "%llu", ull(w->now));
    say(w, p, &msg);
    w->went_on_at = w->seen_at = w->now;
    p->dies_with = 3 << 8;
    plan(w, p, PROC_ENDING, lingers);
}

/* Drawn apart, so that all other schedules stay the same. */
void proc_fail(struct world *w, struct proc *p, int64_t lingers)
{
    struct rng r = {w->s.seed * UINT64_C(0xd6e8feb86659fd93) + 5};
    if (proc_is_alive(p) && p->is_attached && w->bug.proc < 0 && rng_chance(&r, 500)) {
        w->bug.proc = p->index;
        w->bug.step = p->step;
    }
    proc_confess(w, p, lingers);
}

/* An exception hook reports the signal of the supervisor as a failure. Then the process ends with a
 * failure, is killed from outside, or hangs until its supervisor kills it. */
static void answer_term(struct world *w, struct proc *p)
{
    struct rng r = {w->s.seed + (uint64_t)w->now + (uint64_t)p->index};
    int64_t lingers = rng_time(&r, MS, 60 * MS);
    int how = (int)rng_below(&r, 3);
    if (!w->s.answers_term || !p->is_attached || !p->is_connected || p->state == PROC_ENDING)
        return;
    proc_confess(w, p, lingers);
    if (how == 1)
        p->dies_with = SIGKILL;
    else if (how == 2)
        plan(w, p, PROC_HUNG, -1);
}

void proc_signal(struct world *w, struct proc *p, int number)
{
    if (!proc_is_alive(p) || w->s.is_unkillable[p->index])
        return;
    if (number == SIGTERM)
        answer_term(w, p);
    bool ends = number == SIGKILL || (number == SIGTERM && !p->is_attached &&
                                      !w->s.is_stubborn[p->index] && p->state != PROC_ATTACHING);
    if (ends && number == SIGTERM && !w->s.dies_of_term)
        plan(w, p, PROC_ENDING, w->s.save_time[p->index]); /* saves by itself and ends with 0 */
    else if (ends)
        proc_die(w, p, number);
}

/* Tells when it will give up. */
static void say_patience(struct world *w, struct proc *p)
{
    if (w->s.patience)
        say(w, p, &(struct procmsg){.type = PROCMSG_TIMEOUT, .number = w->s.patience / MS});
}

/* It never ends by itself, though it has given up. Drawn apart, so that the rest stays
 * the same: in half of the schedules none ends. */
static bool stays(const struct world *w, const struct proc *p)
{
    struct rng r = {w->s.seed * 32 + (uint64_t)p->index};
    return w->s.hung_gives_up && (w->s.seed % 2 || rng_chance(&r, 500));
}

/* It has waited for the others for too long. */
static void give_up(struct world *w, struct proc *p)
{
    trace(w, "process %d: gives up", p->index);
    p->gave_up_at = w->now;
    if (p->is_connected && w->s.says_so)
        say(w, p, &(struct procmsg){.type = PROCMSG_ERROR, .number = 1, .text = SIM_GAVE_UP});
    p->dies_with = w->s.says_so ? 1 << 8 : SIGABRT;
    if (stays(w, p))
        plan(w, p, PROC_HUNG, -1);
    else
        plan(w, p, PROC_ENDING, rng_time(&w->rng, 0, S));
}

void proc_miss(struct world *w, struct proc *p)
{
    bool is_computing = p->state == PROC_TRAINING || p->state == PROC_COLLECTIVE;
    if (!is_computing || p->is_writing || p->dies_with) /* a save needs no peer */
        return;
    trace(w, "process %d: fails because a peer has ended", p->index);
    p->has_missed = true;
    p->dies_with = 1 << 8;
    plan(w, p, PROC_ENDING, rng_time(&w->rng, MS / 10, 100 * MS));
}

/* --- saves --- */

static void go_on(struct world *w, struct proc *p);

static void begin_save(struct world *w, struct proc *p, uint32_t tag)
{
    p->saving_tag = tag;
    p->saving_step = p->step;
    if (tag)
        check_save(w, p, tag, p->step);
    if (tag && w->s.is_collective_save && !all_have_begun(w, tag))
        plan(w, p, PROC_SAVE_BARRIER, -1);
    else
        plan(w, p, PROC_SAVING, w->s.save_time[p->index]);
    wake_savers(w);
}

/* Goes on training while the save is written. */
static void begin_background_save(struct world *w, struct proc *p, uint32_t tag)
{
    if (tag)
        check_save(w, p, tag, p->step);
    if (p->is_writing) { /* one at a time: it waits for the other to finish, like a real writer
                            would */
        p->saving_tag = tag;
        p->saving_step = p->step;
        plan(w, p, PROC_SAVING, w->s.save_time[p->index]);
        return;
    }
    p->is_writing = true;
    p->write_tag = tag;
    p->write_step = p->step;
    proc_at(w, p, (struct happening){.at = w->now + w->s.save_time[p->index], .what = H_WRITTEN});
    go_on(w, p);
}

static bool save_fails(struct world *w, const struct proc *p)
{
    return w->s.fails_to_save[p->index] && rng_chance(&w->rng, 500);
}

void proc_written(struct world *w, const struct happening *h)
{
    struct proc *p = &w->procs[h->proc];
    if (h->generation != p->generation || !proc_is_alive(p) || !p->is_writing)
        return;
    p->is_writing = false;
    /* Else it may stand in a later step meanwhile, or can tell no one. */
    if (p->write_step >= p->page_step && p->is_connected)
        w->went_on_at = w->seen_at = w->now;
    struct procmsg msg = {.type = PROCMSG_SAVED, .step = p->write_step, .tag = p->write_tag};
    if (save_fails(w, p))
        msg.type = PROCMSG_SAVE_FAILED;
    else
        check_durable(w, p, p->write_step);
    if (p->is_connected)
        say(w, p, &msg);
}

static void end_save(struct world *w, struct proc *p)
{
    struct procmsg msg = {
        .type = PROCMSG_SAVED, .step = p->saving_step, .tag = p->saving_tag, .wants_answer = true};
    if (save_fails(w, p)) {
        msg.type = PROCMSG_SAVE_FAILED;
        say(w, p, &msg);
        go_on(w, p);
        return;
    }
    check_durable(w, p, p->saving_step);
    say(w, p, &msg);
    plan(w, p, PROC_ANSWER, -1);
}

/* --- the gate --- */

/* Closes and attaches anew, like a worker that its launcher starts again. The process remembers no
 * round.
 */
static void reattach(struct world *w, struct proc *p)
{
    p->reattached_at = w->now;
    p->is_attached = false;
    p->served_tag = 0;
    if (w->s.is_mute[p->index])
        hang_up(w, p, w->now);
    else
        say_goodbye(w, p, 0);
    p->said_at++;
    plan(w, p, PROC_BOOTING, rng_time(&w->rng, MS, 200 * MS));
}

/* Only after all have served the last round: within a round the process would have to save twice.
 */
static bool wants_to_reattach(const struct world *w, const struct proc *p)
{
    uint64_t word = w->hosts[p->node].gate;
    uint32_t tag = gate_tag(word);
    if (!w->s.reattaches[p->index] || p->reattached_at || !p->is_attached || p->is_writing)
        return false;
    for (int i = 0; i < w->nall; i++)
        if (tag && (tag >= 64 || !w->procs[i].save_of_tag[tag]))
            return false;
    return p->step > w->base_step + 12 && p->step < w->s.last_step;
}

/* The process has closed a descriptor of libpch, or was cut off. It finds out at its next step. */
static bool is_cut_now(struct world *w, struct proc *p)
{
    uint64_t at = w->s.cut_at[p->index];
    if (!at || p->step < at || !p->is_attached || !p->is_connected)
        return false;
    trace(w, "process %d: its connection breaks at step %llu", p->index, ull(p->step));
    p->is_cut = true;
    p->is_attached = false;
    hang_up(w, p, w->now);
    return true;
}

static void go_on(struct world *w, struct proc *p)
{
    if (is_cut_now(w, p)) {
        next_step(w, p);
        return;
    }
    if (wants_to_reattach(w, p)) {
        reattach(w, p);
        return;
    }
    uint64_t early = w->s.ends_early[p->index];
    if (p->step >= w->s.last_step || (early && p->step >= early))
        finish(w, p);
    else
        next_step(w, p);
}

/* A process that has not attached could not tell of its evaluation. A count of its steps would show
 * a hang. */
static bool evaluates_now(const struct world *w, const struct proc *p)
{
    bool can_say_so = w->s.attaches || p->is_counting;
    return p->index == w->s.eval_proc && can_say_so && !p->has_evaluated &&
           p->step >= w->s.eval_step;
}

static void after_gate(struct world *w, struct proc *p)
{
    if (evaluates_now(w, p)) {
        p->has_evaluated = true;
        p->page_phase = PAGE_EVAL;
        plan(w, p, PROC_EVALUATING, w->s.eval_time);
        return;
    }
    if (!p->is_attached || !w->s.own_every || p->step % w->s.own_every != 0)
        go_on(w, p);
    else if (w->s.style == STYLE_ASYNC)
        begin_background_save(w, p, 0);
    else
        begin_save(w, p, 0);
}

static void look(struct world *w, struct proc *p)
{
    uint64_t word = w->hosts[p->node].gate;
    if (p->is_cut) {
        leave(w, p);
        return;
    }
    if (!p->is_attached) {
        after_gate(w, p);
        return;
    }
    if (gate_tag(word) == GATE_TAG_LEAVE && gate_is_decided(word)) {
        leave(w, p);
        return;
    }
    if (p->held_run) { /* the background save belongs to a round that ends the run */
        say(w, p, &(struct procmsg){.type = PROCMSG_HELD, .step = p->step, .tag = p->served_tag});
        plan(w, p, PROC_ANSWER, -1);
        return;
    }
    check_gate(w, p, word);
    if (!gate_stops(word, p->step, p->served_tag)) {
        after_gate(w, p);
        return;
    }
    if (!gate_is_decided(word)) {
        say(w, p, &(struct procmsg){.type = PROCMSG_WAITING, .step = p->step, .word = word});
        plan(w, p, PROC_AT_GATE, -1);
        return;
    }
    p->served_tag = gate_tag(word);
    p->served_at = w->now;
    say(w, p, &(struct procmsg){.type = PROCMSG_SERVING, .step = p->step, .tag = p->served_tag});
    if (w->s.style == STYLE_ASYNC) {
        p->held_run = gate_ends_run(word);
        begin_background_save(w, p, p->served_tag);
    } else {
        begin_save(w, p, p->served_tag);
    }
}

/* --- ranks that only count their steps --- */

/* Some of the processes that do not attach only tell their steps, from the first step that they
 * finish. They are drawn apart, so that all other schedules stay the same. */
static bool wants_to_count(const struct world *w, const struct proc *p)
{
    struct rng r = {w->s.seed * 64 + (uint64_t)p->index};
    bool attaches = w->s.attaches && !w->s.is_silent[p->index];
    return !attaches && !p->is_counting && rng_chance(&r, 500);
}

static void begin_to_count(struct world *w, struct proc *p)
{
    p->is_counting = p->is_connected = true;
    p->page_step = w->base_step;
    struct procmsg msg = {.type = PROCMSG_ATTACH,
                          .flags = PROCMSG_FLAG_COUNTS,
                          .rank = p->rank,
                          .local_rank = PROCMSG_UNKNOWN,
                          .world_size = PROCMSG_UNKNOWN,
                          .local_world_size = PROCMSG_UNKNOWN,
                          .step = w->base_step,
                          .first_step = w->base_step};
    say(w, p, &msg);
    say_patience(w, p);
}

/* In a few schedules a process prints a line that is a failure (watchdog.log_failure). They are
 * drawn apart, as above. */
static void print_failure(struct world *w, const struct proc *p)
{
    struct rng r = {w->s.seed * 128 + (uint64_t)p->index};
    const struct schedule *s = &w->s;
    bool must_last = s->is_benign || s->is_prompt || s->is_cut || s->is_withdrawn || s->is_lone ||
                     s->is_slowed || s->is_far || s->is_long_saved || s->is_stalled || s->is_calm ||
                     s->is_mended || s->is_saved_end || s->is_plain_restart;
    if (!must_last && rng_chance(&r, 10) && p->step - w->base_step == 1 + rng_below(&r, 20))
        proc_at(w, p, (struct happening){.at = w->now + rng_time(&r, 0, MS), .what = H_CHILD_BAD});
}

static void note_first_step(struct world *w, struct proc *p)
{
    p->first_step_at = w->now;
    w->has_stepped = true;
}

static void finish_step(struct world *w, struct proc *p)
{
    p->step += w->s.stride[p->index];
    print_failure(w, p);
    if (wants_to_count(w, p))
        begin_to_count(w, p);
    if (p->is_attached || p->is_counting)
        p->page_step = p->step;
    p->page_phase = PAGE_TRAIN;
    if (p->is_attached && !p->first_step_at)
        note_first_step(w, p);
    check_step(w, p);
    check_period(w, p);
    lease_check(w, p);
    plan(w, p, PROC_LOOKING, rng_time(&w->rng, 0, MS / 10));
    wake_collective(w);
}

/* --- the start --- */

/* The new process knows only its predecessor's saves. */
static void renew(struct world *w, struct proc *p)
{
    *p = (struct proc){.index = p->index,
                       .node = p->node,
                       .slot = p->slot,
                       .rank = p->rank,
                       .generation = w->hosts[p->node].generation,
                       .epoch = p->epoch,
                       .step = w->base_step,
                       .page_step = w->base_step};
}

void proc_start(struct world *w, int node)
{
    w->went_on_at = w->seen_at = w->now;
    for (int i = 0; i < w->s.nprocs; i++) {
        struct proc *p = &w->procs[node * w->s.nprocs + i];
        renew(w, p);
        proc_at(w, p, (struct happening){.at = w->now, .what = H_CHILD_STARTED});
        plan(w, p, PROC_BOOTING, MS);
    }
}

static void attach(struct world *w, struct proc *p)
{
    p->first_step = p->reattached_at ? p->step : w->base_step;
    p->page_phase = PAGE_START;
    p->is_connected = true;
    p->has_said_goodbye = false;
    p->page_step = p->step;
    struct procmsg msg = {.type = PROCMSG_ATTACH,
                          .rank = p->rank,
                          .local_rank = p->slot,
                          .world_size = w->nall,
                          .local_world_size = w->s.nprocs,
                          .flags = (w->s.is_bare[p->index] ? 0 : PROCMSG_FLAG_SHIELD) |
                                   needs_flags(w, p),
                          .step = p->step,
                          .first_step = p->first_step,
                          .stride = w->s.stride[p->index],
                          .last_step = w->s.declared_last};
    say(w, p, &msg);
    plan(w, p, PROC_ATTACHING, -1);
}

static void boot(struct world *w, struct proc *p)
{
    bool attaches = w->s.attaches && !w->s.is_silent[p->index];
    if (!attaches || p->epoch == 0)
        next_step(w, p);
    else if (p->step < w->base_step + w->s.late_steps[p->index])
        p->step += w->s.stride[p->index], plan(w, p, PROC_BOOTING, w->s.step_time[p->index]);
    else if (p->is_attached)
        next_step(w, p);
    else if (w->now < w->s.attach_at[p->index])
        plan(w, p, PROC_BOOTING, w->s.attach_at[p->index] - w->now);
    else
        attach(w, p);
}

void proc_told(struct world *w, const struct happening *h)
{
    struct proc *p = &w->procs[h->proc];
    const struct procmsg *msg = h->data;
    if (h->generation != p->generation || !proc_is_alive(p))
        return;
    w->excused_at = w->now;
    switch (msg->type) {
    case PROCMSG_WELCOME:
        if (p->is_counting) /* such a process has not waited */
            break;
        p->is_attached = true;
        if (p->step > p->first_step)
            note_first_step(w, p);
        p->served_tag = msg->tag;
        say_patience(w, p);
        next_step(w, p);
        break;
    case PROCMSG_REFUSED:
        p->is_connected = false;
        if (p->is_counting)
            fail(w, "process %d only counts, and is refused", p->index);
        next_step(w, p);
        break;
    case PROCMSG_LOOK:
        if (p->state == PROC_AT_GATE)
            plan(w, p, PROC_LOOKING, rng_time(&w->rng, 0, MS / 10));
        break;
    case PROCMSG_ANSWER:
        if (p->state != PROC_ANSWER)
            break;
        if (msg->action == PROC_EXIT)
            leave(w, p);
        else if (p->held_run) /* it has finished a step, and only now looks at its gate */
            plan(w, p, PROC_LOOKING, 0);
        else
            go_on(w, p);
        p->held_run = false;
        break;
    default:
        break;
    }
}

/* The process makes no further progress, in any state. While it trains, it may wait for a rank that
 * waits for it: then it gives up, as that rank does. */
void proc_hang(struct world *w, struct proc *p)
{
    if (!proc_is_alive(p) || p->state == PROC_ENDING)
        return;
    bool may_wait = p->state == PROC_TRAINING || p->state == PROC_COLLECTIVE;
    p->hung_at = w->now;
    plan(w, p, PROC_HUNG, w->s.hung_gives_up && may_wait ? w->s.patience : -1);
}

void proc_move(struct world *w, const struct happening *h)
{
    struct proc *p = &w->procs[h->proc];
    if (h->epoch != p->epoch)
        return;
    bool ends = p->state == PROC_ENDING && p->dies_with;
    bool gives_up = p->state == PROC_COLLECTIVE || p->state == PROC_HUNG;
    bool goes_on = !gives_up && !ends, was_attached = p->is_attached;
    uint64_t step = p->page_step;
    w->moved_at = w->now;
    switch (p->state) {
    case PROC_BOOTING:
        boot(w, p);
        break;
    case PROC_TRAINING:
        finish_step(w, p);
        break;
    case PROC_COLLECTIVE:
    case PROC_HUNG:
        give_up(w, p);
        break;
    case PROC_LOOKING:
        look(w, p);
        break;
    case PROC_EVALUATING:
        p->page_phase = PAGE_TRAIN;
        go_on(w, p);
        break;
    case PROC_SAVING:
        end_save(w, p);
        break;
    case PROC_ENDING:
        proc_die(w, p, p->dies_with);
        break;
    default:
        break;
    }
    if (!goes_on || !(was_attached || p->is_attached || p->is_counting))
        return;
    w->went_on_at = w->now;
    if (p->state != PROC_COLLECTIVE || p->page_step != step)
        w->seen_at = w->now;
}
