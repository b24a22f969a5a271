/* SPDX-License-Identifier: Apache-2.0
 *
 * test_core_ranks: which process may attach as which rank, the values read of the ranks, and the
 * roster.
 */
#include "core/common/ranks.h"

#include "unit.h"

/* ATTACH() states only what a test is about, over "not stated". */
#pragma GCC diagnostic ignored "-Woverride-init"

static struct ranks ranks;
static struct core_params params;
static struct err err;

static void set_up(int node_rank, int nnodes, int expected)
{
    params =
        (struct core_params){.node_rank = node_rank, .nnodes = nnodes, .expected_procs = expected};
    memset(&ranks, 0, sizeof ranks);
    ranks_init(&ranks, expected);
}

#define NOBODY                                                                             \
    .rank = PROCMSG_UNKNOWN, .local_rank = PROCMSG_UNKNOWN, .world_size = PROCMSG_UNKNOWN, \
    .local_world_size = PROCMSG_UNKNOWN

static struct member *attach_as(int slot, const struct procmsg *msg)
{
    struct event event = {.type = EV_PROC_ATTACHED,
                          .proc = {.slot = slot, .pid = 100 + slot, .msg = msg}};
    return ranks_attach(&ranks, &params, &event, &err);
}

#define ATTACH(slot, ...) \
    attach_as(slot, &(struct procmsg){.type = PROCMSG_ATTACH, NOBODY, __VA_ARGS__})

static void assert_refused(const struct member *m, enum err_code code, const char *text)
{
    cr_assert_null(m);
    cr_assert_eq(err.code, (int)code, "code %d: %s", err.code, err.text);
    cr_assert_not_null(strstr(err.text, text), "\"%s\" is not in \"%s\"", text, err.text);
}

Test(core_ranks, what_is_not_stated_is_worked_out)
{
    set_up(1, 3, 2);
    struct member *first = ATTACH(4, .stride = 1), *second = ATTACH(7, .stride = 1);
    cr_assert(first && second);
    cr_assert_eq(first->rank, 2);
    cr_assert_eq(first->local_rank, 0);
    cr_assert_eq(second->rank, 3);
    cr_assert_eq(second->local_rank, 1);
    cr_assert_eq(ranks.world_size, 6);
    cr_assert(ranks_are_complete(&ranks));
    cr_assert_eq(ranks_of_slot(&ranks, 7), second);
    cr_assert_null(ranks_of_slot(&ranks, 5));
    cr_assert_null(ranks_of_slot(&ranks, -1));
    cr_assert_null(ranks_of_slot(&ranks, CORE_SLOTS_MAX));
}

/* As DeepSpeed's launcher, which tells its workers the world size, but not the number of ranks on
 * this node. */
Test(core_ranks, of_a_world_alone_each_node_has_an_equal_part)
{
    set_up(0, 1, RANKS_UNKNOWN);
    cr_assert(ATTACH(0, .rank = 1, .local_rank = 1, .world_size = 2, .stride = 1));
    cr_assert_not(ranks_are_complete(&ranks));
    cr_assert(ATTACH(1, .rank = 0, .local_rank = 0, .world_size = 2, .stride = 1));
    cr_assert(ranks_are_complete(&ranks));
    set_up(1, 3, RANKS_UNKNOWN);
    const struct member *m = ATTACH(0, .rank = 3, .world_size = 6, .stride = 1);
    cr_assert(m && m->local_rank == 1);
    cr_assert_eq(ranks.expected, 2);
    /* A world size that the nodes do not divide evenly tells nothing. The user may give the
     * number. */
    set_up(1, 3, RANKS_UNKNOWN);
    cr_assert(ATTACH(0, .rank = 3, .world_size = 7, .stride = 1));
    cr_assert_eq(ranks.expected, 1);
    set_up(1, 3, 3);
    cr_assert(ATTACH(0, .rank = 3, .world_size = 7, .stride = 1));
    cr_assert_eq(ranks.expected, 3);
}

/* torchrun starts its workers again, in the same places. A process that is gone keeps its part. */
Test(core_ranks, the_loading_of_all_processes_of_a_rank_adds_up)
{
    set_up(0, 1, 2);
    struct member *m = ATTACH(0, .rank = 0, .world_size = 2, .stride = 1);
    struct member *other = ATTACH(1, .rank = 1, .world_size = 2, .stride = 1);
    m->pace.loading_ns = 300;
    other->pace.loading_ns = 400;
    cr_assert_eq(ranks_longest_loading(&ranks), 400);
    ranks_gone(&ranks, m, 5);
    m = ATTACH(0, .rank = 0, .world_size = 2, .stride = 1);
    cr_assert_eq(ranks_loading(m), 300);
    m->pace.loading_ns = 200;
    cr_assert_eq(ranks_longest_loading(&ranks), 500);
    m->pace.loading_ns = INT64_MAX;
    cr_assert_eq(ranks_loading(m), INT64_MAX);
    cr_assert_eq(ranks_longest_loading(&ranks), INT64_MAX);
}

Test(core_ranks, the_first_says_how_many)
{
    set_up(0, 1, RANKS_UNKNOWN);
    cr_assert(!ranks_are_complete(&ranks));
    cr_assert(ATTACH(0, .rank = 2, .local_rank = 2, .world_size = 3, .local_world_size = 3));
    cr_assert_eq(ranks.expected, 3);
    assert_refused(ATTACH(1, .rank = 1, .local_world_size = 4), ERR_PROTOCOL, "3 are expected");
}

/* A program may open the job to see where it resumes, and then start its ranks. */
Test(core_ranks, who_left_as_it_came_binds_nobody)
{
    set_up(0, 1, RANKS_UNKNOWN);
    struct member *visitor = ATTACH(0, .rank = 0, .world_size = 1, .first_step = 5, .stride = 3);
    cr_assert(visitor);
    visitor->is_closed = true;
    ranks_gone(&ranks, visitor, 5);
    cr_assert(ATTACH(0, .rank = 1, .world_size = 2, .local_world_size = 2, .stride = 2));
    cr_assert_eq(ranks.n, 1);
    cr_assert_eq(ranks.stride.period, 2);
    cr_assert(ATTACH(1, .rank = 0, .world_size = 2, .local_world_size = 2, .stride = 2));
    cr_assert(ranks_are_complete(&ranks));
}

Test(core_ranks, who_trained_or_is_there_binds_the_others)
{
    for (int way = 0; way < 4; way++) {
        set_up(0, 1, RANKS_UNKNOWN);
        struct member *first = ATTACH(0, .rank = 0, .world_size = 1);
        cr_assert(first);
        first->is_closed = way != 1;
        first->is_done = way == 2;
        if (way != 0)
            ranks_gone(&ranks, first, way == 3);
        assert_refused(ATTACH(1, .rank = 1, .world_size = 2, .local_world_size = 2), ERR_PROTOCOL,
                       "world has 2 ranks; earlier ranks said 1");
    }
}

Test(core_ranks, what_does_not_fit_is_refused)
{
    set_up(0, 2, 2);
    cr_assert(ATTACH(0, .rank = 0, .world_size = 4));
    assert_refused(ATTACH(1, .rank = 0, .world_size = 4), ERR_TAKEN, "by process 100; process 101");
    assert_refused(ATTACH(1, .rank = 1, .world_size = 8), ERR_PROTOCOL, "world has 8 ranks");
    assert_refused(ATTACH(1, .rank = 4, .world_size = 4), ERR_PROTOCOL,
                   "is out of range: the world has 4 ranks");
    assert_refused(ATTACH(1, .rank = -7, .world_size = 4), ERR_PROTOCOL,
                   "is out of range: the world has 4 ranks");
    assert_refused(ATTACH(1, .rank = 1, .world_size = 0), ERR_PROTOCOL, "world size 0");
    assert_refused(ATTACH(1, .rank = 1, .world_size = CORE_WORLD_MAX + 1), ERR_PROTOCOL,
                   "must be from 1 to 65536");
    cr_assert_eq(ranks.n, 1);
    cr_assert(ATTACH(1, .rank = 1, .world_size = 4));
    assert_refused(ATTACH(2, .rank = 2, .world_size = 4), ERR_TAKEN, "one too many");
    set_up(0, 1, RANKS_UNKNOWN);
    assert_refused(ATTACH(0, .local_world_size = CORE_SLOTS_MAX + 1), ERR_PROTOCOL,
                   "257 ranks on one node");
    assert_refused(ATTACH(0, .local_world_size = -3, .world_size = 1, .rank = 0), ERR_PROTOCOL,
                   "-3 ranks on one node");
}

Test(core_ranks, strides_must_have_a_step_in_common)
{
    set_up(0, 1, 2);
    cr_assert(ATTACH(0, .first_step = 0, .stride = 4));
    assert_refused(ATTACH(1, .first_step = 1, .stride = 2), ERR_PROTOCOL,
                   "can save at none of these");
    cr_assert(ATTACH(1, .first_step = 2, .stride = 6));
    cr_assert_eq(ranks.stride.period, 12);
    cr_assert_eq(ranks.stride.offset, 8);
}

Test(core_ranks, an_ended_rank_may_come_back)
{
    set_up(0, 1, 1);
    struct member *m = ATTACH(0, .step = 5, .first_step = 5);
    cr_assert(m);
    m->served_round = m->saved_round = 3;
    m->saved_step = 9;
    ranks_gone(&ranks, m, 12);
    cr_assert(m->is_ended && m->slot == -1 && ranks.nconnected == 0);
    cr_assert(ranks_steps_of(&ranks).have_stepped && ranks_are_complete(&ranks));
    cr_assert_eq(ranks_steps_of(&ranks).highest, 12);
    cr_assert_null(ranks_of_slot(&ranks, 0));
    cr_assert_eq(ATTACH(8, .step = 12, .first_step = 12), m);
    cr_assert(!m->is_ended && ranks.nconnected == 1);
    cr_assert(m->served_round == 3 && m->saved_step == 9, "what it has done was forgotten");
    cr_assert(ranks_steps_of(&ranks).have_stepped, "that a rank has trained was forgotten");
}

Test(core_ranks, absurd_numbers_are_held_out)
{
    uint64_t steps[CORE_SLOTS_MAX] = {0};
    set_up(0, 1, 2);
    cr_assert(!ATTACH(0, .step = UINT64_MAX) && !ATTACH(0, .first_step = UINT64_MAX));
    cr_assert_not_null(strstr(err.text, "starts from step 18446744073709551615"), "%s", err.text);
    cr_assert(ATTACH(0, .last_step = UINT64_MAX) && ATTACH(1, .step = 3));
    cr_assert_eq(ranks_steps_of(&ranks).last, 0);
    steps[0] = 7;
    steps[1] = RANKS_STEP_MAX + 1;
    cr_assert(!ranks_read_steps(&ranks, steps, &err));
    cr_assert_not_null(strstr(err.text, "process 101"), "%s", err.text);
    cr_assert_eq(ranks_steps_of(&ranks).highest, 7);
    cr_assert_eq(ranks_steps_of(&ranks).lowest, 3);
    ranks_gone(&ranks, ranks_of_slot(&ranks, 0), UINT64_MAX);
    cr_assert_eq(ranks_steps_of(&ranks).highest, 7);
    steps[1] = RANKS_STEP_MAX;
    cr_assert(ranks_read_steps(&ranks, steps, &err));
    cr_assert_eq(ranks_steps_of(&ranks).highest, RANKS_STEP_MAX);
}

Test(core_ranks, own_saves_of_all)
{
    set_up(0, 1, 2);
    struct member *a = ATTACH(0, .rank = 0), *b = ATTACH(1, .rank = 1);
    ranks_add_own(a, 10, 0);
    ranks_add_own(a, 20, 0);
    cr_assert_eq(ranks_own_step(&ranks, 0), 0);
    ranks_add_own(b, 10, 0);
    ranks_add_own(b, 10, 0);
    cr_assert_eq(b->nown, 1);
    cr_assert_eq(ranks_own_step(&ranks, 0), 10);
    ranks_add_own(b, 20, 0);
    cr_assert_eq(ranks_own_step(&ranks, 0), 10, "the oldest first");
    cr_assert_eq(ranks_own_step(&ranks, 10), 20);
    cr_assert_eq(ranks_own_step(&ranks, 20), 0);
    for (uint64_t step = 30; step < 30 + 10 * OWN_KEPT; step += 10)
        ranks_add_own(a, step, 0);
    cr_assert_eq(ranks_own_step(&ranks, 0), 0, "the old ones are forgotten");
}

Test(core_ranks, last_step_is_the_smallest_declared)
{
    set_up(0, 1, 3);
    cr_assert(ATTACH(0, .last_step = 0) && ATTACH(1, .last_step = 90) &&
              ATTACH(2, .last_step = 80));
    cr_assert_eq(ranks_steps_of(&ranks).last, 80);
}

static void assert_roster(const int *list, int n, const char *expected)
{
    char text[64];
    set_up(0, 1, n);
    for (int i = 0; i < n; i++)
        cr_assert(ATTACH(i, .rank = list[i], .world_size = 100), "%s", err.text);
    cr_assert(ranks_roster(&ranks, text, sizeof text));
    cr_assert_str_eq(text, expected);
}

Test(core_ranks, roster)
{
    assert_roster((int[]){0}, 1, "0");
    assert_roster((int[]){3, 1, 2, 0, 8}, 5, "0-3,8");
    assert_roster((int[]){9, 7, 5}, 3, "5,7,9");
    assert_roster((int[]){10, 98, 99, 11, 50}, 5, "10-11,50,98-99");
    char text[4];
    cr_assert(!ranks_roster(&ranks, text, sizeof text), "it does not fit");
    set_up(0, 1, 0);
    cr_assert(ranks_roster(&ranks, text, sizeof text));
    cr_assert_str_eq(text, "");
}
