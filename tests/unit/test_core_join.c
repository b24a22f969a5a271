/* SPDX-License-Identifier: Apache-2.0
 *
 * test_core_join: walks of nodes that meet, or do not: refused, missing, unable to start, with
 * another directory than node 0's, and notices before the join.
 */
#include "base/str.h"
#include "walk.h"

#include <stdio.h>

TestSuite(core_join, .fini = walks_end);

/* Only the version of such a pchrun is known. The log names the version, and says what to do. */
Test(core_join, a_node_of_another_version_is_refused)
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

/* The node follows another node 0 of this attempt, which is the newer one. */
Test(core_join, a_node_that_follows_another_node_0_is_refused)
{
    struct core_params p = params_of(0, WALK_NODES, 1);
    struct peermsg hello = {.type = PEERMSG_HELLO,
                            .stamp = {.attempt = p.attempt, .epoch = 2},
                            .hello = {.incarnation = 7, .node_rank = 1, .nnodes = WALK_NODES}};
    str_copy(hello.hello.job, sizeof hello.hello.job, p.identity);
    str_copy(hello.hello.settings, sizeof hello.hello.settings, p.settings);
    walk_begin(&p);
    feed(&walks[0],
         (struct event){.type = EV_PEER_MESSAGE, .peer = {.conn = CONN_FIRST, .msg = &hello}});
    assert_said(&walks[0], "follows a node 0 of epoch 2, this one is of epoch 0; stop this pchrun");
    hello.stamp.epoch = 0;
    walks[0].log[0] = '\0';
    feed(&walks[0],
         (struct event){.type = EV_PEER_MESSAGE, .peer = {.conn = CONN_FIRST, .msg = &hello}});
    assert_not_said(&walks[0], "refused");
    lose_letters();
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
Test(core_join, another_directory_is_named_once)
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

Test(core_join, the_same_directory_is_not_named)
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
Test(core_join, a_save_that_a_node_cannot_see_is_not_committed)
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
Test(core_join, a_save_that_every_node_may_see_is_committed)
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
Test(core_join, a_notice_before_the_join_of_the_last_node)
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
Test(core_join, a_missing_node_keeps_no_node_until_the_deadline)
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
Test(core_join, a_connection_without_an_answer_keeps_no_node_until_the_deadline)
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
Test(core_join, a_node_that_joins_right_after_the_notice_is_told)
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
Test(core_join, a_missing_node_is_named)
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
Test(core_join, many_missing_nodes_are_counted_up)
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
Test(core_join, a_node_says_again_that_node_0_is_missing)
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
Test(core_join, a_notice_before_the_join_that_leaves_time_is_no_end)
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
Test(core_join, a_notice_before_the_join_is_trained_up_to)
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
Test(core_join, a_notice_before_the_join_that_leaves_time_is_waited_out)
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
Test(core_join, the_node_of_the_notice_knows_its_deadline_or_not)
{
    for (int node = 0; node < WALK_NODES; node++) {
        lose_letters();
        for (int i = 0; i < WALK_NODES; i++) {
            struct core_params p = params_of(i, WALK_NODES, 1);
            p.train_on = TRAIN_ON_AUTO;
            p.is_guess = p.signals[SIGTERM].is_guess = i != 0;
            walk_begin(&p);
        }
        meet_and_start();
        steps[0] = 4;
        signalled(&walks[node], SIGTERM);
        agree();
        assert_said(&walks[0], node ? "the deadline is a guess (25 s)" : "the deadline is known");
        cr_expect_eq(strstr(walks[0].log, "node 1 (): SIGTERM, 25 s left") != NULL, node);
        assert_said(&walks[0], "every rank saves step 5");
        cr_expect_eq(strstr(walks[0].log, "every rank saves step 5, then leaves") != NULL, node);
    }
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

Test(core_join, a_failure_before_the_join_is_told_to_late_nodes)
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

Test(core_join, a_signal_ends_that_wait)
{
    struct walk *w = begin_with_failed();
    terminated(w);
    lose_letters();
    assert_did(w, "exit 125 not_started");
}
