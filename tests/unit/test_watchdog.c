/* SPDX-License-Identifier: Apache-2.0
 * core/watchdog: one node's ranks, looked at through virtual time. The whole job is the
 * simulator's.
 */
#include "core/common/watchdog.h"

#include "base/clock.h"

#include <criterion/criterion.h>

#define S NS_PER_S
#define M (60 * NS_PER_S)

static struct core_params params;
static struct out out;
static struct watchdog dog;
static struct ranks ranks;
static struct watchdog_node node;
static uint64_t steps[CORE_SLOTS_MAX];
static uint8_t phases[CORE_SLOTS_MAX];
static int64_t output_at;
static int reads, examinations;
static struct err err;

static void act(void *shell, const struct action *action)
{
    reads += action->type == ACT_READ_STEPS;
    examinations += action->type == ACT_EXAMINE;
}

static void attach(int rank)
{
    struct procmsg msg = {.type = PROCMSG_ATTACH,
                          .rank = rank,
                          .local_rank = rank,
                          .world_size = 2,
                          .local_world_size = 2,
                          .stride = 1};
    struct event event = {.type = EV_PROC_ATTACHED,
                          .proc = {.slot = rank, .pid = 100 + rank, .msg = &msg}};
    struct member *m = ranks_attach(&ranks, &params, &event, &err);
    cr_assert(m, "%s", err.text);
    watchdog_heard(&dog, m);
}

/* Adds a rank that only tells its steps. */
static struct member *count(int slot, int rank)
{
    struct procmsg msg = {.type = PROCMSG_ATTACH,
                          .flags = PROCMSG_FLAG_COUNTS,
                          .rank = rank,
                          .local_rank = PROCMSG_UNKNOWN,
                          .world_size = PROCMSG_UNKNOWN,
                          .local_world_size = PROCMSG_UNKNOWN};
    struct event event = {.type = EV_PROC_ATTACHED,
                          .proc = {.slot = slot, .pid = 100 + slot, .msg = &msg}};
    struct member *m = ranks_count(&ranks, &params, &event, &err);
    if (m)
        watchdog_heard(&dog, m);
    return m;
}

static void begin(void)
{
    params = (struct core_params){
        .nnodes = 1,
        .watchdog = {
            .mode = WATCHDOG_ON,
            .limit_ns =
                {[PAGE_START] = 10 * M, [PAGE_TRAIN] = M, [PAGE_EVAL] = 5 * M, [PAGE_SAVE] = 2 * M},
            .factor = 3}};
    out = (struct out){.params = &params, .act = act, .now = 1000 * S};
    node = (struct watchdog_node){.is_running = true};
    ranks_init(&ranks, 2);
    watchdog_init(&dog, &ranks, &out);
    watchdog_begin(&dog);
}

TestSuite(watchdog, .init = begin);

/* Reads the pages `ns` later. */
static struct peer_watch look_after(int64_t ns)
{
    struct event event = {
        .type = EV_STEPS,
        .steps = {.by_slot = steps, .phase_by_slot = phases, .output_at = output_at}};
    out.now += ns;
    watchdog_read(&dog, &event, &node);
    cr_assert(ranks_read_steps(&ranks, steps, &err));
    return watchdog_view(&dog, &node);
}

static struct peer_watch train_to(uint64_t step)
{
    steps[0] = steps[1] = step;
    phases[0] = phases[1] = PAGE_TRAIN;
    return look_after(S);
}

static void begin_training(void)
{
    attach(0);
    attach(1);
    cr_assert_eq(train_to(1).motion, MOTION_MOVES);
}

Test(watchdog, a_step_has_its_limit)
{
    begin_training();
    cr_assert_eq(look_after(M - 1).motion, MOTION_MOVES);
    struct peer_watch view = look_after(1);
    cr_assert_eq(view.motion, MOTION_STANDS);
    cr_assert(view.behind_rank == 0 && view.behind_count == 2 && view.limit_ns == M);
    cr_assert_eq(view.behind_ago_ns, M);
    cr_assert_eq(train_to(2).motion, MOTION_MOVES);
}

Test(watchdog, the_lowest_step_is_behind)
{
    begin_training();
    steps[0] = 2;
    look_after(S);
    struct peer_watch view = look_after(M);
    cr_assert_eq(view.motion, MOTION_STANDS);
    cr_assert(view.behind_rank == 1 && view.behind_count == 1);
    steps[1] = 3;
    look_after(S);
    view = look_after(M);
    cr_assert_eq(view.behind_rank, 0);
}

/* Of ranks at one step, the others wait for the rank that does not train. */
Test(watchdog, of_equals_the_one_that_does_not_train)
{
    begin_training();
    phases[1] = PAGE_SAVE;
    look_after(S);
    cr_assert_eq(look_after(2 * M - 1).motion, MOTION_MOVES);
    struct peer_watch view = look_after(1);
    cr_assert_eq(view.motion, MOTION_STANDS);
    cr_assert(view.behind_rank == 1 && view.behind_phase == PAGE_SAVE && view.limit_ns == 2 * M);
}

/* Rank 0 has waited for long, and rank 1, which it waited for, has gone on. Now rank 0 is expected
 * to move. */
Test(watchdog, the_time_of_all_counts_from_the_last_that_moved)
{
    begin_training();
    phases[1] = PAGE_EVAL;
    look_after(S);
    cr_assert_eq(look_after(4 * M).motion, MOTION_MOVES);
    steps[1] = 2;
    phases[1] = PAGE_TRAIN;
    look_after(S);
    cr_assert_eq(look_after(M - S).motion, MOTION_MOVES);
    cr_assert_eq(look_after(S).motion, MOTION_STANDS);
}

Test(watchdog, the_first_step_is_part_of_the_start)
{
    attach(0);
    attach(1);
    phases[0] = phases[1] = PAGE_TRAIN;
    cr_assert_eq(look_after(10 * M - 1).motion, MOTION_MOVES);
    cr_assert_eq(look_after(S).motion, MOTION_MOVES); /* the rank had reported that it trains */
    struct peer_watch view = look_after(10 * M);
    cr_assert(view.motion == MOTION_STANDS && view.behind_phase == PAGE_START);
}

Test(watchdog, who_has_not_come)
{
    attach(0);
    cr_assert_eq(look_after(10 * M - 1).motion, MOTION_MOVES);
    struct peer_watch view = look_after(S);
    cr_assert(view.motion == MOTION_STANDS && view.absent == 1);
    ranks.members[0].wait = WAIT_SAVE;
    view = look_after(S);
    cr_assert(view.motion == MOTION_ABSENT && view.absent == 1);
}

Test(watchdog, pauses_are_learned)
{
    begin_training();
    look_after(50 * S);
    train_to(2);
    cr_assert_eq(look_after(3 * 50 * S).motion, MOTION_MOVES);
    cr_assert_eq(look_after(3 * S).motion, MOTION_STANDS);
}

/* The rank could stand longer than its limit only because another rank had more time. */
Test(watchdog, a_pause_that_was_excused_teaches_nothing)
{
    begin_training();
    phases[1] = PAGE_EVAL;
    look_after(S);
    look_after(4 * M);
    train_to(2);
    cr_assert_eq(look_after(M).motion, MOTION_STANDS);
}

Test(watchdog, a_false_alarm_is_learned_from)
{
    begin_training();
    look_after(2 * M);
    watchdog_order(&dog, 1);
    cr_assert_eq(examinations, 1);
    train_to(2);
    cr_assert_eq(look_after(6 * M).motion, MOTION_MOVES);
}

Test(watchdog, pauses_are_forgotten)
{
    begin_training();
    look_after(50 * S);
    train_to(2);
    for (uint64_t i = 3; i < 20; i++) {
        out.now += 3600 * S;
        ranks.members[0].stand.since = ranks.members[1].stand.since = out.now;
        train_to(i);
    }
    cr_assert_eq(look_after(M).motion, MOTION_STANDS);
}

Test(watchdog, who_waits_or_has_ended_rests)
{
    begin_training();
    ranks.members[0].wait = WAIT_GATE;
    ranks.members[1].is_ended = true;
    cr_assert_eq(look_after(100 * M).motion, MOTION_RESTS);
    ranks.members[0].wait = WAIT_NONE;
    cr_assert_eq(look_after(0).motion, MOTION_MOVES); /* the rank has the whole time again */
    cr_assert_eq(look_after(M).motion, MOTION_STANDS);
    watchdog_ended(&dog, 100, true);
    struct peer_watch view = look_after(M);
    cr_assert_eq(view.motion, MOTION_RESTS);
    cr_assert_eq(view.still_ns, 102 * M, "a failure is no move");
    watchdog_ended(&dog, 101, false);
    cr_assert_eq(look_after(M).still_ns, M);
}

Test(watchdog, quiet_and_off)
{
    begin_training();
    node.is_quiet = true;
    cr_assert_eq(look_after(100 * M).motion, MOTION_MOVES);
    node.is_quiet = false;
    cr_assert_eq(look_after(M - 1).motion, MOTION_MOVES);
    cr_assert_eq(look_after(1).motion, MOTION_STANDS);
    params.watchdog.mode = WATCHDOG_OFF;
    cr_assert_eq(look_after(M).motion, MOTION_MOVES);
    ranks.nconnected = 1;
    cr_assert_eq(watchdog_wake_at(&dog, &node), CLOCK_NEVER);
}

/* On one node, no heartbeat reads the pages of ranks that may be slow. */
Test(watchdog, looks_for_slow_ranks)
{
    params.watchdog.mode = WATCHDOG_OFF;
    attach(0);
    cr_assert_eq(watchdog_wake_at(&dog, &node), CLOCK_NEVER);
    attach(1);
    cr_assert_eq(watchdog_wake_at(&dog, &node), out.now + 5 * S);
    look_after(M);
    cr_assert_eq(watchdog_wake_at(&dog, &node), out.now + M / 2, "no rank marks its waits yet");
    ranks.members[0].pace.own_ns = 1;
    cr_assert_eq(watchdog_wake_at(&dog, &node), out.now + 5 * S);
    params.nnodes = 2;
    cr_assert_eq(watchdog_wake_at(&dog, &node), CLOCK_NEVER);
}

Test(watchdog, no_limit_is_for_ever)
{
    begin_training();
    params.watchdog.limit_ns[PAGE_TRAIN] = 0;
    cr_assert_eq(look_after(1000 * M).motion, MOTION_MOVES);
}

Test(watchdog, our_absence_does_not_count)
{
    begin_training();
    out.now += 10 * M;
    watchdog_forgive(&dog, 10 * M);
    cr_assert_eq(look_after(M - 1).motion, MOTION_MOVES);
    cr_assert_eq(look_after(1).motion, MOTION_STANDS);
}

Test(watchdog, examinations)
{
    begin_training();
    look_after(M);
    watchdog_order(&dog, 0);
    watchdog_order(&dog, 7);
    watchdog_order(&dog, 7);
    cr_assert_eq(examinations, 1);
    struct event event = {.type = EV_EXAMINED, .examined = {.number = 6}};
    watchdog_examined(&dog, &event);
    cr_assert_eq(reads, 0);
    event.examined.number = 7;
    watchdog_examined(&dog, &event);
    cr_assert(reads == 1 && dog.examined != 7);
    cr_assert_eq(look_after(0).motion, MOTION_STANDS);
    cr_assert_eq(dog.examined, 7);
    event.examined.stopped_pid = 100;
    event.examined.is_traced = true;
    watchdog_examined(&dog, &event);
    cr_assert_eq(look_after(M - 1).motion, MOTION_MOVES);
}

/* A signal has stopped a rank, and the others wait for it: the stopped rank is named, though no
 * rank is ahead of it.
 */
Test(watchdog, a_stopped_rank)
{
    begin_training();
    look_after(M);
    watchdog_order(&dog, 7);
    const struct member *last = &ranks.members[ranks.n - 1];
    struct event event = {.type = EV_EXAMINED, .examined = {.number = 7, .stopped_pid = last->pid}};
    watchdog_examined(&dog, &event);
    struct peer_watch view = look_after(0);
    cr_assert_eq(view.motion, MOTION_STANDS, "no time more than others have");
    cr_assert_eq(view.behind_rank, last->rank);
    cr_assert(view.behind_stopped);
    cr_assert_eq(dog.examined, 7);
    steps[1]++;
    cr_assert_eq(look_after(0).motion, MOTION_MOVES);
    event.examined.number = 8;
    watchdog_order(&dog, 8);
    watchdog_examined(&dog, &event);
    view = look_after(3 * M); /* the pause was no hang, so the limit has grown */
    cr_assert(view.behind_rank == 0 && !view.behind_stopped,
              "it waits for a rank that is behind it");
    steps[0]++;
    look_after(0);
    view = look_after(30 * M);
    cr_assert(view.motion == MOTION_STANDS && !view.behind_stopped, "that is not known any more");
}

/* Normal for a rank in another PID namespace: its number is not known. If no process is stopped,
 * that rank is not stopped either. */
Test(watchdog, a_rank_of_an_unknown_pid_is_not_stopped)
{
    begin_training();
    ranks.members[ranks.n - 1].pid = 0;
    cr_assert(!look_after(M).behind_stopped);
    cr_assert_eq(look_after(0).behind_rank, ranks.members[0].rank,
                 "the first of equals, as without it");
}

Test(watchdog, silence)
{
    params.watchdog.silence_ns = 2 * M;
    output_at = 0; /* the commands' output is not seen */
    cr_assert_eq(look_after(100 * M).motion, MOTION_MOVES);
    output_at = out.now;
    cr_assert_eq(look_after(2 * M - 1).motion, MOTION_MOVES);
    cr_assert_eq(look_after(1).motion, MOTION_SILENT);
    output_at = out.now;
    cr_assert_eq(look_after(S).motion, MOTION_MOVES);
    node.is_running = false;
    cr_assert_eq(look_after(100 * M).motion, MOTION_RESTS);
}

/* One or two looks within the shortest limit, and none if no rank is watched. */
Test(watchdog, when_it_looks)
{
    cr_assert_eq(watchdog_wake_at(&dog, &node), CLOCK_NEVER);
    attach(0);
    cr_assert_eq(watchdog_wake_at(&dog, &node), out.now + M / 8);
    out.now += M / 8;
    watchdog_look(&dog);
    cr_assert(reads == 1 && watchdog_wake_at(&dog, &node) == out.now + M / 8);
    params.nnodes = 2; /* the heartbeats read the steps */
    cr_assert_eq(watchdog_wake_at(&dog, &node), CLOCK_NEVER);
}

/* A page may show any phase. */
Test(watchdog, a_phase_that_is_none)
{
    begin_training();
    phases[0] = 77;
    cr_assert_eq(look_after(S).motion, MOTION_MOVES);
    cr_assert_eq(look_after(M).motion, MOTION_STANDS);
}

/* --- ranks that only count their steps --- */

Test(watchdog, who_only_counts_is_watched)
{
    ranks.expected = RANKS_UNKNOWN;
    cr_assert(count(0, PROCMSG_UNKNOWN), "%s", err.text);
    cr_assert_eq(ranks.n, 0, "for all else no rank is there");
    cr_assert(!ranks_are_complete(&ranks) && !ranks_steps_of(&ranks).have_stepped);
    cr_assert_eq(train_to(1).motion, MOTION_MOVES);
    cr_assert_neq(watchdog_wake_at(&dog, &node), CLOCK_NEVER);
    cr_assert_eq(look_after(M - 1).motion, MOTION_MOVES);
    struct peer_watch view = look_after(1);
    cr_assert_eq(view.motion, MOTION_STANDS);
    cr_assert(view.behind_rank == 0 && view.behind_step == 1 && view.absent == 0);
    cr_assert_eq(ranks_steps_of(&ranks).highest, 0, "no save is agreed on because of it");
    cr_assert_eq(ranks.counters[0].step, 1);
    ranks_gone(&ranks, ranks_of_slot(&ranks, 0), 2);
    cr_assert_eq(look_after(S).motion, MOTION_RESTS);
    cr_assert_eq(watchdog_wake_at(&dog, &node), CLOCK_NEVER);
}

Test(watchdog, one_that_does_not_count_is_waited_for)
{
    /* two are expected */
    cr_assert(count(0, 0));
    train_to(1);
    cr_assert_eq(look_after(2 * M).motion, MOTION_MOVES, "the other one may be starting");
    struct peer_watch view = look_after(10 * M);
    cr_assert(view.motion == MOTION_STANDS && view.absent == 1);
    cr_assert(count(1, 1));
    cr_assert_eq(watchdog_view(&dog, &node).absent, 0);
}

Test(watchdog, what_is_printed_tells_nothing_of_who_counts)
{
    params.watchdog.silence_ns = 10 * S;
    output_at = out.now;
    cr_assert_eq(look_after(11 * S).motion, MOTION_SILENT);
    cr_assert(count(0, 0) && count(1, 1));
    cr_assert_eq(train_to(1).motion, MOTION_MOVES);
    cr_assert_eq(look_after(30 * S).motion, MOTION_MOVES);
}

/* The steps are read from the output. The limit of the start ends with the first line. */
Test(watchdog, a_first_line_that_never_comes)
{
    params.watchdog.reads_steps = true;
    cr_assert_eq(watchdog_wake_at(&dog, &node), out.now + M / 8);
    cr_assert_eq(look_after(params.watchdog.limit_ns[PAGE_START] - 1).motion, MOTION_RESTS);
    cr_assert_eq(look_after(1).motion, MOTION_SILENT);
    cr_assert(count(0, 0));
    cr_assert_eq(train_to(1).motion, MOTION_MOVES);
}

/* One rank prints for all: the others are not absent. */
Test(watchdog, ranks_that_print_no_step)
{
    ranks.expected = 4;
    params.watchdog.reads_steps = true;
    cr_assert(count(0, 2));
    cr_assert_eq(train_to(1).motion, MOTION_MOVES);
    struct peer_watch view = look_after(params.watchdog.limit_ns[PAGE_TRAIN]);
    cr_assert(view.motion == MOTION_STANDS && view.absent == 0 && view.behind_rank == 2);
    ranks_gone(&ranks, ranks_of_slot(&ranks, 0), 1);
    cr_assert_eq(look_after(100 * M).motion, MOTION_RESTS, "its command has ended");
}

Test(watchdog, counters_have_the_lowest_free_rank)
{
    ranks.expected = RANKS_UNKNOWN;
    cr_assert(count(0, PROCMSG_UNKNOWN)->rank == 0);
    cr_assert(count(1, PROCMSG_UNKNOWN)->rank == 1);
    cr_assert(count(2, 0)->rank == 0, "it is their own affair");
    cr_assert(!count(3, CORE_WORLD_MAX));
    ranks_gone(&ranks, ranks_of_slot(&ranks, 1), 0);
    cr_assert(count(1, PROCMSG_UNKNOWN)->rank == 1);
    cr_assert_eq(ranks.ncounters, 3, "places are used again");
    for (int slot = 3; slot < CORE_SLOTS_MAX; slot++)
        cr_assert(count(slot, PROCMSG_UNKNOWN), "%d: %s", slot, err.text);
    cr_assert_eq(ranks.ncounting, CORE_SLOTS_MAX);
}

Test(watchdog, a_counter_of_nonsense_is_no_news)
{
    cr_assert(count(0, 0) && count(1, 1));
    train_to(5);
    steps[0] = RANKS_STEP_MAX + 1;
    look_after(S); /* no rank fails */
    cr_assert_eq(ranks.counters[0].step, 5);
}

/* --- collectives that give up --- */

Test(watchdog, the_limit_ends_before_the_collectives_give_up)
{
    params.watchdog.follows_timeout = true;
    params.watchdog.limit_ns[PAGE_TRAIN] = 30 * M;
    begin_training();
    for (int rank = 0; rank < 2; rank++)
        watchdog_take_timeout(&dog, ranks_of_rank(&ranks, rank), 10 * M);
    cr_assert_eq(look_after(8 * M - 1).motion, MOTION_MOVES);
    struct peer_watch view = look_after(1);
    cr_assert(view.motion == MOTION_STANDS && view.limit_ns == 8 * M);
    cr_assert_eq(view.patience_ns, 12 * M);
}

/* A pause that a rank came out of is longer than the collectives' time, times the factor. */
Test(watchdog, a_learned_limit_is_above_theirs)
{
    params.watchdog.follows_timeout = true;
    params.watchdog.limit_ns[PAGE_TRAIN] = 30 * M;
    begin_training();
    watchdog_take_timeout(&dog, ranks_of_rank(&ranks, 0), 10 * M);
    look_after(5 * M);
    train_to(2);
    cr_assert_eq(look_after(15 * M).motion, MOTION_MOVES);
}

/* An evaluation of a process that only counts looks like a long step. */
Test(watchdog, a_counter_s_limit_stays)
{
    params.watchdog.follows_timeout = true;
    ranks.expected = RANKS_UNKNOWN;
    watchdog_take_timeout(&dog, count(0, 0), 20 * S);
    steps[0] = 1;
    phases[0] = PAGE_TRAIN;
    look_after(S);
    struct peer_watch view = look_after(M - 1);
    cr_assert(view.motion == MOTION_MOVES && view.patience_ns == 0);
    cr_assert_eq(look_after(1).motion, MOTION_STANDS);
}

Test(watchdog, a_rank_that_gave_up_is_not_behind)
{
    begin_training();
    struct member *m = ranks_of_rank(&ranks, 0);
    m->gave_up = true;
    struct peer_watch view = look_after(S);
    cr_assert(view.gave_up == 1 && view.behind_rank == 1 && view.behind_count == 1);
    ranks_gone(&ranks, ranks_of_rank(&ranks, 1), 1);
    ranks_of_rank(&ranks, 1)->gone_at = out.now;
    view = look_after(S);
    cr_assert_eq(view.behind_rank, 1, "its launcher has ended it");
    m->stand.step = 0;
    view = look_after(S);
    cr_assert(!view.gave_up, "it goes on");
}
