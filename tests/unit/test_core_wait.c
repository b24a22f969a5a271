/* SPDX-License-Identifier: Apache-2.0
 *
 * test_core_wait: walks of two nodes, of which node 1 is lost, and the job waits for its
 * replacement: the fence, who may take the place, and the ends of the wait.
 */
#include "base/str.h"
#include "core/common/cause.h"
#include "walk.h"

#include <stdio.h>
#include <string.h>

TestSuite(core_wait, .fini = walks_end);

static struct core_params waiting(int node)
{
    struct core_params p = params_of(node, WALK_NODES, 1);
    p.replace_wait_ns = 60 * S;
    p.replace_max = 10;
    return p;
}

static void begin_restarting(int replace_max, bool has_record, int restart_max)
{
    lose_letters();
    for (int i = 0; i < WALK_NODES; i++) {
        struct core_params p = waiting(i);
        p.replace_max = replace_max;
        p.has_record = has_record;
        p.restart.max = restart_max;
        walk_begin(&p);
    }
    meet_and_start();
}

static void begin_with(int replace_max, bool has_record)
{
    begin_restarting(replace_max, has_record, 0);
}

/* Node 1's supervisor has ended, and nothing is known of its processes. Node 0's have ended. */
static void lose_node_1(void)
{
    lose_letters();
    walks[0].acts[0] = '\0';
    line_closes(&walks[0], true);
    gone(&walks[0], 0);
    ends(&walks[0], SIGTERM);
    lose_letters();
}

/* No message of node 1 arrives. */
static void is_silent(int64_t time)
{
    for (int64_t until = now + time; now < until;) {
        wake(&walks[0]);
        lose_letters();
    }
}

static struct walk *begin_replacement_as(uint64_t incarnation)
{
    struct core_params p = waiting(1);
    p.incarnation = incarnation;
    struct walk *w = walk_begin(&p);
    meet();
    return w;
}

static struct walk *begin_replacement(void)
{
    return begin_replacement_as(77);
}

/* A heartbeat of each node goes to and fro. */
static void beat(void)
{
    passes(&walks[1], S);
    feed(&walks[0], (struct event){.type = EV_TIMER});
    for (int i = 0; i < WALK_NODES; i++)
        steps_are_read(&walks[i]);
    deliver();
}

Test(core_wait, the_next_generation_begins_behind_the_fence)
{
    begin_with(10, false);
    int64_t answered = now;
    lose_node_1();
    assert_said(&walks[0], "node 1 () is lost: the job waits up to 1m for its replacement");
    struct core_report report = report_of(&walks[0]);
    cr_expect_eq(report.state, NODE_RESTARTING);
    cr_expect(report.wait.nvacant == 1 && report.wait.vacant[0].node == 1);
    cr_expect_eq(report.wait.since, now);
    cr_expect_eq(report.wait.until, now + 60 * S);
    begin_replacement();
    assert_said(&walks[0], "node 1 () is replaced by");
    assert_said(&walks[1], "joined as node 1 of 2");
    cr_expect_eq(report_of(&walks[1]).wait.nvacant, 0);
    for (int i = 0; i < WALK_NODES; i++)
        assert_said(&walks[i], "every place is taken; the next generation waits 2");
    for (int i = 0; i < 21; i++)
        beat();
    assert_did_not(&walks[0], "start");
    assert_did_not(&walks[1], "start");
    while (now < answered + 22 * S + MS)
        beat();
    assert_both_did("start");
    for (int i = 0; i < WALK_NODES; i++) {
        assert_said(&walks[i], "generation 1 begins");
        cr_expect_eq(report_of(&walks[i]).generation, 1);
    }
    cr_expect_eq(report_of(&walks[1]).wait.since, 0);
    lose_letters();
}

/* Node 1 does not hear node 0. Its lease ends sooner than its silence tells node 0 that it is lost.
 * Rank 0 fails because rank 1 has gone. */
Test(core_wait, a_rank_fails_before_the_loss_is_known)
{
    begin_with(10, false);
    is_silent(4 * S);
    gone(&walks[0], 0);
    exits(&walks[0], 1 << 8);
    is_silent(5 * S);
    assert_not_said(&walks[0], "ending: ");
    is_silent(8 * S);
    assert_said(&walks[0], "node 1 () is lost: the job waits up to 1m for its replacement");
}

Test(core_wait, a_rank_fails_and_a_silent_node_is_back)
{
    begin_with(10, false);
    is_silent(4 * S);
    gone(&walks[0], 0);
    exits(&walks[0], 1 << 8);
    is_silent(S);
    beat();
    assert_said(&walks[0], "ending: failed: ");
}

/* It joins while its first check is under way. A second one at once would find the program busy. */
Test(core_wait, a_replacement_checks_its_health_once)
{
    begin_with(10, false);
    lose_node_1();
    struct core_params p = waiting(1);
    p.incarnation = 77;
    p.checks_health = true;
    struct walk *w = walk_begin(&p);
    meet();
    assert_said(w, "joined as node 1 of 2");
    assert_did(w, "check");
    cr_expect_null(strstr(strstr(w->acts, "check") + 1, "check"), "%s", w->acts);
    for (int i = 0; i < 30; i++)
        beat();
    assert_did_not(&walks[0], "start");
    feed(w, (struct event){.type = EV_CHECKED});
    deliver();
    assert_both_did("start");
    lose_letters();
}

/* The lost supervisor has said that its processes have ended. */
Test(core_wait, a_goodbye_lowers_the_fence)
{
    begin_with(10, false);
    lose_letters();
    hears(&walks[0], &(struct peermsg){.type = PEERMSG_BYE, .stamp = {.attempt = 1}});
    lose_node_1();
    walks[0].acts[0] = '\0';
    begin_replacement();
    deliver();
    assert_both_did("start");
    lose_letters();
}

Test(core_wait, a_place_that_stays_vacant_ends_the_job)
{
    begin_with(10, false);
    lose_node_1();
    for (int i = 0; i < 59; i++)
        passes(&walks[0], S);
    assert_did_not(&walks[0], "exit");
    assert_said(&walks[0], "still waiting for the replacement of node 1, 10 s so far");
    passes(&walks[0], S);
    assert_did(&walks[0], "exit 42 node_lost");
    assert_said(&walks[0], "it was not replaced within 1m");
    lose_letters();
}

Test(core_wait, a_user_ends_the_wait)
{
    begin_with(10, false);
    lose_node_1();
    feed(&walks[0], (struct event){.type = EV_STOP_ASKED, .stop.why = "stopped by hand"});
    assert_did(&walks[0], "exit 44 stopped");
    lose_letters();
}

Test(core_wait, an_interrupt_ends_the_wait)
{
    begin_with(10, false);
    lose_node_1();
    signalled(&walks[0], SIGINT);
    assert_did(&walks[0], "exit 130 interrupted");
    assert_said(&walks[0], "a signal has told the job to end while it waited");
    lose_letters();
}

Test(core_wait, no_replacement_is_left)
{
    begin_with(0, false);
    lose_node_1();
    assert_did(&walks[0], "exit 42 node_lost");
    assert_said(&walks[0], "not replaced: cluster.replace_max (0 an hour) is spent");
    lose_letters();
}

/* The next generation begins with the replacement, and its ranks attach. */
static void replace_node_1(uint64_t incarnation)
{
    walks[0].acts[0] = '\0';
    begin_replacement_as(incarnation);
    deliver();
    assert_both_did("start");
    for (int i = 0; i < WALK_NODES; i++) {
        started(&walks[i], 0);
        attaches(&walks[i], 0, i, WALK_NODES);
        steps_are_read(&walks[i]);
    }
    deliver();
}

/* A job that loses a node again and again, before it can save, must not wait for ever. */
Test(core_wait, three_generations_without_a_commit)
{
    enum { LIMIT = 3 };
    lose_letters();
    for (int i = 0; i < WALK_NODES; i++) {
        struct core_params p = waiting(i);
        p.no_progress_limit = LIMIT;
        walk_begin(&p);
    }
    meet_and_start();
    for (uint32_t n = 0; n < LIMIT; n++) {
        hears(&walks[0],
              &(struct peermsg){.type = PEERMSG_BYE, .stamp = {.attempt = 1, .generation = n}});
        lose_node_1();
        if (n + 1 == LIMIT)
            break;
        assert_did_not(&walks[0], "exit");
        replace_node_1(77 + n);
    }
    assert_did(&walks[0], "exit 43 no_progress");
    assert_said(&walks[0], "not replaced: 3 times in a row no new commit was made");
    lose_letters();
}

/* The only replacement of an hour was spent at its begin. */
Test(core_wait, an_hour_later_a_replacement_is_left_again)
{
    for (int after = 3599; after <= 3600; after++) {
        begin_with(1, false);
        int64_t lost = now;
        hears(&walks[0], &(struct peermsg){.type = PEERMSG_BYE, .stamp = {.attempt = 1}});
        lose_node_1();
        begin_replacement();
        deliver();
        assert_both_did("start");
        while (now < lost + after * S) {
            walks[0].acts[0] = walks[1].acts[0] = '\0';
            beat();
        }
        lose_node_1();
        assert_said(&walks[0], after < 3600 ? "cluster.replace_max (1 an hour) is spent"
                                            : "node 1 () is lost: the job waits");
    }
    lose_letters();
}

static struct peermsg hello_of(uint64_t incarnation, uint32_t attempt)
{
    struct peermsg hello = {
        .type = PEERMSG_HELLO,
        .stamp = {.attempt = attempt},
        .hello = {.incarnation = incarnation, .node_rank = 1, .nnodes = WALK_NODES, .pid = 11}};
    str_copy(hello.hello.job, sizeof hello.hello.job, "walk");
    return hello;
}

static void calls(const struct peermsg *msg)
{
    walks[0].log[0] = '\0';
    feed(&walks[0],
         (struct event){.type = EV_PEER_MESSAGE, .peer = {.conn = CONN_FIRST + 9, .msg = msg}});
    lose_letters();
}

/* The first replacement is lost in its turn, before it has said anything. It knows nothing of the
 * processes before it. */
Test(core_wait, a_goodbye_of_the_replacement_lowers_no_fence)
{
    struct peermsg first = hello_of(77, 0);
    struct peermsg bye = {.type = PEERMSG_BYE, .stamp = {.attempt = 1}};
    begin_with(10, false);
    int64_t answered = now;
    lose_node_1();
    calls(&first);
    assert_said(&walks[0], "node 1 () is replaced by");
    for (int i = 0; i < 16; i++)
        passes(&walks[0], S);
    assert_said(&walks[0], "node 1 (): no message from it for 15s");
    calls(&bye);
    begin_replacement_as(78);
    assert_said(&walks[0], "node 1 () is replaced by");
    assert_did_not(&walks[1], "start");
    while (now < answered + 22 * S + MS)
        beat();
    assert_both_did("start");
    lose_letters();
}

/* Its check fails, and another one takes the place. The record counts the host of each, once. */
Test(core_wait, each_unhealthy_host_is_recorded)
{
    begin_with(10, false);
    lose_node_1();
    for (uint64_t i = 0; i < 2; i++) {
        struct peermsg first = hello_of(77 + i, 0);
        struct peermsg word = {.type = PEERMSG_STATUS,
                               .stamp = {.attempt = 1, .seq = 1},
                               .status = {.life = LIFE_FAILED},
                               .cause = {.fault = FAULT_UNFIT, .node = 1, .rank = -1, .code = 45}};
        str_copy(first.hello.host, sizeof first.hello.host, i ? "hostc" : "hostb");
        cause_say_unfit(word.cause.text, sizeof word.cause.text, first.hello.host, "gpu3: Xid 79");
        calls(&first);
        walks[0].acts[0] = '\0';
        calls(&word);
        assert_said(&walks[0], "it is not healthy: gpu3: Xid 79");
        word.stamp.seq = 2;
        calls(&word);
        assert_acts(&walks[0], i ? "strike hostc: gpu3: Xid 79" : "strike hostb: gpu3: Xid 79");
    }
    begin_replacement_as(79);
    for (int i = 0; i < 30; i++)
        beat();
    assert_both_did("start");
    lose_letters();
}

/* It joins only to say why it cannot start. The job waits for another one. */
Test(core_wait, a_replacement_that_cannot_start)
{
    struct peermsg first = hello_of(77, 0);
    struct peermsg word = {.type = PEERMSG_STATUS,
                           .stamp = {.attempt = 1, .seq = 1},
                           .status = {.life = LIFE_FAILED},
                           .cause = {.fault = FAULT_START, .node = 1, .rank = -1, .code = 125}};
    str_copy(word.cause.text, sizeof word.cause.text, "nothing could be recorded");
    begin_with(10, false);
    lose_node_1();
    for (int i = 0; i < 30; i++)
        passes(&walks[0], S);
    calls(&first);
    calls(&word);
    assert_said(&walks[0], "node 1 (): it cannot start: nothing could be recorded");
    word.stamp.seq = 2;
    word.status.life = LIFE_GONE;
    calls(&word);
    assert_said(&walks[0], "refused: node 1 (, pid 11) is no longer part of the job");
    passes(&walks[0], S);
    cr_expect_eq(report_of(&walks[0]).generation, 0);
    cr_expect_eq(report_of(&walks[0]).wait.vacant[0].node, 1);
    begin_replacement_as(78);
    assert_both_did("start");
    lose_letters();
}

/* Its command is missing, which shows only when the generation has begun. */
Test(core_wait, a_replacement_whose_command_cannot_be_executed)
{
    struct err err = {.code = ERR_NOT_FOUND, .text = "cannot execute train: not found"};
    begin_with(10, false);
    lose_node_1();
    for (int i = 0; i < 30; i++)
        passes(&walks[0], S);
    begin_replacement();
    beat();
    assert_both_did("start");
    started(&walks[0], 0);
    walks[0].acts[0] = '\0';
    feed(&walks[1], (struct event){.type = EV_CHILD_FAILED, .child = {.err = &err}});
    tree_empty(&walks[1]);
    deliver();
    assert_said(&walks[0], "node 1 (): it cannot start: cannot execute train: not found");
    assert_did(&walks[0], "SIGTERM");
    cr_expect_eq(report_of(&walks[0]).wait.vacant[0].node, 1);
    assert_did(&walks[1], "exit 42 node_lost");
    ends(&walks[0], SIGTERM);
    lose_letters();
    begin_replacement_as(78);
    beat();
    assert_both_did("start");
    cr_expect_eq(report_of(&walks[0]).generation, 2);
    lose_letters();
}

/* A rank is killed a second before its node is lost. Only a job that survives the failure is there
 * to wait. */
Test(core_wait, a_failure_before_the_loss_of_its_node)
{
    for (int restart_max = 0; restart_max < 2; restart_max++) {
        begin_restarting(10, false, restart_max);
        gone(&walks[1], 0);
        exited(&walks[1], 0, SIGKILL);
        steps_are_read(&walks[1]);
        deliver();
        passes(&walks[0], S);
        lose_node_1();
        passes(&walks[0], S);
        bool waits = report_of(&walks[0]).wait.since, fails = strstr(walks[0].acts, " failed");
        cr_expect(restart_max ? waits && !fails : fails && !waits, "%d: %s", restart_max,
                  walks[0].log);
        lose_letters();
    }
}

/* Rank 0 fails, and the job restarts. Only then node 0 hears that one of node 1's commands could
 * not be executed at the first start. */
Test(core_wait, a_first_start_that_fails_ends_a_restart)
{
    struct peermsg told = {.type = PEERMSG_STATUS,
                           .stamp = {.attempt = 1, .seq = 1000},
                           .status = {.life = LIFE_RUNNING},
                           .cause = {.fault = FAULT_START, .node = 1, .rank = 1, .code = 127}};
    begin_restarting(10, false, 3);
    gone(&walks[0], 0);
    exits(&walks[0], 1 << 8);
    beat();
    assert_said(&walks[0], "restarting in place");
    feed(&walks[0],
         (struct event){.type = EV_PEER_MESSAGE, .peer = {.conn = CONN_FIRST, .msg = &told}});
    assert_not_said(&walks[0], "is lost");
    assert_said(&walks[0], "ending: the cause has changed: node 1: rank 1");
    lose_letters();
}

Test(core_wait, who_was_given_up_does_not_come_back)
{
    struct peermsg lost = hello_of(8, 1), older = hello_of(6, 1);
    begin_with(10, false);
    lose_node_1();
    calls(&lost);
    assert_said(
        &walks[0],
        "refused: node 1 (, pid 11) is no longer part of the job: its supervisor has ended");
    calls(&older);
    assert_said(&walks[0], "refused: node 1 (, pid 11) is no longer part of the job");
    begin_replacement();
    calls(&lost);
    assert_said(&walks[0], "refused: node 1 (, pid 11) was replaced by");
}

/* Each node saves on its own disk. */
Test(core_wait, only_the_same_disk_can_take_the_place)
{
    struct peermsg empty = hello_of(77, 0), same = hello_of(78, 0);
    begin_with(10, true);
    for (int i = 0; i < WALK_NODES; i++)
        saves(&walks[i], 0, 10, 0);
    for (int i = WALK_NODES - 1; i >= 0; i--) {
        written(&walks[i], EV_PREPARED);
        deliver();
    }
    written(&walks[0], EV_COMMITTED);
    deliver();
    lose_node_1();
    calls(&empty);
    assert_said(&walks[0], "does not have the save of step 10, and the nodes do not share");
    assert_not_said(&walks[0], "is replaced by");
    same.hello.commit_step = 10;
    calls(&same);
    assert_said(&walks[0], "node 1 () is replaced by");
}

/* Node 1's notice ends the generation with a save. */
static void node_1_saves(void)
{
    begin_with(10, false);
    steps[0] = 8;
    signalled(&walks[1], SIGTERM);
    agree();
    for (int i = 0; i < WALK_NODES; i++)
        saves_and_waits(&walks[i], 0, 9, 1);
    for (int i = WALK_NODES - 1; i >= 0; i--) {
        written(&walks[i], EV_PREPARED);
        deliver();
    }
    written(&walks[0], EV_COMMITTED);
    deliver();
    assert_said(&walks[0], "the nodes with a notice leave, and the others wait");
}

/* Then node 1 leaves, and node 0 waits. */
static void node_1_leaves(void)
{
    node_1_saves();
    for (int i = 0; i < WALK_NODES; i++) {
        gone(&walks[i], 0);
        ends(&walks[i], 0);
    }
    deliver();
    assert_did(&walks[1], "exit 42 preempted");
    assert_did_not(&walks[0], "exit");
    assert_said(&walks[0], "node 1 () leaves for its notice");
    cr_expect_eq(report_of(&walks[0]).wait.vacant[0].node, 1);
}

Test(core_wait, a_node_with_a_notice_leaves_alone)
{
    node_1_leaves();
    walks[0].acts[0] = '\0';
    begin_replacement();
    deliver();
    assert_both_did("start");
    cr_expect_eq(report_of(&walks[1]).resumed_step, 9);
    lose_letters();
}

/* Nothing can tell when they end, so no other node may have the place. */
Test(core_wait, processes_that_cannot_be_killed)
{
    node_1_saves();
    gone(&walks[0], 0);
    ends(&walks[0], 0);
    deliver();
    for (int i = 0; i < 60; i++)
        passes(&walks[1], S);
    deliver();
    assert_did(&walks[0], "exit 42 preempted");
    assert_said(&walks[0], "processes that cannot be killed are left on node 1");
    lose_letters();
}

/* Here the replacement itself waits for the fence. Node 0 lives, and lets it go. */
Test(core_wait, a_notice_to_a_node_that_waits)
{
    begin_with(10, false);
    lose_node_1();
    begin_replacement();
    signalled(&walks[1], SIGTERM);
    deliver();
    assert_did(&walks[1], "exit 42 preempted");
    struct core_report report = report_of(&walks[1]);
    cr_expect_str_eq(report.why,
                     "the notice came while the job waited for the replacement of a node");
    cr_expect_eq(report.first_cause.node, 1); /* node 0 is not to blame */
    assert_did_not(&walks[0], "exit");
    lose_letters();
}

/* The network is as good as ever. */
Test(core_wait, a_standstill_ends_the_lease)
{
    begin_with(10, false);
    lose_letters();
    now += 30 * S;
    feed(&walks[1], (struct event){.type = EV_TIMER});
    gone(&walks[1], 0);
    ends(&walks[1], SIGKILL);
    assert_did(&walks[1], "exit 42 node_lost");
    assert_said(&walks[1], "this node ends: this machine or its pchrun stood still, so node 0 may "
                           "have given this node up");
    lose_letters();
}

/* The order to begin had come by then, and is read first. */
Test(core_wait, a_standstill_before_the_start)
{
    begin_with(10, false);
    lose_node_1();
    begin_replacement();
    for (int i = 0; i < 30 && !strstr(walks[0].acts, "start"); i++) {
        beat();
        passes(&walks[1], S);
        feed(&walks[0], (struct event){.type = EV_TIMER});
    }
    assert_did(&walks[0], "start");
    now += 30 * S;
    deliver();
    assert_said(&walks[1], "generation 1 begins");
    assert_did_not(&walks[1], "start");
    assert_did(&walks[1], "exit 42 node_lost");
    assert_said(&walks[1], "this node ends: this machine or its pchrun stood still");
    lose_letters();
}

/* Node 0 slept, so node 1 has left. Its end is not the cause. */
Test(core_wait, a_standstill_of_node_0)
{
    for (int seconds = 1; seconds <= 30; seconds += 29) {
        begin_with(10, false);
        lose_letters();
        now += seconds * S;
        feed(&walks[0], (struct event){.type = EV_TIMER});
        lose_letters();
        hears(&walks[0], &(struct peermsg){.type = PEERMSG_BYE, .stamp = {.attempt = 1}});
        struct core_report report = report_of(&walks[0]);
        const char *said = strstr(report.first_cause.text, "; node 0 had stood still for");
        cr_expect_eq(said != NULL, seconds == 30, "%s", report.first_cause.text);
        cr_expect_leq(report.first_cause.wall_ns, 0); /* not later than now */
        lose_letters();
    }
}

Test(core_wait, a_notice_to_node_0_ends_the_wait)
{
    begin_with(10, false);
    lose_node_1();
    terminated(&walks[0]);
    assert_did(&walks[0], "exit 42 preempted_unsaved");
    lose_letters();
}

/* The first notice had led to a save, and the job has not trained since. */
Test(core_wait, a_second_notice_after_the_save)
{
    node_1_leaves();
    terminated(&walks[0]);
    struct core_report report = report_of(&walks[0]);
    cr_expect_eq(report.outcome, OUTCOME_PREEMPTED);
    cr_expect_str_eq(report.why,
                     "the notice came while the job waited for the replacement of a node");
    lose_letters();
}

/* The line of a node that was silent works again. Only the end of its processes lowers the fence.
 */
Test(core_wait, a_late_word_lowers_no_fence)
{
    static const enum peer_life lives[] = {LIFE_RUNNING, LIFE_FAILED, LIFE_GONE};
    for (size_t k = 0; k < ARRAY_LEN(lives); k++) {
        struct peermsg word = {.type = PEERMSG_STATUS,
                               .stamp = {.attempt = 1, .seq = 1000},
                               .status = {.life = (uint8_t)lives[k]}};
        begin_with(10, false);
        lose_letters();
        for (int i = 0; i < 16; i++)
            passes(&walks[0], S);
        assert_said(&walks[0], "node 1 (): no message from it for 15s");
        gone(&walks[0], 0);
        ends(&walks[0], SIGTERM);
        hears(&walks[0], &word);
        lose_letters();
        begin_replacement();
        beat();
        cr_assert_eq(report_of(&walks[0]).generation, lives[k] == LIFE_GONE, "%d", lives[k]);
        lose_letters();
    }
}

/* --- several nodes --- */

static void says_of(int node, struct peermsg msg)
{
    if (msg.type == PEERMSG_HELLO)
        msg.hello.node_rank = (uint32_t)node;
    feed(&walks[0],
         (struct event){.type = EV_PEER_MESSAGE, .peer = {.conn = CONN_FIRST + node, .msg = &msg}});
    lose_letters();
}

static void is_lost(int node)
{
    says_of(node, (struct peermsg){.type = PEERMSG_BYE, .stamp = {.attempt = 1}});
}

/* Node 0 of a job that has started; all other nodes are only their messages. */
static void begin_many(int nnodes)
{
    struct core_params p = waiting(0);
    p.nnodes = nnodes;
    p.replace_max = nnodes;
    p.heartbeat_timeout_ns = 600 * S;
    lose_letters();
    struct walk *w = walk_begin(&p);
    for (int node = 1; node < nnodes; node++) {
        struct peermsg hello = hello_of((uint64_t)node, 0);
        hello.hello.nnodes = (uint32_t)nnodes;
        snprintf(hello.hello.host, sizeof hello.hello.host, "h%d", node);
        says_of(node, hello);
        says_of(node, (struct peermsg){.type = PEERMSG_STATUS,
                                       .stamp = {.attempt = 1, .seq = 1},
                                       .status = {.expected = 1}});
    }
    assert_did(w, "start");
    started(w, 0);
}

static void assert_vacant(int nvacant, const char *listed)
{
    char text[64] = "";
    struct core_report report = report_of(&walks[0]);
    cr_expect_eq(report.wait.nvacant, nvacant);
    for (int i = 0; i < nvacant && i < CORE_VACANCIES; i++)
        str_addf(text, sizeof text, "%s%s", i ? " " : "", report.wait.vacant[i].host);
    cr_expect_str_eq(text, listed);
}

Test(core_wait, every_vacant_place_is_named)
{
    begin_many(12);
    is_lost(3);
    ends(&walks[0], SIGTERM);
    passes(&walks[0], 5 * S);
    is_lost(7);
    is_lost(6);
    assert_vacant(3, "h3 h6 h7");
    struct core_report report = report_of(&walks[0]);
    cr_expect_eq(report.wait.since, now - 5 * S);
    cr_expect_eq(report.wait.vacant[0].since, now - 5 * S);
    cr_expect_eq(report.wait.vacant[1].since, now);
    passes(&walks[0], 5 * S);
    assert_said(&walks[0], "still waiting for the replacement of nodes 3, 6, 7, 10 s so far");
    struct peermsg hello = hello_of(99, 0);
    hello.hello.nnodes = 12;
    says_of(6, hello);
    assert_vacant(2, "h3 h7");
    for (int node = 1; node < 12; node++)
        if (node != 6)
            is_lost(node);
    assert_vacant(10, "h1 h2 h3 h4 h5 h7 h8 h9");
    for (int i = 0; i < 49; i++)
        passes(&walks[0], S);
    assert_said(&walks[0], "still waiting for the replacement of nodes 1, 2, 3, 4, 5, 7, 8, 9 and "
                           "2 more, 30 s so far");
    passes(&walks[0], S);
    assert_said(&walks[0], "; nodes 1-5, 7-11 were not replaced within 1m");
}

/* Every change of the places makes the shell look at the report again. */
Test(core_wait, each_change_of_the_places_is_told)
{
    begin_many(4);
    is_lost(1);
    int seen = walks[0].states;
    is_lost(3);
    cr_expect_gt(walks[0].states, seen);
    seen = walks[0].states;
    struct peermsg hello = hello_of(99, 0);
    hello.hello.nnodes = 4;
    says_of(3, hello);
    cr_expect_gt(walks[0].states, seen);
    assert_vacant(1, "h1");
}
