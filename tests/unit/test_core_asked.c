/* SPDX-License-Identifier: Apache-2.0
 *
 * test_core_asked: a user asks by hand for a save, or for the end of the job, on any node. Node 0
 * reports on the other nodes.
 */
#include "walk.h"

#include <stdlib.h>

TestSuite(core_asked, .fini = walks_end);

static void stop(struct walk *w)
{
    feed(w, (struct event){.type = EV_STOP_ASKED, .stop.why = "stopped by hand"});
}

static void all_ends(struct walk *w)
{
    gone(w, 0);
    exits(w, SIGTERM);
    deliver();
    w->acts[0] = '\0';
}

Test(core_asked, a_stop_ends_every_node)
{
    for (int asked = 0; asked < WALK_NODES; asked++) {
        begin_two();
        stop(&walks[asked]);
        deliver();
        for (int i = 0; i < WALK_NODES; i++)
            cr_assert(strstr(walks[i].acts, "TERM") || strstr(walks[i].acts, "leave"), "%s",
                      walks[i].acts);
        exits(&walks[0], SIGTERM);
        exits(&walks[1], SIGTERM);
        deliver();
        assert_both_did("exit 44 stopped");
        assert_said(&walks[0], "stopped by hand");
        assert_said(&walks[0], "this attempt does not count");
    }
}

/* A user who stops a job does not want the scheduler to start it again, even after a notice. */
Test(core_asked, a_stop_after_a_notice_is_a_stop)
{
    struct walk *w = begin_attached(1);
    terminated(w);
    stop(w);
    all_ends(w);
    struct core_report report = report_of(w);
    cr_assert_eq(report.outcome, OUTCOME_STOPPED);
    cr_assert_eq(report.exit_code, 44);
    cr_assert_str_eq(report.why, "node 0: stopped by hand");
}

/* The node may have told the chief of the stop before the loss, or not. The job is not started
 * again either way. */
Test(core_asked, a_stop_without_a_chief)
{
    begin_two();
    line_closes(&walks[1], false);
    stop(&walks[1]);
    lose_letters();
    do
        wake(&walks[1]);
    while (report_of(&walks[1]).outcome == OUTCOME_UNKNOWN);
    cr_assert_eq(report_of(&walks[1]).outcome, OUTCOME_STOPPED);
}

/* The stop does not make a node lost whose connection is closed for a moment. */
Test(core_asked, a_stop_waits_for_nobody)
{
    begin_two();
    line_closes(&walks[0], false);
    stop(&walks[0]);
    cr_assert_eq(report_of(&walks[0]).outcome, OUTCOME_STOPPED);
}

/* --- a save, then the end --- */

static void stop_saved(struct walk *w)
{
    feed(w, (struct event){.type = EV_STOP_ASKED, .stop = {"stopped by hand", true}});
}

static void begin_two_at_step_8(int asked)
{
    steps[0] = 0;
    begin_two();
    steps[0] = 8;
    stop_saved(&walks[asked]);
    deliver();
    agree();
    assert_said(&walks[0], "every rank saves step 9, then leaves");
    steps[0] = 9;
}

/* Both ranks save step 9; written() and deliver() carry the records and the commit. */
static void commit_9(void)
{
    for (int i = 0; i < WALK_NODES; i++)
        saves_and_waits(&walks[i], 0, 9, 1);
    for (int i = WALK_NODES - 1; i >= 0; i--) {
        written(&walks[i], EV_PREPARED);
        deliver();
    }
    written(&walks[0], EV_COMMITTED);
    deliver();
}

/* The same whichever node is asked; the ranks leave by themselves. */
Test(core_asked, a_save_and_then_the_end)
{
    for (int asked = 0; asked < WALK_NODES; asked++) {
        begin_two_at_step_8(asked);
        commit_9();
        for (int i = 0; i < WALK_NODES; i++) {
            gone(&walks[i], 0);
            exits(&walks[i], 0);
        }
        deliver();
        assert_both_did("exit 44 stopped");
        struct core_report report = report_of(&walks[1]);
        cr_assert_eq(report.commit_step, 9);
        cr_assert(strstr(report.why, asked ? "on node 1: saved" : "on node 0: saved"), "%s",
                  report.why);
    }
}

static void assert_goes_on(const struct walk *w, const char *why)
{
    struct core_report report = report_of(w);
    cr_assert_eq(report.outcome, OUTCOME_UNKNOWN, "%s", report.why);
    cr_assert_eq(report.stops_given_up, 1);
    cr_assert(strstr(report.why_given_up, why), "%s", report.why_given_up);
}

/* Only the node that was asked says so; it may be asked again. */
Test(core_asked, a_save_that_fails_does_not_end_the_job)
{
    begin_two_at_step_8(1);
    says(&walks[0], 0,
         (struct procmsg){.type = PROCMSG_SAVE_FAILED, .step = 9, .tag = 1, .text = "no room"});
    deliver();
    assert_goes_on(&walks[1], "the save failed: node 0: rank 0 could not save step 9: no room");
    cr_assert_eq(report_of(&walks[0]).stops_given_up, 0);
    assert_did_not(&walks[0], "leave");
}

Test(core_asked, a_job_without_ranks_is_not_ended_unsaved)
{
    struct walk *w = begin_alone(1);
    stop_saved(w);
    assert_goes_on(w, "no process has attached");
    stop(w);
    cr_assert_eq(report_of(w).outcome, OUTCOME_STOPPED);
}

Test(core_asked, a_rank_that_has_ended_cannot_save_before_the_end)
{
    struct walk *w = begin_attached(2);
    steps_are_read(w);
    says(w, 1, (struct procmsg){.type = PROCMSG_DONE, .step = 4});
    gone(w, 1);
    stop_saved(w);
    assert_goes_on(w, "a rank has ended on node 0");
}

/* The votes come with the steps. */
Test(core_asked, before_the_first_step_there_is_nothing_to_save)
{
    struct walk *w = begin_attached(1);
    steps[0] = 0;
    stop_saved(w);
    steps_are_read(w);
    cr_assert_eq(report_of(w).outcome, OUTCOME_STOPPED);
    assert_said(w, "nothing to save");
}

/* The job would go on in place after its notice. */
Test(core_asked, a_save_and_the_end_after_a_notice)
{
    struct core_params p = params_of(0, 1, 1);
    p.restart.after_notice = true;
    struct walk *w = begin_ranks(&p);
    steps[0] = 8;
    stop_saved(w);
    terminated(w);
    for (int i = 0; i < 2; i++) {
        passes(w, 2 * S);
        signalled(w, SIGTERM);
    }
    struct core_report report = report_of(w);
    cr_assert_eq(report.outcome, OUTCOME_STOPPED, "%s: %s", report.why, w->log);
}

/* The notice alone would have the job go on in place. */
Test(core_asked, a_save_and_the_end_are_not_followed_by_a_restart)
{
    struct core_params p = params_of(0, 1, 1);
    p.restart.after_notice = true;
    steps[0] = 0;
    struct walk *w = begin_ranks(&p);
    steps[0] = 8;
    terminated(w);
    stop_saved(w);
    for (int i = 0; i < 3; i++)
        steps_are_read(w);
    assert_said(w, "every rank saves step 9, then leaves");
    saves_and_waits(w, 0, 9, 1);
    committed(w);
    struct core_report report = report_of(w);
    cr_assert_eq(report.outcome, OUTCOME_STOPPED, "%s: %s", report.why, w->log);
    cr_assert_eq(report.commit_step, 9);
}

Test(core_asked, a_save_and_the_end_of_a_job_that_has_not_started)
{
    struct core_params p = params_of(0, 2, 1);
    struct walk *w = walk_begin(&p);
    stop_saved(w);
    steps_are_read(w);
    assert_did(w, "exit 44 stopped");
    assert_said(w, "nothing was started");
}

/* --- a save --- */

Test(core_asked, a_save_is_made)
{
    struct walk *w = begin_attached(1);
    w->acts[0] = '\0';
    feed(w, (struct event){.type = EV_SAVE_ASKED});
    assert_did(w, "gate");
}

Test(core_asked, node_0_tells_of_all)
{
    struct core_peer_report peers[WALK_NODES];
    begin_two();
    cr_assert_eq(core_peers(walks[1].core, peers, WALK_NODES), 0);
    cr_assert_eq(core_peers(walks[0].core, peers, 1), 1, "no more than there is room for");
    cr_assert_eq(core_peers(walks[0].core, peers, WALK_NODES), 2);
    for (int i = 0; i < WALK_NODES; i++) {
        cr_expect_eq(peers[i].node_rank, i);
        cr_expect_str_eq(peers[i].state, "running");
        cr_expect_eq(peers[i].ranks_attached, 1);
        cr_expect_eq(peers[i].ranks_expected, 1);
        cr_expect(peers[i].is_connected && !peers[i].has_notice);
    }
    terminated(&walks[1]);
    deliver();
    core_peers(walks[0].core, peers, WALK_NODES);
    cr_assert(peers[1].has_notice && !peers[0].has_notice);
    line_closes(&walks[0], false);
    core_peers(walks[0].core, peers, WALK_NODES);
    cr_assert(!peers[1].is_connected);
}

static struct walk *begin_restart(void)
{
    struct core_params p = params_of(0, 1, 1);
    p.restart = (struct restart_policy){.max = 3,
                                        .start_max = 3,
                                        .window_ns = 60 * S,
                                        .backoff_ns = 4 * S,
                                        .backoff_max_ns = 4 * S};
    struct walk *w = walk_begin(&p);
    for (int i = 0; i < 2; i++) { /* the second time there is a pause */
        started(w, 0);
        attaches(w, 0, 0, 1);
        steps[0] = 5 + (uint64_t)i; /* the same failure at the same step would be final */
        gone(w, 0);
        exited(w, 0, 1 << 8);
        steps_are_read(w);
        tree_empty(w);
    }
    struct core_report report = report_of(w);
    cr_assert_eq(report.state, NODE_RESTARTING, "%d: %s", report.state, w->log);
    return w;
}

/* The command has failed, and is about to be started again: no command can be stopped. */
Test(core_asked, a_stop_between_two_generations)
{
    struct walk *w = begin_restart();
    w->acts[0] = w->log[0] = '\0';
    stop(w);
    const char *said = strstr(w->log, "stopped by hand");
    cr_assert(said && !strstr(said + 1, "stopped by hand"), "once, not: %s", w->log);
    struct core_report report = report_of(w);
    cr_assert_eq(report.outcome, OUTCOME_STOPPED);
    cr_assert_str_eq(report.why, "node 0: stopped by hand");
    assert_did(w, "exit 44 stopped");
}

/* The rank's failure is known and not judged yet, so the node reports the failure first. But a
 * preemption would be followed by another start. */
Test(core_asked, a_stop_beside_a_failure_in_a_preemption_is_a_stop)
{
    begin_two_saving();
    exited(&walks[0], 0, SIGKILL);
    stop(&walks[0]);
    passes(&walks[0], S);
    deliver();
    for (int i = 0; i < WALK_NODES; i++)
        all_ends(&walks[i]);
    struct core_report report = report_of(&walks[0]);
    cr_assert_eq(report.outcome, OUTCOME_STOPPED, "%s", report.why);
}

/* Node 1 has ended its processes and waits for the next generation. Its line breaks, and the job is
 * stopped. */
static void stop_between_two_generations(void)
{
    begin_two_with(&(struct restart_policy){.max = 3, .start_max = 3, .window_ns = 60 * S});
    gone(&walks[0], 0);
    exited(&walks[0], 0, 1 << 8);
    steps_are_read(&walks[0]);
    deliver();
    assert_said(&walks[1], "; node 0 decides whether the job restarts in place");
    gone(&walks[1], 0);
    exits(&walks[1], SIGTERM);
    deliver();
    line_closes(&walks[0], false);
    line_closes(&walks[1], false);
    stop(&walks[0]);
    tree_empty(&walks[0]);
    deliver();
    assert_did_not(&walks[0], "exit");
}

/* If node 0 left at once, node 1 would take it for lost. */
Test(core_asked, a_node_that_awaits_a_restart_is_told_of_the_end)
{
    stop_between_two_generations();
    line_opens();
    deliver();
    assert_both_did("exit 44 stopped");
}

Test(core_asked, a_node_that_awaits_a_restart_and_does_not_return_is_lost)
{
    stop_between_two_generations();
    int64_t since = now;
    while (!strstr(walks[0].acts, "exit"))
        wake(&walks[0]);
    cr_assert_leq(now - since, 3 * S);
    assert_did(&walks[0], "exit 44 stopped");
}

/* Such a job attaches when its start-up is over. Nothing is known of any other job, so it gets the
 * signal at once. */
Test(core_asked, a_job_that_has_committed_before_is_given_the_time_to_attach)
{
    for (uint64_t resume = 0; resume <= 5; resume += 5) {
        struct core_params p = params_of(0, 1, 1);
        p.train_on = TRAIN_ON_ALWAYS;
        p.resume_step = resume;
        p.signals[SIGUSR1] = (struct signal_plan){.rule = SIGNAL_PREEMPT, .grace_ns = 115 * S};
        struct walk *w = begin_started(&p);
        int64_t at = now;
        signalled(w, SIGUSR1);
        steps_are_read(w);
        while (!strstr(w->log, "no program has attached by pch_open()"))
            wake_and_read(w, 0);
        int64_t latest = resume ? 87 * S : 0;
        cr_assert_leq(llabs(now - at - latest), 4 * S, "it has left after %lld s",
                      (long long)((now - at) / S));
    }
}
