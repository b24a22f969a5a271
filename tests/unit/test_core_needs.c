/* SPDX-License-Identifier: Apache-2.0
 *
 * test_core_needs: a save that some ranks or nodes do not outlive (save.needs), and when every
 * rank's save is needed all the same.
 */
#include "walk.h"

#include "base/str.h"

#include <stdio.h>

TestSuite(core_needs, .fini = walks_end);

enum { SAVE_STEP = 9, FREE_SLOT = 7 };

static void attach_as(struct walk *w, int slot, int rank, int world, uint32_t flags)
{
    says(w, slot,
         (struct procmsg){.type = PROCMSG_ATTACH,
                          .flags = flags,
                          .rank = rank,
                          .local_rank = PROCMSG_UNKNOWN,
                          .world_size = world,
                          .local_world_size = PROCMSG_UNKNOWN,
                          .stride = 1});
}

/* Two nodes with a rank each that share a directory. Node 1 has looked whether it is the same. */
static void begin(enum save_needs needs, uint32_t flags0, uint32_t flags1)
{
    const uint32_t flags[] = {flags0, flags1};
    lose_letters();
    for (int i = 0; i < WALK_NODES; i++) {
        struct core_params p = params_of(i, WALK_NODES, 1);
        p.needs = needs;
        p.shares_saves = true;
        p.has_record = true;
        str_copy(p.shared_dir, sizeof p.shared_dir, "directory");
        walk_begin(&p);
    }
    meet();
    assert_did(&walks[1], "seek");
    for (int i = 0; i < WALK_NODES; i++) {
        started(&walks[i], 0);
        attach_as(&walks[i], 0, i, WALK_NODES, flags[i]);
        steps_are_read(&walks[i]);
    }
    deliver();
}

static void sees_dir(bool is_other)
{
    feed(&walks[1], (struct event){.type = EV_DIR_SEEN, .is_other_dir = is_other});
    deliver();
}

/* A save that the training goes on after. */
static void decide(void)
{
    steps[0] = SAVE_STEP - 1;
    signalled(&walks[0], SIGUSR2);
    agree();
    assert_said(&walks[0], "every rank saves step 9");
    walks[0].acts[0] = walks[1].acts[0] = '\0';
}

static void begin_saving(enum save_needs needs)
{
    begin(needs, 0, 0);
    sees_dir(false);
    decide();
}

static void recorded(int node, enum peer_paths paths)
{
    assert_did(&walks[node], "prepare 9");
    feed(&walks[node], (struct event){.type = EV_PREPARED, .paths = paths});
    deliver();
}

/* The rank of node 0 has saved, and its record is written. */
static void saves_on_0(enum peer_paths paths)
{
    saves_and_waits(&walks[0], 0, SAVE_STEP, 1);
    recorded(0, paths);
}

static void comes_on_1(void)
{
    serves(&walks[1], 0, SAVE_STEP, 1);
    deliver();
}

static void lose_1(void)
{
    line_closes(&walks[0], true);
    assert_said(&walks[0], "its supervisor has ended without reporting it");
}

/* Time passes, and pchrun runs all the while. */
static void lives(int64_t time)
{
    int64_t until = now + time;
    while (core_wake_at(walks[0].core) <= until) {
        wake(&walks[0]);
        steps_are_read(&walks[0]);
    }
    passes(&walks[0], until - now);
}

static void expect_commit(uint32_t whole)
{
    assert_did(&walks[0], "commit 9");
    cr_expect_eq(walks[0].commit.whole, whole, "whole is %u", walks[0].commit.whole);
}

static void written_commit(void)
{
    written(&walks[0], EV_COMMITTED);
    assert_did(&walks[0], "0: leave, committed");
}

Test(core_needs, a_lost_node_costs_no_commit_of_rank_0)
{
    begin_saving(NEEDS_RANK0);
    lose_1();
    assert_did_not(&walks[0], "gate leave");
    saves_on_0(PATHS_SHARED);
    expect_commit(1);
    written(&walks[0], EV_COMMITTED);
    assert_said(&walks[0], "step 9 is committed without rank 1 of node 1: its node was lost");
    cr_expect_str_eq(report_of(&walks[0]).without, "rank 1 of node 1: its node was lost");
    assert_said(&walks[0], "node 1 () is lost");
    cr_expect_eq(report_of(&walks[0]).outcome, OUTCOME_NODE_LOST);
}

Test(core_needs, a_lost_node_costs_the_commit_of_all)
{
    begin_saving(NEEDS_ALL);
    lose_1();
    assert_did(&walks[0], "gate leave");
    saves_and_waits(&walks[0], 0, SAVE_STEP, 1);
    assert_did_not(&walks[0], "prepare");
    assert_did_not(&walks[0], "commit 9");
}

static void lose_1_in_the_last_save(void)
{
    begin(NEEDS_RANK0, 0, 0);
    sees_dir(false);
    steps[0] = SAVE_STEP - 1;
    signalled(&walks[0], SIGTERM);
    agree();
    lose_1();
}

/* A preemption stays one. */
Test(core_needs, a_node_is_lost_in_the_last_save)
{
    lose_1_in_the_last_save();
    saves_on_0(PATHS_SHARED);
    expect_commit(1);
    written_commit();
    cr_expect_eq(report_of(&walks[0]).outcome, OUTCOME_PREEMPTED);
    assert_said(&walks[0], "without rank 1 of node 1");
}

/* The wait for the save ends at the deadline, as without a loss. */
Test(core_needs, the_last_save_has_its_deadline)
{
    lose_1_in_the_last_save();
    lives(15 * S);
    assert_did_not(&walks[0], "gate leave");
    lives(10 * S);
    assert_did(&walks[0], "gate leave");
    cr_expect_eq(report_of(&walks[0]).outcome, OUTCOME_PREEMPTED_UNSAVED);
    cr_expect_eq(report_of(&walks[0]).first_cause.fault, FAULT_LOST);
}

/* No notice holds, and no save was measured. */
Test(core_needs, the_end_after_a_loss_is_not_put_off_for_long)
{
    begin_saving(NEEDS_RANK0);
    lose_1();
    serves(&walks[0], 0, SAVE_STEP, 1);
    lives(20 * S);
    assert_did_not(&walks[0], "gate leave");
    lives(11 * S);
    assert_did(&walks[0], "gate leave");
    cr_expect_eq(report_of(&walks[0]).outcome, OUTCOME_NODE_LOST);
}

/* Rank 0 most likely waits for the lost rank, in a step that never ends. */
Test(core_needs, a_rank_that_does_not_come_is_not_waited_for_long)
{
    begin_saving(NEEDS_RANK0);
    lose_1();
    lives(4 * S);
    assert_did_not(&walks[0], "gate leave");
    lives(7 * S);
    assert_did(&walks[0], "gate leave");
}

/* A rank is only late: the round waits for it. */
Test(core_needs, no_step_commits_that_a_rank_has_not_come_to)
{
    begin_saving(NEEDS_RANK0);
    serves(&walks[0], 0, SAVE_STEP, 1);
    saves_and_waits(&walks[0], 0, SAVE_STEP, 1);
    recorded(0, PATHS_SHARED);
    assert_did_not(&walks[0], "commit 9");
    comes_on_1();
    expect_commit(1);
    written(&walks[0], EV_COMMITTED);
    assert_said(&walks[0], "step 9 is durable: the save of rank 0 is the whole checkpoint");
}

/* A broken line is no loss yet. */
Test(core_needs, a_silent_node_is_no_lost_one)
{
    begin_saving(NEEDS_RANK0);
    saves_on_0(PATHS_SHARED);
    line_closes(&walks[0], false);
    assert_did_not(&walks[0], "commit 9");
    lives(3 * S);
    expect_commit(1);
}

Test(core_needs, a_path_of_one_node_s_own_disk)
{
    begin_saving(NEEDS_RANK0);
    saves_on_0(PATHS_OTHER);
    comes_on_1();
    assert_did_not(&walks[0], "commit 9");
    lose_1();
    assert_did(&walks[0], "gate leave");
    assert_did_not(&walks[0], "commit 9");
}

Test(core_needs, any_save_is_enough)
{
    begin_saving(NEEDS_ANY);
    serves(&walks[0], 0, SAVE_STEP, 1);
    saves_and_waits(&walks[1], 0, SAVE_STEP, 1);
    recorded(1, PATHS_SHARED);
    expect_commit(2);
}

/* The node that has saved is lost then; what it saved is there. */
Test(core_needs, the_only_save_is_of_a_lost_node)
{
    begin_saving(NEEDS_ANY);
    saves_and_waits(&walks[1], 0, SAVE_STEP, 1);
    recorded(1, PATHS_SHARED);
    lose_1();
    serves(&walks[0], 0, SAVE_STEP, 1);
    expect_commit(2);
}

/* --- ranks of one node --- */

static void begin_one(enum save_needs needs, int ranks)
{
    struct core_params p = params_of(0, 1, ranks);
    p.needs = needs;
    begin_ranks(&p);
    for (int i = 0; i < ranks; i++)
        steps[i] = SAVE_STEP - 1;
    signalled(&walks[0], SIGUSR2);
    for (int i = 0; i < 3; i++)
        steps_are_read(&walks[0]);
    assert_said(&walks[0], "every rank saves step 9");
    walks[0].acts[0] = '\0';
}

static void dies(int slot)
{
    gone(&walks[0], slot);
    exited(&walks[0], slot, SIGKILL);
}

Test(core_needs, a_dead_rank_costs_no_commit)
{
    begin_one(NEEDS_RANK0, 3);
    dies(1);
    saves_and_waits(&walks[0], 0, SAVE_STEP, 1);
    assert_did_not(&walks[0], "prepare");
    serves(&walks[0], 2, SAVE_STEP, 1);
    recorded(0, PATHS_OTHER);
    expect_commit(1);
    written_commit();
    assert_said(&walks[0], "step 9 is committed without rank 1 of node 0: its process has ended");
    cr_expect_eq(report_of(&walks[0]).outcome, OUTCOME_FAILED);
}

/* Rank 1 dies in the round, then rank 0, whose memory takes long to be freed. The end that a user
 * asks for is told in place of the first death, and the exit of rank 0 comes last. */
Test(core_needs, the_first_of_two_deaths_is_the_cause)
{
    struct walk *w = &walks[0];
    begin_one(NEEDS_ANY, 2);
    dies(1);
    passes(w, S);
    dying(w, 0, SIGKILL);
    passes(w, S);
    feed(w, (struct event){.type = EV_STOP_ASKED, .stop.why = "stopped by hand"});
    assert_said(w, "ending: failed: node 0: rank 1, ");
    passes(w, S);
    exited(w, 0, SIGKILL);
    tree_empty(w);
    cr_expect_eq(report_of(w).first_cause.rank, 1);
    assert_not_said(w, "the cause has changed");
}

/* The stop that a user asks for is told in place of rank 1's death. The exit of rank 1 comes later,
 * and tells more about the same death. */
Test(core_needs, the_first_death_is_told_in_full_after_a_stop)
{
    struct death found = {.note = "the kernel killed it"};
    struct walk *w = &walks[0];
    begin_one(NEEDS_ANY, 2);
    gone(w, 1);
    dying(w, 1, SIGKILL);
    passes(w, S);
    feed(w, (struct event){.type = EV_STOP_ASKED, .stop.why = "stopped by hand"});
    assert_said(w, "ending: failed: node 0: rank 1, ");
    passes(w, S);
    feed(w, (struct event){.type = EV_CHILD_EXITED,
                           .child = {.index = 1, .status = SIGKILL, .death = &found}});
    exits(w, SIGTERM);
    tree_empty(w);
    cr_expect_eq(report_of(w).first_cause.rank, 1);
    cr_expect(strstr(report_of(w).first_cause.text, found.note), "%s",
              report_of(w).first_cause.text);
}

/* Two ranks die at the same moment, and rank 1 is seen first. The exit of rank 2 is seen last. */
Test(core_needs, the_first_of_two_deaths_at_once_is_the_cause)
{
    struct walk *w = &walks[0];
    begin_one(NEEDS_ANY, 3);
    gone(w, 1);
    dying(w, 1, SIGKILL);
    gone(w, 2);
    dying(w, 2, SIGKILL);
    feed(w, (struct event){.type = EV_STOP_ASKED, .stop.why = "stopped by hand"});
    passes(w, S);
    exited(w, 1, SIGKILL);
    exited(w, 2, SIGKILL);
    exits(w, SIGTERM);
    tree_empty(w);
    cr_expect_eq(report_of(w).first_cause.rank, 1);
    assert_not_said(w, "the cause has changed");
}

Test(core_needs, rank_0_is_dead)
{
    begin_one(NEEDS_RANK0, 2);
    saves_and_waits(&walks[0], 1, SAVE_STEP, 1);
    assert_did_not(&walks[0], "gate leave");
    dies(0);
    assert_did(&walks[0], "gate leave");
    assert_did_not(&walks[0], "commit 9");
}

Test(core_needs, rank_0_dies_when_its_save_is_recorded)
{
    begin_one(NEEDS_RANK0, 2);
    saves_and_waits(&walks[0], 0, SAVE_STEP, 1);
    dies(0);
    serves(&walks[0], 1, SAVE_STEP, 1);
    recorded(0, PATHS_OTHER);
    expect_commit(1);
}

/* Its save is not needed, and the user is told. */
Test(core_needs, a_save_that_fails_is_spared)
{
    begin_one(NEEDS_RANK0, 2);
    says(&walks[0], 1,
         (struct procmsg){
             .type = PROCMSG_SAVE_FAILED, .step = SAVE_STEP, .tag = 1, .text = "disk full"});
    assert_said(&walks[0], "rank 1 could not save step 9: disk full; this save is not needed");
    saves_and_waits(&walks[0], 0, SAVE_STEP, 1);
    recorded(0, PATHS_OTHER);
    expect_commit(1);
    written(&walks[0], EV_COMMITTED);
    assert_said(&walks[0], "step 9 is committed without rank 1 of node 0: it could not save");
    assert_did_not(&walks[0], "gate leave");
}

Test(core_needs, a_needed_save_fails)
{
    static const enum save_needs needs[] = {NEEDS_RANK0, NEEDS_ALL};
    for (size_t i = 0; i < ARRAY_LEN(needs); i++) {
        begin_one(needs[i], 2);
        says(&walks[0], needs[i] == NEEDS_ALL,
             (struct procmsg){
                 .type = PROCMSG_SAVE_FAILED, .step = SAVE_STEP, .tag = 1, .text = "disk full"});
        assert_said(&walks[0], "it is not committed");
    }
}

Test(core_needs, no_rank_can_save)
{
    begin_one(NEEDS_ANY, 2);
    for (int i = 0; i < 2; i++) {
        assert_not_said(&walks[0], "it is not committed");
        says(&walks[0], i,
             (struct procmsg){
                 .type = PROCMSG_SAVE_FAILED, .step = SAVE_STEP, .tag = 1, .text = "disk full"});
    }
    assert_said(&walks[0], "it is not committed");
}

/* It trained to an earlier step, so it has not come to this one. */
Test(core_needs, a_rank_that_has_left_is_not_gone)
{
    begin_one(NEEDS_RANK0, 2);
    closes(&walks[0], 1);
    saves_and_waits(&walks[0], 0, SAVE_STEP, 1);
    assert_did_not(&walks[0], "prepare");
    assert_said(&walks[0], "a rank ended without saving the step");
}

/* --- which ranks' saves --- */

static enum save_needs decided(void)
{
    decide();
    lose_1();
    saves_on_0(PATHS_SHARED);
    return strstr(walks[0].acts, "commit 9") ? NEEDS_RANK0 : NEEDS_ALL;
}

Test(core_needs, programs_declare_it)
{
    begin(NEEDS_AUTO, PROCMSG_FLAG_NEEDS_RANK0, PROCMSG_FLAG_NEEDS_RANK0);
    sees_dir(false);
    cr_expect_eq(decided(), NEEDS_RANK0);
    assert_not_said(&walks[0], "every rank's save is needed");
}

Test(core_needs, unlike_declarations_are_told)
{
    begin(NEEDS_AUTO, PROCMSG_FLAG_NEEDS_RANK0, 0);
    sees_dir(false);
    assert_said(&walks[0], "rank 0 of node 0 declares rank0, rank 1 of node 1 declares nothing: so "
                           "every rank's save is needed");
    decide();
    lose_1();
    assert_did(&walks[0], "gate leave");
}

/* Such a program contradicts itself. */
Test(core_needs, both_flags_count_as_none)
{
    uint32_t both = PROCMSG_FLAG_NEEDS_RANK0 | PROCMSG_FLAG_NEEDS_ANY;
    begin(NEEDS_AUTO, both, both);
    sees_dir(false);
    decide();
    lose_1();
    assert_did(&walks[0], "gate leave");
}

Test(core_needs, the_setting_wins)
{
    begin(NEEDS_ALL, PROCMSG_FLAG_NEEDS_ANY, PROCMSG_FLAG_NEEDS_ANY);
    sees_dir(false);
    decide();
    lose_1();
    assert_did(&walks[0], "gate leave");
    assert_not_said(&walks[0], "every rank's save is needed");
}

Test(core_needs, another_directory_is_told_once)
{
    begin(NEEDS_AUTO, PROCMSG_FLAG_NEEDS_ANY, PROCMSG_FLAG_NEEDS_ANY);
    assert_not_said(&walks[0], "every rank's save is needed"); /* node 1 still looks */
    sees_dir(true);
    assert_said(&walks[0], "any rank's save makes a checkpoint (as the program declares), but a "
                           "node has another checkpoint.dir than node 0: so every rank's save is "
                           "needed");
    walks[0].log[0] = '\0';
    decide();
    assert_not_said(&walks[0], "every rank's save is needed");
    lose_1();
    assert_did(&walks[0], "gate leave");
}

/* Node 1 sees that the directory is the same when the round is decided. It is decided for all. */
Test(core_needs, a_round_keeps_what_it_was_decided_for)
{
    begin(NEEDS_RANK0, 0, 0);
    decide();
    sees_dir(false);
    saves_on_0(PATHS_SHARED);
    comes_on_1();
    assert_did_not(&walks[0], "commit 9");
    lose_1();
    assert_did(&walks[0], "gate leave");
}

/* A rank attaches anew between two rounds, and declares something else. */
Test(core_needs, the_next_round_needs_what_is_declared_then)
{
    begin(NEEDS_AUTO, PROCMSG_FLAG_NEEDS_RANK0, PROCMSG_FLAG_NEEDS_RANK0);
    sees_dir(false);
    decide();
    saves_on_0(PATHS_SHARED);
    comes_on_1();
    expect_commit(1);
    written(&walks[0], EV_COMMITTED);
    deliver();
    saves(&walks[1], 0, SAVE_STEP, 1);
    closes(&walks[1], 0);
    attach_as(&walks[1], FREE_SLOT, 1, WALK_NODES, 0);
    deliver();
    steps[0] = SAVE_STEP;
    signalled(&walks[0], SIGUSR2);
    agree();
    assert_said(&walks[0], "every rank saves step 10");
    walks[0].acts[0] = '\0';
    lose_1();
    assert_did(&walks[0], "gate leave");
}
