/* SPDX-License-Identifier: Apache-2.0
 *
 * test_core_mark: what node 0 marks for the ledger of the job. Each mark comes once, when the job
 * does something else.
 */
#include "walk.h"

#include <stdio.h>
#include <string.h>

TestSuite(core_mark, .fini = walks_end);

/* Checks the marks since the last call. */
static void assert_marks(struct walk *w, const char *expected)
{
    cr_assert_str_eq(w->marks, expected, "marked \"%s\", not \"%s\"", w->marks, expected);
    w->marks[0] = '\0';
}

static void reads_at(struct walk *w, uint64_t step)
{
    steps[0] = step;
    steps_are_read(w);
}

Test(core_mark, a_preemption_from_the_start_to_the_end)
{
    struct walk *w = begin_attached(1);
    assert_marks(w, "starting 0");
    reads_at(w, 7);
    assert_marks(w, "training 0");
    reads_at(w, 8);
    assert_marks(w, "");
    terminated(w);
    steps_are_read(w);
    assert_marks(w, "");
    serves(w, 0, 9, 1);
    assert_marks(w, "saving 9");
    saves_and_waits(w, 0, 9, 1);
    committed(w);
    assert_marks(w, "commit 9; stopping 9");
    gone(w, 0);
    ends(w, 0);
    assert_marks(w, "");
    assert_did(w, "exit 42 preempted");
}

Test(core_mark, a_save_after_which_the_training_goes_on)
{
    struct walk *w = begin_attached(1);
    reads_at(w, 3);
    assert_marks(w, "starting 0; training 0");
    feed(w, (struct event){.type = EV_SAVE_ASKED});
    steps_are_read(w);
    serves(w, 0, 4, 1);
    saves_and_waits(w, 0, 4, 1);
    assert_marks(w, "saving 4");
    committed(w);
    assert_marks(w, "commit 4; training 4");
}

/* The other rank of the node may still compile. But ranks of one node step together. */
Test(core_mark, a_job_of_two_nodes_trains_when_both_have_stepped)
{
    begin_two();
    assert_marks(&walks[0], "starting 0; waiting 0; starting 0");
    reads_at(&walks[0], 5);
    deliver();
    assert_marks(&walks[0], "");
    reads_at(&walks[1], 5);
    deliver();
    assert_marks(&walks[0], "training 0");
    assert_marks(&walks[1], "");
}

Test(core_mark, a_failure_ends_the_training)
{
    struct walk *w = begin_attached(1);
    reads_at(w, 3);
    exited(w, 0, 1 << 8);
    steps_are_read(w);
    assert_marks(w, "starting 0; training 0; stopping 3");
}

Test(core_mark, a_restart_in_place_begins_a_generation)
{
    struct core_params p = params_of(0, 1, 1);
    p.restart = (struct restart_policy){.max = 3, .start_max = 3};
    struct walk *w = begin_ranks(&p);
    reads_at(w, 3);
    assert_marks(w, "starting 0; training 0");
    gone(w, 0);
    ends(w, 1 << 8);
    steps_are_read(w);
    assert_did(w, "start");
    assert_marks(w, "restarting 3; starting 0");
}

/* Until the processes of the lost node have ended for certain, too. */
Test(core_mark, a_wait_for_the_replacement_of_a_node)
{
    for (int i = 0; i < WALK_NODES; i++) {
        struct core_params p = params_of(i, WALK_NODES, 1);
        p.replace_wait_ns = 60 * S;
        p.replace_max = 1;
        walk_begin(&p);
    }
    meet();
    for (int i = 0; i < WALK_NODES; i++) {
        started(&walks[i], 0);
        attaches(&walks[i], 0, i, WALK_NODES);
        reads_at(&walks[i], 3);
    }
    deliver();
    assert_marks(&walks[0], "starting 0; waiting 0; starting 0; training 0");
    lose_letters();
    line_closes(&walks[0], true);
    assert_marks(&walks[0], "waiting 3");
    gone(&walks[0], 0);
    ends(&walks[0], SIGTERM);
    lose_letters();
    passes(&walks[0], 30 * S);
    assert_marks(&walks[0], "");
    passes(&walks[0], 30 * S);
    assert_marks(&walks[0], "stopping 3");
}

Test(core_mark, a_program_that_does_not_attach)
{
    struct core_params p = params_of(0, 1, 1);
    p.save_mode = SAVE_SIGNAL;
    p.save_signal = SIGTERM;
    struct walk *w = begin_started(&p);
    assert_marks(w, "starting 0; blind 0");
    ends(w, 0);
    assert_marks(w, "stopping 0");
}

Test(core_mark, a_program_that_attaches_late)
{
    struct walk *w = begin_alone(1);
    passes(w, 61 * S);
    assert_marks(w, "starting 0; blind 0");
    attaches(w, 0, 0, 1);
    assert_marks(w, "starting 0");
    reads_at(w, 1);
    assert_marks(w, "training 0");
}

/* Its ranks attach at a step that no commit has. */
Test(core_mark, a_program_that_resumes_by_itself)
{
    struct walk *w = begin_alone(1);
    attaches_alone(w, (struct procmsg){.step = 500, .first_step = 500});
    reads_at(w, 503);
    assert_marks(w, "starting 0; training 500");
}

/* It is marked when it is over. It began when the rank moved last. */
Test(core_mark, a_hang)
{
    struct core_params p = params_of(0, 1, 1);
    p.watchdog = (struct watchdog_plan){.mode = WATCHDOG_ON, .limit_ns[PAGE_TRAIN] = 80 * S};
    struct walk *w = begin_ranks(&p);
    reads_at(w, 3);
    reads_at(w, 4);
    w->marks[0] = '\0';
    int64_t moved_at = now;
    while (!strstr(w->acts, "examine"))
        wake_and_read(w, 4);
    assert_marks(w, "");
    while (!w->marks[0])
        wake_and_read(w, 4);
    char expected[64];
    snprintf(expected, sizeof expected, "hung 4 for %lld s; stopping 4",
             (long long)((now - moved_at) / S));
    assert_marks(w, expected);
}

/* Rank 0 waits for rank 1, and gives up before the watchdog suspects a hang. Neither that nor its
 * end is a move. */
Test(core_mark, a_hang_that_a_rank_tells_by_giving_up)
{
    struct core_params p = params_of(0, 1, 2);
    p.watchdog = (struct watchdog_plan){.mode = WATCHDOG_ON, .limit_ns[PAGE_TRAIN] = 1800 * S};
    struct walk *w = begin_ranks(&p);
    reads_at(w, 3);
    steps[1] = 3;
    steps_are_read(w);
    w->marks[0] = '\0';
    int64_t moved_at = now;
    for (int i = 0; i < 40; i++) {
        passes(w, S);
        steps_are_read(w);
    }
    says(w, 0,
         (struct procmsg){.type = PROCMSG_ERROR,
                          .number = 1,
                          .text = "Timed out waiting 40000ms for recv operation to complete"});
    passes(w, S);
    gone(w, 0);
    exited(w, 0, 1 << 8);
    while (!w->marks[0])
        wake_and_read(w, 3);
    char expected[64];
    snprintf(expected, sizeof expected, "hung 3 for %lld s; stopping 3",
             (long long)((now - moved_at) / S));
    assert_marks(w, expected);
}

/* Rank 1 ends after a step that was never read. The hang of rank 0 began then. */
Test(core_mark, a_hang_after_the_last_step_of_a_rank_that_ended)
{
    struct core_params p = params_of(0, 1, 2);
    p.watchdog = (struct watchdog_plan){.mode = WATCHDOG_ON, .limit_ns[PAGE_TRAIN] = 80 * S};
    struct walk *w = begin_ranks(&p);
    steps[1] = 3;
    reads_at(w, 3);
    w->marks[0] = '\0';
    passes(w, 9 * S);
    int64_t moved_at = now;
    steps[1] = 4;
    gone(w, 1);
    while (!w->marks[0])
        wake_and_read(w, 3);
    char expected[64];
    snprintf(expected, sizeof expected, "hung 4 for %lld s; stopping 4",
             (long long)((now - moved_at) / S));
    assert_marks(w, expected);
    cr_assert_geq(now, moved_at + 80 * S);
}
