/* SPDX-License-Identifier: Apache-2.0
 *
 * test_core_replaced: a later attempt has taken over the job, and this attempt learns of it after
 * its end was reported. The job must not be started again.
 */
#include "walk.h"

TestSuite(core_replaced, .fini = walks_end);

static void replaced(struct walk *w, enum event_type type)
{
    struct err err;
    (void)!err_set(&err, ERR_REPLACED, 0, "attempt 2 has taken over the job");
    feed(w, (struct event){.type = type, .unwritten = &err});
}

/* The record of the rank's own save is being written. */
static void saves_own(struct walk *w)
{
    saves(w, 0, 10, 0);
    assert_did(w, "prepare 10");
}

/* The deadline passes while the node does not run, and then the time that it waits for reports. */
static void deadline_passes(struct walk *w)
{
    passes(w, 40 * S);
    passes(w, 2 * S);
}

static struct walk *begin_saving(void)
{
    struct walk *w = begin_attached(1);
    steps[0] = 10;
    saves_own(w);
    return w;
}

static void all_ends(struct walk *w)
{
    exits(w, SIGTERM);
    deliver();
}

static void assert_replaced(const struct walk *w)
{
    assert_did(w, "exit 125 failed");
    cr_assert(strstr(strstr(w->log, "end: "), "attempt 2 has taken over the job"), "%s", w->log);
}

/* The takeover is the first event after a pause, and the deadline has passed. */
Test(core_replaced, behind_the_deadline)
{
    struct walk *w = begin_saving();
    terminated(w);
    now += 40 * S;
    replaced(w, EV_PREPARED);
    all_ends(w);
    assert_replaced(w);
}

Test(core_replaced, while_it_stops)
{
    struct walk *w = begin_saving();
    terminated(w);
    deadline_passes(w);
    assert_said(w, "preempted_unsaved");
    replaced(w, EV_PREPARED);
    all_ends(w);
    assert_replaced(w);
}

/* A process had failed before the takeover, and that end would start the job again. */
Test(core_replaced, after_a_failure_in_a_preemption)
{
    struct walk *w = begin_attached(2);
    for (int i = 0; i < 2; i++)
        saves(w, i, 10, 0);
    terminated(w);
    exited(w, 1, 1 << 8);
    assert_said(w, "preempted_unsaved: node 0: rank 1");
    replaced(w, EV_PREPARED);
    all_ends(w);
    assert_replaced(w);
}

/* The agreed round, in which every rank saves step 11. */
static void save_agreed(struct walk *w)
{
    steps_are_read(w);
    assert_said(w, "every rank saves step 11");
    saves(w, 0, 11, 1);
    written(w, EV_PREPARED);
    assert_did(w, "commit 11");
}

static struct walk *begin_committing(void)
{
    struct walk *w = begin_attached(1);
    steps[0] = 10;
    terminated(w);
    save_agreed(w);
    return w;
}

Test(core_replaced, the_commit_comes_too_late)
{
    struct walk *w = begin_committing();
    deadline_passes(w);
    assert_said(w, "preempted_unsaved");
    replaced(w, EV_COMMITTED);
    all_ends(w);
    assert_replaced(w);
}

/* A commit in the record is not taken back. */
Test(core_replaced, what_is_committed_stays)
{
    struct walk *w = begin_committing();
    written(w, EV_COMMITTED);
    replaced(w, EV_PREPARED);
    all_ends(w);
    assert_did(w, "exit 42 preempted");
}

Test(core_replaced, a_failure_that_was_told_stays)
{
    struct walk *w = begin_saving();
    exited(w, 0, 7 << 8);
    replaced(w, EV_PREPARED);
    tree_empty(w);
    assert_did(w, "exit 7 failed");
}

Test(core_replaced, a_member_that_hears_of_it_tells_all)
{
    begin_two();
    steps[0] = 10;
    saves_own(&walks[1]);
    terminated(&walks[0]);
    deliver();
    deadline_passes(&walks[0]);
    deliver();
    assert_said(&walks[1], "preempted_unsaved");
    replaced(&walks[1], EV_PREPARED);
    deliver();
    all_ends(&walks[0]);
    all_ends(&walks[1]);
    assert_replaced(&walks[0]);
    assert_replaced(&walks[1]);
}

/* Node 0 is gone, so node 1 itself has to say that the job was taken over. */
Test(core_replaced, without_a_chief)
{
    for (int told = 0; told < 2; told++) {
        begin_two();
        steps[0] = 10;
        saves_own(&walks[1]);
        if (told) /* the chief has ended before it could answer */
            replaced(&walks[1], EV_PREPARED);
        lose_letters();
        line_closes(&walks[1], true);
        if (!told)
            replaced(&walks[1], EV_PREPARED);
        all_ends(&walks[1]);
        assert_replaced(&walks[1]);
        struct core_report report = report_of(&walks[1]);
        cr_assert(report.is_cause_here && report.first_cause.fault != FAULT_LOST);
    }
}

/* Node 1 is lost at the same moment, which is certain only seconds later. */
static void node_1_is_lost(void)
{
    line_closes(&walks[0], false);
    lose_letters();
    while (!strstr(walks[0].log, "lost: node 1"))
        wake(&walks[0]);
    assert_said(&walks[0], "the cause has changed: node 1");
}

/* A loss takes the place of the failure that was reported first, and a scheduler starts the job
 * again after a loss. */
Test(core_replaced, a_loss_that_is_found_later_does_not_hide_it)
{
    begin_two();
    steps[0] = 10;
    saves_own(&walks[0]);
    exited(&walks[0], 0, 1 << 8);
    replaced(&walks[0], EV_PREPARED);
    node_1_is_lost();
    all_ends(&walks[0]);
    assert_replaced(&walks[0]);
}

/* A loss does not hide a refusal of node 0's record of commits, either. */
Test(core_replaced, a_loss_does_not_hide_a_commit_that_was_refused)
{
    begin_two();
    steps[0] = 10;
    for (int i = 0; i < WALK_NODES; i++) {
        saves_own(&walks[i]);
        written(&walks[i], EV_PREPARED);
        deliver();
    }
    assert_did(&walks[0], "commit 10");
    exited(&walks[0], 0, 1 << 8);
    replaced(&walks[0], EV_COMMITTED);
    node_1_is_lost();
    all_ends(&walks[0]);
    assert_replaced(&walks[0]);
}

/* The rank's failure is known and not judged yet: it may follow from a loss. */
Test(core_replaced, a_failure_that_is_not_judged_yet_does_not_hide_it)
{
    begin_two_saving();
    saves(&walks[0], 0, 9, 1);
    exited(&walks[0], 0, SIGKILL);
    assert_not_said(&walks[0], "ending: ");
    replaced(&walks[0], EV_PREPARED);
    passes(&walks[0], S);
    deliver();
    all_ends(&walks[0]);
    all_ends(&walks[1]);
    assert_replaced(&walks[0]);
    assert_replaced(&walks[1]);
}

/* The rank of node 1 has failed, and node 1 has reported it. Then node 0 is lost, and only node 1's
 * own record tells of the takeover.
 */
Test(core_replaced, a_failure_before_the_loss_of_node_0_does_not_hide_it)
{
    begin_two();
    steps[0] = 10;
    saves_own(&walks[1]);
    exited(&walks[1], 0, 1 << 8);
    replaced(&walks[1], EV_PREPARED);
    lose_letters();
    line_closes(&walks[1], true);
    tree_empty(&walks[1]);
    assert_replaced(&walks[1]);
}
