/* SPDX-License-Identifier: Apache-2.0
 *
 * test_core_nodes: short walks of two nodes, like those of one node in test_core_walk.
 */
#include "walk.h"

#include <stdio.h>

TestSuite(core_nodes, .fini = walks_end);

/* A node's record is written, and the other node learns of it. */
static void records(int node, enum event_type type)
{
    written(&walks[node], type);
    deliver();
}

/* A node reads its steps, and the other node learns of them. */
static void reads(int node)
{
    steps_are_read(&walks[node]);
    deliver();
}

/* The ranks of one node are gone, and their last save is still being recorded. The other node's
 * save can still be committed. */
Test(core_nodes, the_last_own_save_is_waited_for)
{
    begin_two();
    for (int i = 0; i < WALK_NODES; i++) {
        saves(&walks[i], 0, 10, 0);
        assert_acts(&walks[i], "prepare 10");
        closes(&walks[i], 0);
        ends(&walks[i], 0);
        walks[i].acts[0] = '\0';
    }
    records(0, EV_PREPARED);
    assert_acts(&walks[0], "");
    records(1, EV_PREPARED);
    assert_acts(&walks[0], "commit 10");
    records(0, EV_COMMITTED);
    assert_acts(&walks[0], "committed 10; gate leave; exit 0 completed");
}

Test(core_nodes, two_nodes_save_one_step_and_leave_together)
{
    begin_two();
    steps[0] = 8;
    signalled(&walks[1], SIGTERM);
    assert_acts(&walks[1], "read");
    reads(1);
    assert_acts(&walks[0], "read; gate 9; read");
    assert_acts(&walks[1], "gate 9; read");
    reads(0);
    assert_acts(&walks[0], "");
    reads(1);
    for (int i = 0; i < WALK_NODES; i++) {
        assert_acts(&walks[i], "gate 9 decided last");
        saves_and_waits(&walks[i], 0, 9, 1);
        assert_acts(&walks[i], "gate open; prepare 9");
    }
    records(0, EV_PREPARED);
    assert_acts(&walks[0], "");
    records(1, EV_PREPARED);
    assert_acts(&walks[0], "commit 9");
    records(0, EV_COMMITTED);
    for (int i = 0; i < WALK_NODES; i++) {
        assert_acts(&walks[i], "committed 9; 0: leave, committed; gate leave");
        gone(&walks[i], 0);
        ends(&walks[i], 0);
    }
    assert_acts(&walks[0], "");
    deliver();
    assert_acts(&walks[0], "exit 42 preempted");
    assert_acts(&walks[1], "exit 42 preempted");
}

static void saves_own(struct walk *w, uint64_t step)
{
    char expected[32];
    saves(w, 0, step, 0);
    snprintf(expected, sizeof expected, "prepare %llu", (unsigned long long)step);
    assert_acts(w, expected);
    written(w, EV_PREPARED);
}

static void expect_own_commit(uint64_t step, const char *then)
{
    char text[64];
    deliver();
    snprintf(text, sizeof text, "commit %llu", (unsigned long long)step);
    assert_acts(&walks[0], text);
    records(0, EV_COMMITTED);
    snprintf(text, sizeof text, "committed %llu%s", (unsigned long long)step, then);
    assert_acts(&walks[0], text);
    snprintf(text, sizeof text, "committed %llu", (unsigned long long)step);
    assert_acts(&walks[1], text);
}

/* One node is always a save ahead. A step that both nodes have saved is still committed. */
Test(core_nodes, nodes_that_save_at_their_own_pace)
{
    begin_two();
    saves_own(&walks[0], 10);
    saves(&walks[0], 0, 20, 0);
    deliver();
    saves_own(&walks[1], 10);
    expect_own_commit(10, "; prepare 20");
    written(&walks[0], EV_PREPARED);
    saves(&walks[0], 0, 30, 0);
    deliver();
    saves_own(&walks[1], 20);
    expect_own_commit(20, "; prepare 30");
}

/* Node 1 has offered a step, and cannot save a later one. Node 0 may be committing the first
 * meanwhile, so node 1 holds it and offers nothing else until it has heard of node 0. */
Test(core_nodes, an_offer_stands_until_node_0_has_answered)
{
    begin_two();
    saves_own(&walks[1], 10);
    deliver();
    says(&walks[1], 0, (struct procmsg){.type = PROCMSG_SAVE_FAILED, .step = 20});
    saves(&walks[1], 0, 30, 0);
    assert_acts(&walks[1], "");
    saves_own(&walks[0], 10);
    assert_acts(&walks[0], "commit 10");
    deliver();
    assert_acts(&walks[1], ""); /* step 20 is passed over only when step 10 is committed */
    records(0, EV_COMMITTED);
    assert_acts(&walks[1], "committed 10; prepare 30");
}

/* The offer and the failure are in one message, normal after a reconnect: the step that all have
 * saved is committed. */
Test(core_nodes, a_failed_save_takes_back_no_older_offer)
{
    begin_two();
    saves_own(&walks[0], 10);
    deliver();
    saves_own(&walks[1], 10);
    lose_letters();
    says(&walks[1], 0, (struct procmsg){.type = PROCMSG_SAVE_FAILED, .step = 20});
    deliver();
    assert_acts(&walks[0], "commit 10");
}

/* Node 1 cannot write its save. Node 0's rank has not come to the step, and it is not to blame. */
Test(core_nodes, a_save_that_another_node_cannot_write)
{
    begin_two_saving();
    says(&walks[1], 0,
         (struct procmsg){.type = PROCMSG_SAVE_FAILED, .step = 9, .tag = 1, .text = "disk full"});
    deliver();
    assert_said(&walks[0], "step 9 is not saved, so it is not committed");
    for (int i = 0; i < WALK_NODES; i++)
        assert_not_said(&walks[i], "had not");
}

/* Node 0's log alone tells what has become of a notice to node 1. */
Test(core_nodes, a_notice_to_another_node_is_withdrawn)
{
    begin_two();
    noticed(&walks[1], "gce", 100 * S);
    agree();
    assert_said(&walks[0], "node 1 (): gce");
    struct notice cancel = {.type = NOTICE_CANCEL, .left_ns = NOTICE_LEFT_UNKNOWN, .source = "gce"};
    feed(&walks[1], (struct event){.type = EV_NOTICE, .notice = &cancel});
    agree();
    assert_said(&walks[0], "node 1 (): withdrawn: no node has a notice any more");
}

/* Node 1's rank dies in the last save, when the other has saved. The end of its process is seen a
 * moment later. A rank of node 0 that dies of the end is no cause. */
Test(core_nodes, a_rank_that_dies_in_the_last_save)
{
    begin_two_saving();
    saves_and_waits(&walks[0], 0, 9, 1);
    written(&walks[0], EV_PREPARED);
    deliver();
    steps[0] = 9;
    serves(&walks[1], 0, 9, 1);
    gone(&walks[1], 0);
    now += MS;
    deliver();
    assert_said(&walks[0],
                "ending: preempted_unsaved: node 1: a rank ended without saving the step");
    exited(&walks[1], 0, 134 << 8);
    now += MS;
    exited(&walks[0], 0, SIGTERM);
    deliver();
    for (int i = 0; i < WALK_NODES; i++) {
        struct core_report report = report_of(&walks[i]);
        cr_expect_eq(report.outcome, OUTCOME_PREEMPTED_UNSAVED);
        cr_expect(report.first_cause.node == 1 && report.first_cause.code == 134);
        cr_expect(strstr(report.why, "ended with exit code 134"), "%s", report.why);
        lose_letters();
    }
}

/* A step that one node has not saved is passed over at once. No rank waits for it. */
Test(core_nodes, nodes_that_save_at_different_steps)
{
    begin_two();
    saves_own(&walks[0], 10);
    saves_own(&walks[1], 15);
    deliver();
    assert_said(&walks[0], "step 10 is not committed: not every rank has saved it");
    assert_acts(&walks[0], "");
    saves_own(&walks[0], 15);
    expect_own_commit(15, "");
}

/* An ended rank makes no more saves, so no rank waits for one: not on its node, and not on
 * another. */
Test(core_nodes, a_save_that_an_ended_rank_did_not_make)
{
    begin_two();
    closes(&walks[1], 0);
    deliver();
    walks[1].acts[0] = '\0';
    saves_and_waits(&walks[0], 0, 10, 0);
    assert_acts(&walks[0], "prepare 10");
    written(&walks[0], EV_PREPARED);
    assert_acts(&walks[0], "0: go on, not committed");
    assert_said(&walks[0], "step 10 is not committed: a rank has ended without having saved it");
}

Test(core_nodes, a_save_that_an_ended_neighbour_did_not_make)
{
    struct walk *w = begin_attached(2);
    saves_and_waits(w, 0, 10, 0);
    assert_acts(w, "0: WELCOME; 1: WELCOME");
    closes(w, 1);
    assert_acts(w, "1: closed; 0: go on, not committed");
    saves_and_waits(w, 0, 20, 0);
    assert_acts(w, "0: go on, not committed");
}

/* A rank that waits for a later save of its own makes no earlier one. Each rank would wait for the
 * other. */
Test(core_nodes, a_save_that_a_neighbour_has_gone_past)
{
    struct walk *w = begin_attached(2);
    saves_and_waits(w, 0, 29, 0);
    assert_acts(w, "0: WELCOME; 1: WELCOME");
    saves_and_waits(w, 1, 30, 0);
    assert_acts(w, "0: go on, not committed");
    assert_said(w, "step 29 is not committed: rank 1 has not saved it; that rank waits for the "
                   "commit of its step 30");
    saves_and_waits(w, 0, 30, 0);
    assert_acts(w, "prepare 30");
}

/* Steps up to the last commit are answered at once. */
Test(core_nodes, own_saves_up_to_the_commit)
{
    struct walk *w = begin_attached(1);
    saves_and_waits(w, 0, 10, 0);
    committed(w);
    assert_acts(w, "0: WELCOME; prepare 10; commit 10; committed 10; 0: go on, committed");
    saves_and_waits(w, 0, 10, 0);
    assert_acts(w, "0: go on, committed");
    assert_not_said(w, "go back to an earlier step");
    saves_and_waits(w, 0, 7, 0);
    assert_said(w, "rank 0 saves step 7, below the last commit at step 10");
    assert_acts(w, "0: go on, committed");
}

Test(core_nodes, a_long_wait_for_a_commit_is_told)
{
    struct walk *w = begin_attached(2);
    saves_and_waits(w, 0, 10, 0);
    passes(w, 10 * S);
    assert_said(w, "rank 0 has waited 10 s in pch_saved for the commit of step 10; the save of "
                   "rank 1 is missing");
}

/* Ranks attach in any order, and are listed in theirs. */
Test(core_nodes, ranks_are_listed_in_order)
{
    struct core_params p = params_of(0, 1, 4);
    struct walk *w = begin_started(&p);
    for (int i = 0; i < 4; i++)
        attaches(w, i, 3 - i, 4);
    saves_and_waits(w, 3, 10, 0);
    passes(w, 10 * S);
    assert_said(w, "the save of rank 1, 2, 3 is missing; every rank has to call pch_saved");
}

/* An event between two readings of the steps says nothing about the pace. */
Test(core_nodes, the_save_step_is_near)
{
    unsigned long long step = 0;
    begin_two();
    for (uint64_t second = 1; second <= 4; second++) {
        now += 980 * MS;
        saves(&walks[0], 0, second, 0);
        now += 20 * MS;
        steps[0] = 60 * second;
        passes(&walks[0], 0);
        steps_are_read(&walks[0]);
    }
    walks[0].acts[0] = '\0';
    now += 30 * MS;
    terminated(&walks[1]);
    deliver();
    cr_assert_eq(sscanf(walks[0].acts, "read; gate %llu", &step), 1, "%s", walks[0].acts);
    cr_assert(step > 240 && step <= 300, "%llu is more than a second away", step);
}

Test(core_nodes, a_notice_on_a_node_that_has_finished_reaches_the_others)
{
    begin_two();
    steps[0] = 8;
    closes(&walks[1], 0);
    ends(&walks[1], 0);
    terminated(&walks[1]);
    deliver();
    struct core_report report = report_of(&walks[0]);
    cr_assert(report.notice.is_live);
    cr_assert_eq(report.notice.node_rank, 1);
}

/* A peer sends impossible numbers. Nothing overflows (UBSan checks), and all waits end. */
Test(core_nodes, absurd_numbers_of_a_peer)
{
    begin_two();
    struct peermsg msg = {.type = PEERMSG_STATUS,
                          .stamp = {.attempt = 1, .seq = UINT64_MAX},
                          .status = {.life = LIFE_RUNNING,
                                     .expected = 1,
                                     .attached = 1,
                                     .live = 1,
                                     .stepped = 1,
                                     .highest = UINT64_MAX,
                                     .lowest = UINT64_MAX,
                                     .own_step = UINT64_MAX,
                                     .last_step = UINT64_MAX,
                                     .saved_step = UINT64_MAX,
                                     .rtt_ns = UINT64_MAX,
                                     .has_notice = 1,
                                     .notice_left_ns = INT64_MAX}};
    hears(&walks[0], &msg);
    steps_are_read(&walks[0]);
    struct core_report report = report_of(&walks[0]);
    cr_assert(report.notice.is_live);
    cr_assert_leq(report.notice.deadline, now + 367 * 24 * 3600 * S);
    msg.stamp.seq = 0;
    hears(&walks[0], &msg);
    cr_assert_leq(core_wake_at(walks[0].core), now + 367 * 24 * 3600 * S);
}

/* Messages of another node 0 of the same attempt, and of a node that follows it, change nothing. */
Test(core_nodes, another_epoch_changes_nothing)
{
    static const uint8_t to_node[] = {PEERMSG_WELCOME, PEERMSG_REFUSED, PEERMSG_ORDER, PEERMSG_BYE};
    static const uint8_t to_chief[] = {PEERMSG_STATUS, PEERMSG_BYE};
    begin_two();
    for (size_t i = 0; i < sizeof to_node + sizeof to_chief; i++) {
        bool is_to_node = i < sizeof to_node;
        struct walk *w = &walks[is_to_node];
        struct peermsg msg = {
            .type = is_to_node ? to_node[i] : to_chief[i - sizeof to_node],
            .stamp = {.attempt = 1, .seq = 1000, .epoch = 1},
        };
        if (msg.type == PEERMSG_WELCOME)
            msg.welcome.incarnation = 99;
        if (msg.type == PEERMSG_ORDER)
            msg.order = (struct peer_order){.start = true, .end = END_LEAVE};
        if (msg.type == PEERMSG_STATUS)
            msg.status.life = LIFE_FAILED;
        hears(w, &msg);
        deliver();
        assert_acts(w, "");
    }
}

/* A node gets the orders to start and to stop at once. The signals wait for the start of the
 * commands. */
Test(core_nodes, who_is_being_started_is_not_missed)
{
    struct core_params p = params_of(1, WALK_NODES, 1);
    struct walk *w = walk_begin(&p);
    line_opens();
    struct peermsg msg = {.type = PEERMSG_WELCOME, .stamp = {.attempt = 1}};
    hears(w, &msg);
    msg = (struct peermsg){.type = PEERMSG_ORDER,
                           .stamp = {.attempt = 1, .seq = 2},
                           .order = {.start = true, .end_left_ms = -1}};
    hears(w, &msg);
    assert_acts(w, "connect; read; start");
    msg.stamp.seq = 3;
    msg.order = (struct peer_order){.start = true,
                                    .end = END_STOP,
                                    .manner = MANNER_STOP,
                                    .outcome = OUTCOME_PREEMPTED,
                                    .exit_code = 42};
    hears(w, &msg);
    assert_acts(w, "gate leave");
    started(w, 0);
    assert_acts(w, "SIGKILL to tree");
}

/* The rank of node 1 has died. Node 1 sees that the rank is gone before the order to end the job,
 * and how it died only afterwards. The rank of node 0 has failed later, because of that. */
Test(core_nodes, a_death_that_is_seen_late_is_the_first_cause)
{
    begin_two();
    gone(&walks[1], 0);
    now += MS;
    says(&walks[0], 0, (struct procmsg){.type = PROCMSG_ERROR, .number = 1, .text = "lost rank 1"});
    closes(&walks[0], 0);
    exited(&walks[0], 0, 1 << 8);
    now += MS;
    deliver();
    assert_said(&walks[1], "ending: failed: node 0: rank 0");
    exits(&walks[1], SIGKILL);
    tree_empty(&walks[0]);
    deliver();
    for (int i = 0; i < WALK_NODES; i++) {
        assert_did(&walks[i], "exit 137 failed");
        assert_said(&walks[i], "end: node 1: rank 1, process 1000 ended with signal 9");
    }
}

static void line_goes_down(int node, bool has_ended)
{
    line_closes(&walks[node], has_ended);
    deliver();
}

/* A broken line may come back; a supervisor that has ended does not. */
Test(core_nodes, who_has_ended_is_lost_at_once)
{
    begin_two();
    line_goes_down(0, false);
    assert_acts(&walks[0], "");
    begin_two();
    line_goes_down(0, true);
    assert_said(&walks[0],
                "node_lost: node 1 () is lost: its supervisor has ended without reporting it");
}

Test(core_nodes, a_chief_that_has_ended_is_lost_at_once)
{
    begin_two();
    line_goes_down(1, false);
    assert_acts(&walks[1], "connect");
    begin_two();
    line_goes_down(1, true);
    assert_said(&walks[1], "node_lost: node 0 is lost");
}

/* Node 1 was killed when it had saved, and its scheduler has started it anew. */
static void start_anew(void)
{
    struct core_params p = params_of(1, WALK_NODES, 1);
    p.incarnation = 99;
    line_goes_down(0, true);
    walk_begin(&p);
    meet();
}

static void begin_last_save(void)
{
    begin_two();
    steps[0] = 8;
    noticed(&walks[0], "cloud", 300 * S);
    agree();
    assert_said(&walks[0], "every rank saves step 9, then leaves");
}

/* Node 1's save is not undone, so the job goes on. The new supervisor waits past
 * cluster.join_timeout, and ends with the exit code of the job. */
Test(core_nodes, who_was_started_anew_waits_for_a_long_save)
{
    begin_last_save();
    saves(&walks[1], 0, 9, 1);
    records(1, EV_PREPARED);
    start_anew();
    for (int second = 0; second < 100; second++) { /* longer than cluster.join_timeout */
        passes(&walks[0], S);
        steps_are_read(&walks[0]);
        passes(&walks[1], 0);
        deliver();
    }
    assert_acts(&walks[1], "connect");
    saves(&walks[0], 0, 9, 1);
    committed(&walks[0]);
    exits(&walks[0], 0);
    deliver();
    assert_both_did("exit 42 preempted");
}

static void terminates(struct walk *w, int64_t left)
{
    noticed(w, "cloud", left);
    steps_are_read(w);
    w->acts[0] = '\0';
}

/* Time passes for the node, which gets no more messages, until it makes this action. */
static void wait_unheard(struct walk *w, const char *act, int64_t until)
{
    lose_letters();
    while (!strstr(w->acts, act)) {
        wake(w);
        steps_are_read(w);
        lose_letters();
        cr_assert_leq(now, until, "it did \"%s\", and said:\n%s", w->acts, w->log);
    }
}

static void all_ends(struct walk *w)
{
    gone(w, 0);
    ends(w, SIGTERM);
}

/* The platform does not wait until the heartbeats have found out. */
Test(core_nodes, a_mute_chief_does_not_outlast_a_notice)
{
    begin_two();
    int64_t deadline = now + 5 * S;
    terminates(&walks[1], 5 * S);
    wait_unheard(&walks[1], "SIGTERM", deadline);
    all_ends(&walks[1]);
    wait_unheard(&walks[1], "exit 42 preempted_unsaved", deadline);
    assert_said(&walks[1], "node 0 is lost: no message from it for 4.8");
}

/* Node 0 still answers, so it does not count as lost: it may be writing the record. */
Test(core_nodes, a_chief_that_is_heard_is_waited_for)
{
    begin_two();
    int64_t deadline = now + 5 * S;
    terminates(&walks[1], 5 * S);
    while (!strstr(walks[1].log, "ending")) {
        wake(&walks[1]);
        reads(1);
        passes(&walks[0], 0);
        reads(0);
        cr_assert_leq(now, deadline, "it said:\n%s", walks[1].log);
    }
    assert_not_said(&walks[1], "node 0 is lost");
}

/* Each heartbeat of node 1 arrives behind a later message. */
Test(core_nodes, a_heartbeat_that_was_overtaken_is_answered)
{
    const struct peermsg overtaken = {
        .type = PEERMSG_STATUS, .stamp = {.attempt = 1, .seq = 1}, .status = {.wants_reply = true}};
    begin_two();
    int64_t deadline = now + 5 * S;
    terminates(&walks[1], 5 * S);
    deliver();
    while (!strstr(walks[1].log, "ending")) {
        wake(&walks[1]);
        steps_are_read(&walks[1]);
        lose_letters();
        hears(&walks[0], &overtaken);
        deliver();
        passes(&walks[0], 0);
        reads(0);
        cr_assert_leq(now, deadline, "it said:\n%s", walks[1].log);
    }
    assert_not_said(&walks[1], "node 0 is lost");
}

/* Node 1 has left when node 0 learns of an earlier cause, which node 1 should learn, too. Node 1
 * does not come back. It counts as lost like any other node, and the wait for it does not last
 * until all limits are over. */
Test(core_nodes, who_has_left_and_has_another_cause_to_hear_is_missed)
{
    begin_two();
    gone(&walks[0], 0);
    now += MS;
    exits(&walks[1], 1 << 8);
    deliver();
    assert_said(&walks[0], "ending: failed: node 1: rank 1");
    now += S / 2; /* the failure did not follow from this */
    line_goes_down(0, false);
    for (int64_t until = now + 3 * S; now < until; wake(&walks[0]))
        lose_letters();
    assert_not_said(&walks[0], "lost");
    int64_t limit = now + 3 * S;
    exits(&walks[0], SIGKILL);
    while (!strstr(walks[0].acts, "exit")) {
        wake(&walks[0]);
        lose_letters();
        cr_assert_leq(now, limit, "it did \"%s\" and said %s", walks[0].acts, walks[0].log);
    }
    assert_said(&walks[0], "end: node 0: rank 0, process 1000 ended with signal 9");
}

/* The job has failed, and node 1 has not heard of it. */
Test(core_nodes, a_mute_node_does_not_outlast_a_notice)
{
    begin_two();
    int64_t deadline = now + 5 * S;
    terminates(&walks[0], 5 * S);
    exited(&walks[0], 0, 1 << 8);
    lose_letters();
    closes(&walks[0], 0);
    tree_empty(&walks[0]);
    wait_unheard(&walks[0], "exit", deadline);
    cr_assert_geq(now, deadline - S / 4, "node 1 was given up too soon");
}

/* Node 1 gets an order that no chief may give. In a run the node then saves no more, reports its
 * fault, and the job fails. There is no commit and no new start. */
Test(core_nodes, a_broken_promise_ends_the_job_without_a_commit)
{
    struct peermsg order = {.type = PEERMSG_ORDER,
                            .stamp = {.attempt = 1, .round = 2, .ballot = 1, .seq = 100},
                            .order = {.start = true,
                                      .roster = true,
                                      .phase = PHASE_PROPOSED,
                                      .save_step = 20,
                                      .end_left_ms = -1}};
    begin_two_saving();
    walks[1].may_break = true;
    hears(&walks[1], &order);
    assert_said(&walks[1], "promise 1 is broken");
    for (int i = 0; i < WALK_NODES; i++) {
        walks[i].acts[0] = '\0';
        saves(&walks[i], 0, 9, 1);
    }
    assert_acts(&walks[1], "gate open"); /* node 1 has no record of the save */
    deliver();
    assert_said(&walks[0], "failed: node 1: this is a fault of pchrun: promise 1");
    assert_said(&walks[0],
                "Please report it at " PCHRUN_BUGS ", with the lines \"bug\" of this node's log");
    written(&walks[0], EV_PREPARED);
    exits(&walks[0], SIGTERM);
    line_closes(&walks[0], true);
    assert_did_not(&walks[0], "commit");
    assert_did(&walks[0], "exit 125 failed");
}

/* --- slow ranks --- */

/* The next heartbeat of each node reads these times. */
static void beat(uint64_t own_0, uint64_t own_1)
{
    for (int i = 0; i < WALK_NODES; i++) {
        own[0] = (struct page_own){.own_ns = i ? own_1 : own_0, .whole_ns = 2 * MS};
        passes(&walks[i], S);
        steps_are_read(&walks[i]);
    }
    deliver();
}

Test(core_nodes, a_slow_rank_is_named_by_node_0)
{
    begin_two();
    beat(MS, 0);
    beat(MS, MS);
    assert_not_said(&walks[0], "slow");
    beat(MS, 17 * MS / 10);
    beat(MS, 17 * MS / 10);
    assert_not_said(&walks[0], "slow");
    beat(MS, 16 * MS / 10);
    assert_said(&walks[0],
                "rank 1 (node 1, , local rank 0) is slow: its own part of a step takes 1.6 x the "
                "median of all ranks (0.0016 s, not 0.001 s)");
    assert_not_said(&walks[1], "slow");
    beat(MS, 12 * MS / 10);
    assert_not_said(&walks[0], "no longer");
    beat(MS, MS);
    beat(MS, MS);
    assert_said(&walks[0], "rank 1 (node 1, , local rank 0) is no longer slow");
    lose_letters();
}

/* --- data loading --- */

static void load(uint64_t ns_0, uint64_t ns_1)
{
    for (int i = 0; i < WALK_NODES; i++) {
        own[0].loading_ns = i ? ns_1 : ns_0;
        passes(&walks[i], S);
        steps_are_read(&walks[i]);
    }
    deliver();
}

static uint64_t loading_of(const struct walk *w)
{
    static struct core_report report;
    core_report(w->core, &report);
    return report.loading_ns;
}

/* Node 0 knows the longest of the job, another node that of its own ranks. The last part comes with
 * the last message, or with the end of the process. */
Test(core_nodes, the_rank_that_waits_longest_for_data_counts)
{
    begin_two();
    load(20 * MS, 10 * MS);
    cr_assert_eq(loading_of(&walks[0]), 20 * MS);
    load(20 * MS, 70 * MS);
    cr_assert_eq(loading_of(&walks[0]), 70 * MS);
    cr_assert_eq(loading_of(&walks[1]), 70 * MS);
    feed(&walks[1], (struct event){.type = EV_PROC_GONE, .proc = {.loading_ns = 90 * MS}});
    deliver();
    cr_assert_eq(loading_of(&walks[0]), 90 * MS);
    struct procmsg close = {.type = PROCMSG_CLOSE, .step = 8};
    feed(&walks[0],
         (struct event){.type = EV_PROC_MESSAGE, .proc = {.msg = &close, .loading_ns = 120 * MS}});
    cr_assert_eq(loading_of(&walks[0]), 120 * MS);
    lose_letters();
}

/* The platform takes the machines one after the other, when every rank has said that it is done. */
Test(core_nodes, a_node_that_is_lost_when_every_rank_is_done)
{
    begin_two();
    for (int i = 0; i < WALK_NODES; i++)
        says(&walks[i], 0, (struct procmsg){.type = PROCMSG_DONE, .step = 8});
    deliver();
    terminated(&walks[0]);
    deliver();
    line_closes(&walks[0], true);
    assert_said(&walks[0], "lost: node 1 (): its supervisor has ended");
    assert_did_not(&walks[0], "exit");
    closes(&walks[0], 0);
    ends(&walks[0], 0);
    assert_did(&walks[0], "exit 0 completed");
}

/* --- how far the ranks are apart --- */

#define STEP_NS (10 * MS)

/* Two nodes in step, whose heartbeats come half a second apart. */
static void begin_in_step(void)
{
    begin_apart(true);
    now += S / 2;
    meet();
    for (int i = 0; i < WALK_NODES; i++) {
        started(&walks[i], 0);
        attaches(&walks[i], 0, i, WALK_NODES);
    }
    deliver();
}

/* The ranks train until a node wakes, and reads its steps if it asks for them. */
static void train_in_step(void)
{
    int i = core_wake_at(walks[1].core) < core_wake_at(walks[0].core);
    int64_t before = now;
    walks[0].acts[0] = walks[1].acts[0] = '\0';
    wake(&walks[i]);
    steps[0] += (uint64_t)((now - before) / STEP_NS);
    if (strstr(walks[i].acts, "read"))
        steps_are_read(&walks[i]);
    deliver();
}

/* The first save under the notice. */
static void save_in_step(void)
{
    agree();
    for (int i = 0; i < WALK_NODES; i++)
        serves(&walks[i], 0, steps[0] + 1, 1);
    deliver();
    now += 100 * MS;
    for (int i = 0; i < WALK_NODES; i++) {
        saves_and_waits(&walks[i], 0, steps[0] + 1, 1);
        written(&walks[i], EV_PREPARED);
    }
    deliver();
    records(0, EV_COMMITTED);
    assert_said(&walks[0], "the training goes on for ");
}

/* Node 0 hears of the two at different times, and compares their steps of one moment. */
Test(core_nodes, ranks_in_step_are_not_behind)
{
    begin_in_step();
    for (int i = 0; i < 8; i++)
        train_in_step();
    terminated(&walks[0]);
    int64_t at = now;
    save_in_step();
    do
        train_in_step();
    while (!strstr(walks[0].acts, "gate"));
    cr_assert_geq(now, at + 21750 * MS, "it saves %lld ms after the notice",
                  (long long)((now - at) / MS));
    lose_letters();
}

/* Node 1 is paused when it should vote, so the rank of node 0 stands at the gate. That is no slow
 * step, also before node 0 knows the pace. */
Test(core_nodes, a_wait_for_a_vote_is_no_step)
{
    begin_in_step();
    for (int i = 0; i < 2; i++)
        train_in_step();
    terminated(&walks[0]);
    deliver();
    steps[0]++;
    for (int64_t until = now + 9 * S; now < until;) {
        walks[0].acts[0] = '\0';
        wake(&walks[0]);
        if (strstr(walks[0].acts, "read"))
            steps_are_read(&walks[0]);
    }
    deliver();
    steps_are_read(&walks[1]);
    deliver();
    agree();
    assert_said(&walks[0], "every rank saves step ");
    assert_not_said(&walks[0], "then leaves");
    lose_letters();
}

/* A heartbeat is under way when node 0 begins the next generation, and counts as any other. With
 * the shortest time-out that the settings allow, no node can do without its answer. */
Test(core_nodes, a_restart_in_place_costs_no_heartbeat)
{
    lose_letters();
    for (int i = 0; i < WALK_NODES; i++) {
        struct core_params p = params_of(i, WALK_NODES, 1);
        p.restart = (struct restart_policy){.max = 3, .start_max = 3};
        p.heartbeat_timeout_ns = 2 * p.heartbeat_interval_ns;
        walk_begin(&p);
    }
    meet();
    for (int i = 0; i < WALK_NODES; i++) {
        started(&walks[i], 0);
        steps_are_read(&walks[i]);
        walks[i].acts[0] = '\0';
    }
    deliver();
    ends(&walks[0], 1 << 8);
    steps_are_read(&walks[0]);
    deliver();
    assert_did(&walks[1], "SIGTERM to tree");
    ends(&walks[1], SIGTERM);
    passes(&walks[1], S);
    steps_are_read(&walks[1]);
    assert_did_not(&walks[0], "start");
    walks[1].acts[0] = '\0';
    deliver();
    passes(&walks[1], S);
    assert_did_not(&walks[1], "gate leave");
    assert_did(&walks[1], "read");
}

/* Heartbeats come twice a second, and a step each. No time between two of them is long enough to
 * measure a pace, but all of them together are. */
Test(core_nodes, short_times_of_training_make_a_pace)
{
    struct core_peer_report peers[WALK_NODES];
    for (int i = 0; i < WALK_NODES; i++) {
        struct core_params p = params_of(i, WALK_NODES, 1);
        p.heartbeat_interval_ns = S / 2;
        walk_begin(&p);
    }
    meet();
    for (int i = 0; i < WALK_NODES; i++) {
        started(&walks[i], 0);
        attaches(&walks[i], 0, i, WALK_NODES);
        reads(i);
    }
    for (steps[0] = 1; steps[0] < 10; steps[0]++) {
        passes(&walks[1], S / 2);
        passes(&walks[0], 0);
        for (int i = 0; i < WALK_NODES; i++)
            reads(i);
    }
    cr_assert_eq(core_peers(walks[0].core, peers, WALK_NODES), WALK_NODES);
    cr_expect_eq(peers[1].steps_per_s, 2);
}
