/* SPDX-License-Identifier: Apache-2.0
 *
 * test_core_nodes: short walks of two nodes, like those of one node in test_core_walk.
 */
#include "base/str.h"
#include "walk.h"

#include "base/str.h"

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

/* Two nodes that have not met. */
static void begin_apart(bool trains_on)
{
    for (int i = 0; i < WALK_NODES; i++) {
        struct core_params p = params_of(i, WALK_NODES, 1);
        p.train_on = trains_on ? TRAIN_ON_ALWAYS : TRAIN_ON_NEVER;
        walk_begin(&p);
    }
}

static void meet(void)
{
    line_opens();
    deliver();
}

/* Only the version of such a pchrun is known. The log names the version, and says what to do. */
Test(core_nodes, a_node_of_another_version_is_refused)
{
    struct core_params p = params_of(0, WALK_NODES, 1);
    char text[96];
    walk_begin(&p);
    feed(&walks[0], (struct event){.type = EV_PEER_MESSAGE,
                                   .peer = {.conn = CONN_FIRST,
                                            .from = "10.0.0.7:4711",
                                            .msg = &(struct peermsg){.type = PEERMSG_HELLO}}});
    snprintf(text, sizeof text,
             "10.0.0.7:4711 speaks another version of the protocol; node 0 speaks version %d",
             PEERMSG_VERSION);
    assert_said(&walks[0], text);
    assert_said(&walks[0], "the job still waits for its nodes");
}

static void begin_with_dir(const char *dir)
{
    lose_letters();
    for (int i = 0; i < WALK_NODES; i++) {
        struct core_params p = params_of(i, WALK_NODES, 1);
        str_copy(p.shared_dir, sizeof p.shared_dir, dir);
        walk_begin(&p);
    }
    meet();
    assert_both_did("start");
}

static void sees_dir(struct walk *w, bool is_other)
{
    feed(w, (struct event){.type = EV_DIR_SEEN, .is_other_dir = is_other});
    deliver();
}

/* Node 1 looks for what node 0 wrote, once, and no node waits for it. */
Test(core_nodes, another_directory_is_named_once)
{
    begin_with_dir("checkpoint directory, /a");
    assert_did(&walks[1], "seek 7");
    assert_did_not(&walks[0], "seek");
    assert_not_said(&walks[0], "another one");
    sees_dir(&walks[1], true);
    assert_said(&walks[0],
                "node 1 does not have node 0's checkpoint directory, /a, but another one");
    walks[0].log[0] = walks[1].acts[0] = '\0';
    line_closes(&walks[1], false);
    line_closes(&walks[0], false);
    passes(&walks[1], S);
    line_opens();
    deliver();
    assert_did_not(&walks[1], "seek");
    assert_not_said(&walks[0], "another one");
}

Test(core_nodes, the_same_directory_is_not_named)
{
    begin_with_dir("checkpoint directory, /a");
    sees_dir(&walks[1], false);
    assert_not_said(&walks[0], "another one");
    begin_with_dir("");
    assert_did_not(&walks[1], "seek");
}

/* Both nodes have a rank, and node 1 has looked for the directory. */
static void begin_with_dir_seen(bool is_other)
{
    begin_with_dir("checkpoint directory, /a");
    for (int i = 0; i < WALK_NODES; i++) {
        started(&walks[i], 0);
        attaches(&walks[i], 0, i, WALK_NODES);
        steps_are_read(&walks[i]);
    }
    sees_dir(&walks[1], is_other);
}

static void prepared(int node, enum peer_paths paths)
{
    feed(&walks[node], (struct event){.type = EV_PREPARED, .paths = paths});
    deliver();
}

/* Rank 0 saves for all, on its own disk: no rank of node 1 could load that. */
Test(core_nodes, a_save_that_a_node_cannot_see_is_not_committed)
{
    begin_with_dir_seen(true);
    for (int i = 0; i < WALK_NODES; i++)
        saves_and_waits(&walks[i], 0, 10, 0);
    prepared(0, PATHS_SHARED);
    prepared(1, PATHS_NONE);
    assert_said(&walks[0], "step 10 is not committed: node 1 cannot see it");
    for (int i = 0; i < WALK_NODES; i++)
        assert_did(&walks[i], "0: go on, not committed");
    steps[0] = 18;
    signalled(&walks[0], SIGTERM);
    agree();
    for (int i = 0; i < WALK_NODES; i++)
        saves_and_waits(&walks[i], 0, 19, 1);
    prepared(0, PATHS_SHARED);
    prepared(1, PATHS_NONE);
    assert_said(&walks[0], "node 1 cannot see it: its checkpoint directory is not that of node 0");
    assert_did_not(&walks[0], "commit 19");
    cr_assert_eq(report_of(&walks[0]).outcome, OUTCOME_PREEMPTED_UNSAVED);
}

/* It is seen, it is a name in a store, or each node saves its own part. */
Test(core_nodes, a_save_that_every_node_may_see_is_committed)
{
    static const struct {
        bool is_other;
        enum peer_paths paths[WALK_NODES];
    } cases[] = {{false, {PATHS_SHARED, PATHS_NONE}},
                 {true, {PATHS_SHARED, PATHS_SHARED}},
                 {true, {PATHS_OTHER, PATHS_NONE}},
                 {true, {PATHS_NONE, PATHS_NONE}}};
    for (size_t k = 0; k < ARRAY_LEN(cases); k++) {
        begin_with_dir_seen(cases[k].is_other);
        for (int i = 0; i < WALK_NODES; i++)
            saves(&walks[i], 0, 10, 0);
        for (int i = 0; i < WALK_NODES; i++)
            prepared(i, cases[k].paths[i]);
        assert_did(&walks[0], "commit 10");
    }
}

/* The notice comes to the chief with the first STATUS, behind the HELLO of the last node. */
Test(core_nodes, a_notice_before_the_join_of_the_last_node)
{
    begin_apart(false);
    line_opens();
    terminated(&walks[1]);
    deliver();
    for (int i = 0; i < WALK_NODES; i++)
        assert_did_not(&walks[i], "start");
    assert_said(&walks[0], "preempted: the notice came before the start");
}

/* Nothing was started, so nothing is saved. The deadline may be a guess: a container is killed
 * after ten seconds. Then node 0's exit code would be lost. */
Test(core_nodes, a_missing_node_keeps_no_node_until_the_deadline)
{
    for (int node = 0; node < WALK_NODES; node++) {
        begin_apart(false);
        int64_t at = now;
        terminated(&walks[node]);
        while (!strstr(walks[node].acts, "exit")) {
            wake(&walks[node]);
            steps_are_read(&walks[node]);
        }
        assert_did(&walks[node], "exit 42 preempted");
        cr_assert_leq(now, at + 2 * S);
    }
}

/* A program that is not pchrun may listen at node 0's address. */
Test(core_nodes, a_connection_without_an_answer_keeps_no_node_until_the_deadline)
{
    begin_apart(false);
    int64_t at = now;
    line_opens();
    lose_letters();
    terminated(&walks[1]);
    while (!strstr(walks[1].acts, "exit"))
        wake(&walks[1]);
    assert_did(&walks[1], "exit 42 preempted");
    cr_assert_leq(now, at + 2 * S);
}

/* A node that is just starting tries to connect once a second. */
Test(core_nodes, a_node_that_joins_right_after_the_notice_is_told)
{
    begin_apart(false);
    terminated(&walks[0]);
    assert_said(&walks[0],
                "node 1 is missing; node 0 tells it of the notice if it joins within 2 s");
    passes(&walks[0], 1900 * MS);
    line_opens();
    deliver();
    for (int i = 0; i < WALK_NODES; i++) {
        assert_said(&walks[i], "the notice came before the start: nothing was started");
        assert_did(&walks[i], "exit 42 preempted");
    }
}

/* A node alone, whose other nodes are missing. */
static struct walk *begin_waiting(int node, int nnodes, char *const *names)
{
    struct core_params p = params_of(node, nnodes, 1);
    p.names = names;
    p.join_timeout_ns = 600 * NS_PER_S;
    return walk_begin(&p);
}

/* This much time passes, and the node runs all the time. */
static void waits(struct walk *w, int64_t time)
{
    w->log[0] = '\0';
    for (int64_t until = now + time; now < until;) {
        w->acts[0] = '\0';
        wake(w);
        steps_are_read(w);
    }
}

/* A rank alone does not tell a user on which machine to look. */
Test(core_nodes, a_missing_node_is_named)
{
    static char *const names[] = {"hosta:41000", "hostb:41000", NULL};
    struct walk *w = begin_waiting(0, 2, names);
    waits(w, 10 * S);
    assert_said(w, "still waiting for node 1 (hostb:41000) of 2, 10 s so far "
                   "(cluster.join_timeout in 9m)");
    waits(w, 20 * S);
    assert_said(w, "of 2, 30 s so far");
    waits(w, 570 * S);
    assert_said(w, "1 of 2 nodes did not join within 10m: node 1 (hostb:41000)");
}

/* Long names, or a thousand of them, leave room for the rest of the line. */
Test(core_nodes, many_missing_nodes_are_counted_up)
{
    static char *names[1001];
    static char long_name[200];
    for (int i = 0; i < 1000; i++)
        names[i] = "host";
    struct walk *w = begin_waiting(0, 1000, names);
    waits(w, 10 * S);
    assert_said(w, "still waiting for nodes 1-999 of 1000, 10 s so far");
    memset(long_name, 'n', sizeof long_name - 1);
    for (int i = 0; i < 5; i++)
        names[i] = long_name;
    w = begin_waiting(0, 5, names);
    waits(w, 10 * S);
    assert_said(w, "still waiting for nodes 1-4 of 5, 10 s so far");
    w = begin_waiting(0, 3, NULL);
    waits(w, 10 * S);
    assert_said(w, "still waiting for nodes 1-2 of 3, 10 s so far");
}

/* Its first line may be ten minutes old, and the reason another one by now. */
Test(core_nodes, a_node_says_again_that_node_0_is_missing)
{
    struct walk *w = begin_waiting(1, 2, NULL);
    struct event down = {.type = EV_PEER_DOWN,
                         .peer = {.conn = CONN_CHIEF, .why = "cannot look up 'hosta'"}};
    feed(w, down);
    waits(w, 10 * S);
    assert_said(w, "still waiting for node 0, 10 s so far (cluster.join_timeout in 9m): "
                   "cannot look up 'hosta'");
    feed(w, (struct event){.type = EV_CHIEF_UP, .peer = {.conn = CONN_CHIEF}});
    waits(w, 20 * S);
    assert_said(w,
                "still waiting for node 0, 30 s so far (cluster.join_timeout in 9m): its address "
                "was reached, but nothing there has accepted this node yet");
    waits(w, 39 * S);
    assert_not_said(w, "still waiting");
    waits(w, 1 * S);
    assert_said(w, "still waiting for node 0, 70 s so far");
}

/* Slurm's ten minutes are live from the first second of a job with a short limit. */
Test(core_nodes, a_notice_before_the_join_that_leaves_time_is_no_end)
{
    begin_apart(true);
    for (int i = 0; i < WALK_NODES; i++) {
        noticed(&walks[i], "slurm", 100 * S);
        steps_are_read(&walks[i]);
    }
    deliver();
    assert_not_said(&walks[0], "nothing was started");
    meet();
    assert_both_did("start");
}

/* The notice came before every step. Node 0 has trained when node 1 learns of it, which changes
 * nothing. */
Test(core_nodes, a_notice_before_the_join_is_trained_up_to)
{
    begin_apart(false);
    noticed(&walks[0], "slurm", 100 * S);
    steps_are_read(&walks[0]);
    meet();
    for (int i = 0; i < WALK_NODES; i++) {
        started(&walks[i], 0);
        attaches(&walks[i], 0, i, WALK_NODES);
    }
    steps[0] = 3;
    agree();
    assert_said(&walks[0], "every rank saves step");
    assert_not_said(&walks[0], "then leaves");
}

/* Neither node meets the other: each leaves when the rest of the time is no longer than `grace`. */
Test(core_nodes, a_notice_before_the_join_that_leaves_time_is_waited_out)
{
    for (int i = 0; i < WALK_NODES; i++) {
        struct core_params p = params_of(i, WALK_NODES, 1);
        p.train_on = TRAIN_ON_ALWAYS;
        p.join_timeout_ns = 600 * NS_PER_S;
        struct walk *w = walk_begin(&p);
        int64_t at = now;
        noticed(w, "slurm", 100 * S);
        steps_are_read(w);
        while (!strstr(w->log, "notice came before the")) {
            wake(w);
            steps_are_read(w);
        }
        cr_assert_geq(now, at + 75 * NS_PER_S);
        cr_assert_leq(now, at + 76 * NS_PER_S);
    }
}

/* Only node 0 is told how long its grace is. The deadline is known if the notice that decides is of
 * node 0. */
Test(core_nodes, the_node_of_the_notice_knows_its_deadline_or_not)
{
    for (int node = 0; node < WALK_NODES; node++) {
        lose_letters();
        for (int i = 0; i < WALK_NODES; i++) {
            struct core_params p = params_of(i, WALK_NODES, 1);
            p.train_on = TRAIN_ON_AUTO;
            p.is_guess = p.signals[SIGTERM].is_guess = i != 0;
            walk_begin(&p);
        }
        meet();
        for (int i = 0; i < WALK_NODES; i++) {
            started(&walks[i], 0);
            attaches(&walks[i], 0, i, WALK_NODES);
            steps_are_read(&walks[i]);
        }
        deliver();
        steps[0] = 4;
        signalled(&walks[node], SIGTERM);
        agree();
        assert_said(&walks[0], node ? "the deadline is a guess (25 s)" : "the deadline is known");
        assert_said(&walks[0], "every rank saves step 5");
        cr_expect_eq(strstr(walks[0].log, "every rank saves step 5, then leaves") != NULL, node);
    }
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
    beat(MS, 16 * MS / 10);
    beat(MS, 16 * MS / 10);
    assert_said(&walks[0],
                "rank 1 (node 1, ) is slow: its own part of a step takes 1.6 x the median "
                "of all ranks (0.0016 s, not 0.001 s)");
    assert_not_said(&walks[1], "slow");
    beat(MS, 12 * MS / 10);
    assert_not_said(&walks[0], "no longer");
    beat(MS, MS);
    beat(MS, MS);
    assert_said(&walks[0], "rank 1 (node 1, ) is no longer slow");
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

/* --- a node that cannot start --- */

/* Node 1 of three joins, and says that it cannot start: node 0 ends the job. Node 2 has not come.
 */
static struct walk *begin_with_failed(void)
{
    struct core_params p = params_of(0, 3, 1);
    p.join_timeout_ns = 600 * S;
    struct walk *w = walk_begin(&p);
    struct peermsg hello = {.type = PEERMSG_HELLO,
                            .hello = {.incarnation = 7, .node_rank = 1, .nnodes = 3}};
    str_copy(hello.hello.job, sizeof hello.hello.job, p.identity);
    str_copy(hello.hello.settings, sizeof hello.hello.settings, p.settings);
    struct peermsg status = {.type = PEERMSG_STATUS,
                             .stamp = {.attempt = p.attempt, .seq = 1},
                             .status = {.life = LIFE_GONE, .seen = 1000},
                             .cause = {.fault = FAULT_START,
                                       .rank = -1,
                                       .code = 125,
                                       .error_ns = -1,
                                       .text = "the disk is full"}};
    feed(w, (struct event){.type = EV_PEER_MESSAGE, .peer = {.conn = CONN_FIRST, .msg = &hello}});
    feed(w, (struct event){.type = EV_PEER_MESSAGE, .peer = {.conn = CONN_FIRST, .msg = &status}});
    lose_letters();
    assert_said(w, "not_started: node 1: the disk is full");
    assert_did_not(w, "exit");
    return w;
}

Test(core_nodes, a_failure_before_the_join_is_told_to_late_nodes)
{
    struct walk *w = begin_with_failed();
    int64_t at = now;
    while (!strstr(w->acts, "exit")) {
        wake(w);
        lose_letters();
    }
    assert_did(w, "exit 125 not_started");
    cr_assert_geq(now, at + 30 * S);
    cr_assert_leq(now, at + 31 * S);
}

Test(core_nodes, a_signal_ends_that_wait)
{
    struct walk *w = begin_with_failed();
    terminated(w);
    lose_letters();
    assert_did(w, "exit 125 not_started");
}
