/* SPDX-License-Identifier: Apache-2.0
 *
 * test_core_spare: node 0 and its spares: who stands by, who is called to the place of a lost node,
 * who takes it, and the end. Two nodes; the spares are numbers 2 and 3.
 */
#include "base/str.h"
#include "walk.h"

#include <stdio.h>
#include <string.h>

TestSuite(core_spare, .fini = walks_end);

enum { SPARE_CONN = CONN_FIRST + 20, PATIENCE = 15 };

static void begin_with(bool has_record)
{
    lose_letters();
    for (int i = 0; i < WALK_NODES; i++) {
        struct core_params p = params_of(i, WALK_NODES, 1);
        p.replace_wait_ns = 60 * S;
        p.replace_max = 10;
        p.spares = 2;
        p.has_record = has_record;
        walk_begin(&p);
    }
    meet_and_start();
    walks[0].acts[0] = '\0';
}

static void begin(void)
{
    begin_with(false);
}

/* Node 0 hears this over a connection that is not node 1's. */
static void tells(int conn, const struct peermsg *msg)
{
    walks[0].log[0] = walks[0].acts[0] = '\0';
    feed(&walks[0], (struct event){.type = EV_PEER_MESSAGE, .peer = {.conn = conn, .msg = msg}});
    lose_letters();
}

static struct peermsg hello(uint32_t number, uint64_t incarnation)
{
    struct peermsg msg = {
        .type = PEERMSG_HELLO,
        .hello = {.incarnation = incarnation, .node_rank = number, .nnodes = WALK_NODES}};
    snprintf(msg.hello.host, sizeof msg.hello.host, "host%u", number);
    str_copy(msg.hello.job, sizeof msg.hello.job, "walk");
    return msg;
}

/* A spare calls over the connection SPARE_CONN + `number`. */
static void stands_by(uint32_t number)
{
    struct peermsg msg = hello(number, 100 + number);
    msg.hello.stands_by = 1;
    tells(SPARE_CONN + (int)number, &msg);
}

static void beats(int number)
{
    tells(SPARE_CONN + number, &(struct peermsg){.type = PEERMSG_STATUS,
                                                 .stamp = {.attempt = 1},
                                                 .status = {.wants_reply = 1}});
}

static void says_goodbye(int number)
{
    tells(SPARE_CONN + number, &(struct peermsg){.type = PEERMSG_BYE, .stamp = {.attempt = 1}});
}

static void is_cut_off(int number)
{
    walks[0].log[0] = walks[0].acts[0] = '\0';
    feed(&walks[0], (struct event){.type = EV_PEER_DOWN,
                                   .peer = {.conn = SPARE_CONN + number, .why = "reset"}});
}

/* A new supervisor says that it is node 1. */
static void comes_as_node_1(uint64_t incarnation, uint32_t attempt)
{
    struct peermsg msg = hello(1, incarnation);
    msg.stamp.attempt = attempt;
    tells(CONN_FIRST + 9, &msg);
}

static void comes_with_the_saves(uint64_t incarnation)
{
    struct peermsg msg = hello(1, incarnation);
    msg.hello.commit_step = 10;
    tells(CONN_FIRST + 9, &msg);
}

/* Node 1's supervisor has ended. Node 0's processes have, too. */
static void lose_node_1(void)
{
    lose_letters();
    walks[0].acts[0] = walks[0].log[0] = '\0';
    line_closes(&walks[0], true);
    gone(&walks[0], 0);
    ends(&walks[0], SIGTERM);
    lose_letters();
}

static int spares(struct core_spare_report *ret)
{
    return core_spares(walks[0].core, ret, 4);
}

Test(core_spare, stands_by_and_is_answered)
{
    struct core_spare_report r[4];
    begin();
    cr_expect_eq(spares(r), 0);
    stands_by(3);
    assert_did(&walks[0], "23: standby -1");
    stands_by(2);
    beats(2);
    assert_acts(&walks[0], "22: standby -1");
    cr_assert_eq(spares(r), 2);
    cr_expect(r[0].number == 2 && r[1].number == 3 && r[0].place == -1);
    cr_expect_str_eq(r[1].host, "host3");
    cr_expect_eq(r[0].heard_at, now);
    cr_expect_eq(core_spares(walks[0].core, r, 1), 1);
    cr_expect_eq(core_spares(walks[1].core, r, 4), 0);
}

Test(core_spare, the_lowest_is_called_and_takes_the_place)
{
    struct core_spare_report r[4];
    begin();
    stands_by(3);
    stands_by(2);
    lose_node_1();
    assert_did(&walks[0], "22: standby 1");
    assert_did_not(&walks[0], "23: standby 1");
    assert_said(&walks[0], "spare 2 (host2) is called to the place of node 1");
    beats(2);
    assert_acts(&walks[0], "22: standby 1"); /* the first word may be lost */
    says_goodbye(2);
    assert_not_said(&walks[0], "leaves");
    cr_assert_eq(spares(r), 2);
    cr_expect_eq(r[0].place, 1);
    comes_as_node_1(500, 0);
    assert_said(&walks[0], "is replaced by");
    cr_assert_eq(spares(r), 1);
    cr_expect_eq(r[0].number, 3);
    for (int i = 0; i < 10; i++)
        passes(&walks[0], S);
    assert_not_said(&walks[0], "spare 2");
}

Test(core_spare, waits_without_spares)
{
    begin();
    lose_node_1();
    assert_not_said(&walks[0], "is called");
    stands_by(3);
    assert_did(&walks[0], "23: standby -1");
    assert_did(&walks[0], "23: standby 1");
    lose_letters();
}

Test(core_spare, one_that_does_not_come_is_not_called_again)
{
    begin();
    stands_by(2);
    lose_node_1();
    for (int i = 0; i < PATIENCE; i++) {
        beats(2);
        passes(&walks[0], S);
    }
    assert_said(&walks[0], "spare 2 (host2) has not taken the place of node 1 within 15s");
    beats(2);
    assert_acts(&walks[0], "22: standby -1");
    stands_by(3);
    assert_did(&walks[0], "23: standby 1");
    lose_letters();
}

Test(core_spare, one_that_said_goodbye_and_does_not_come)
{
    begin();
    stands_by(2);
    stands_by(3);
    lose_node_1();
    says_goodbye(2);
    for (int i = 0; i < PATIENCE - 1; i++) {
        beats(3);
        passes(&walks[0], S);
    }
    beats(3);
    assert_acts(&walks[0], "23: standby -1");
    passes(&walks[0], S);
    assert_did(&walks[0], "23: standby 1");
    lose_letters();
}

Test(core_spare, one_that_is_lost_while_it_is_called)
{
    begin();
    stands_by(2);
    stands_by(3);
    lose_node_1();
    is_cut_off(2);
    assert_said(&walks[0], "spare 2 (host2): its connection is closed: reset");
    assert_did(&walks[0], "23: standby 1");
    lose_letters();
}

/* The lost spare changes nothing else. */
Test(core_spare, a_lost_one_is_only_told)
{
    struct core_spare_report r[4];
    begin();
    stands_by(2);
    is_cut_off(2);
    assert_said(&walks[0], "spare 2 (host2): its connection is closed: reset");
    assert_did_not(&walks[0], "signal");
    cr_expect_eq(spares(r), 0);
    stands_by(2);
    assert_did(&walks[0], "22: standby -1");
}

Test(core_spare, a_silent_one_is_lost)
{
    struct core_spare_report r[4];
    begin();
    stands_by(2);
    walks[0].log[0] = '\0';
    for (int i = 0; i < PATIENCE; i++) {
        struct peermsg beat = {.type = PEERMSG_STATUS,
                               .stamp = {.attempt = 1, .seq = 1000 + (uint64_t)i},
                               .status = {.life = LIFE_RUNNING}};
        cr_expect_eq(spares(r), 1);
        hears(&walks[0], &beat);
        passes(&walks[0], S);
    }
    assert_said(&walks[0], "spare 2 (host2): no message from it for 15s");
    cr_expect_eq(spares(r), 0);
    lose_letters();
}

Test(core_spare, one_with_a_notice_leaves)
{
    begin();
    stands_by(2);
    says_goodbye(2);
    assert_said(&walks[0], "spare 2 (host2) leaves");
    lose_node_1();
    assert_not_said(&walks[0], "is called");
}

/* A new supervisor of node 1 comes first. The spare was called in vain, and is told so. */
Test(core_spare, the_first_hello_wins)
{
    begin();
    stands_by(2);
    lose_node_1();
    comes_as_node_1(400, 0);
    assert_said(&walks[0], "is replaced by");
    says_goodbye(2);
    comes_as_node_1(500, 0);
    assert_acts(&walks[0], "9: standby -1");
    assert_not_said(&walks[0], "refused");
    stands_by(2);
    assert_did(&walks[0], "22: standby -1");
}

/* The spare that the returning node was faster than can be called to another place. */
Test(core_spare, one_that_was_called_in_vain_is_called_again)
{
    struct core_spare_report r[4];
    begin();
    stands_by(2);
    lose_node_1();
    comes_as_node_1(400, 0);
    cr_assert_eq(spares(r), 1);
    cr_expect_eq(r[0].place, -1);
    tells(CONN_FIRST + 9, &(struct peermsg){.type = PEERMSG_BYE, .stamp = {.attempt = 1}});
    assert_did(&walks[0], "22: standby 1");
    lose_letters();
}

/* Kubernetes makes the pod of node 1 anew, when a spare has its place already. */
Test(core_spare, a_new_supervisor_of_a_taken_place_stands_by)
{
    struct core_spare_report r[4];
    begin();
    stands_by(2);
    lose_node_1();
    says_goodbye(2);
    comes_as_node_1(500, 0);
    comes_as_node_1(600, 0);
    assert_acts(&walks[0], "9: standby -1");
    stands_by(1);
    assert_did(&walks[0], "21: standby -1");
    cr_assert_eq(spares(r), 1);
    cr_expect_eq(r[0].number, 1);
}

/* The supervisor that was given up knows the number of the attempt. */
Test(core_spare, a_former_node_is_no_spare)
{
    begin();
    stands_by(2);
    lose_node_1();
    comes_as_node_1(8, 1);
    assert_said(&walks[0], "refused: node 1 (host1) is no longer part of the job");
    comes_as_node_1(500, 0);
    comes_as_node_1(8, 1);
    assert_said(&walks[0], "was replaced by");
    assert_did_not(&walks[0], "standby");
}

/* A copied command line, while the node of that number has never been lost. */
Test(core_spare, a_twin_is_no_spare)
{
    begin();
    comes_as_node_1(600, 0);
    assert_did_not(&walks[0], "standby");
    assert_said(&walks[0], "says that it is this node, too");
}

Test(core_spare, the_newer_of_two_with_one_number_counts)
{
    struct core_spare_report r[4];
    struct peermsg second = hello(2, 900);
    second.hello.stands_by = 1;
    begin();
    stands_by(2);
    tells(SPARE_CONN + 5, &second);
    assert_did(&walks[0], "25: standby -1");
    assert_said(&walks[0], "refused: two spares with rank 2: host2");
    cr_expect_eq(spares(r), 1);
    beats(2);
    assert_acts(&walks[0], "");
}

/* Each node saves on its own disk, which a spare does not have. The spares stand by on. */
Test(core_spare, none_is_called_without_the_saves)
{
    begin_with(true);
    for (int i = 0; i < WALK_NODES; i++)
        saves(&walks[i], 0, 10, 0);
    for (int i = WALK_NODES - 1; i >= 0; i--) {
        written(&walks[i], EV_PREPARED);
        deliver();
    }
    written(&walks[0], EV_COMMITTED);
    deliver();
    stands_by(2);
    stands_by(3);
    lose_node_1();
    assert_said(&walks[0],
                "no spare is called: the nodes do not share checkpoint.dir, so no spare has "
                "the save of step 10; only a pchrun with the disk of node 1 can take");
    comes_as_node_1(500, 0);
    assert_said(&walks[0], "only the same disk can take this place");
    assert_not_said(&walks[0], "no spare is called");
    beats(2);
    assert_acts(&walks[0], "22: standby -1");
    comes_with_the_saves(501);
    assert_said(&walks[0], "is replaced by");
    lose_letters();
}

/* Nothing is committed, so there is nothing that a spare could miss. */
Test(core_spare, is_called_when_there_are_no_saves)
{
    begin_with(true);
    stands_by(2);
    lose_node_1();
    assert_did(&walks[0], "22: standby 1");
    lose_letters();
}

Test(core_spare, numbers)
{
    begin();
    for (uint32_t number = 0; number < 6; number++) {
        stands_by(number);
        if (number >= WALK_NODES && number < WALK_NODES + 2)
            assert_not_said(&walks[0], "refused");
        else
            assert_said(&walks[0], "refused");
    }
    struct peermsg node = hello(2, 700);
    tells(CONN_FIRST + 9, &node);
    assert_said(&walks[0], "refused: node rank 2 (host2) is out of range: the job has 2 nodes");
}

/* Node 0 began another attempt, and this spare has not heard of it. The job needs it as node 1. */
Test(core_spare, one_with_the_number_of_a_node_that_was_not_replaced)
{
    struct core_spare_report r[4];
    begin();
    stands_by(1);
    assert_said(&walks[0], "refused: node 1 (host1) stands by, and no other supervisor has");
    cr_expect_eq(spares(r), 0);
    lose_letters();
}

Test(core_spare, a_job_without_spares_takes_none)
{
    begin_two();
    stands_by(1);
    assert_said(&walks[0], "refused: node rank 1 (host1) is out of range");
    lose_letters();
}

/* It joins before the job has begun, and ends with it. */
Test(core_spare, ends_with_the_job)
{
    lose_letters();
    for (int i = 0; i < WALK_NODES; i++) {
        struct core_params p = params_of(i, WALK_NODES, 1);
        p.replace_wait_ns = 60 * S;
        p.spares = 2;
        walk_begin(&p);
    }
    stands_by(3);
    assert_did(&walks[0], "23: standby -1");
    meet();
    for (int i = 0; i < WALK_NODES; i++) {
        started(&walks[i], 0);
        attaches(&walks[i], 0, i, WALK_NODES);
    }
    deliver();
    walks[0].acts[0] = '\0';
    gone(&walks[0], 0);
    ends(&walks[0], 7 << 8);
    passes(&walks[0], S);
    deliver();
    assert_did(&walks[1], "SIGTERM to");
    assert_did_not(&walks[0], "over");
    gone(&walks[1], 0);
    ends(&walks[1], SIGTERM);
    deliver();
    assert_did(&walks[0], "23: standby -1; over with 7");
    assert_did(&walks[0], "exit 7 failed");
    lose_letters();
}

/* Node 0's machine stood still: it does not know how long the spare was silent. */
Test(core_spare, is_not_blamed_for_a_pause_of_node_0)
{
    struct core_spare_report r[4];
    begin();
    stands_by(2);
    now += 600 * S;
    feed(&walks[0], (struct event){.type = EV_TIMER});
    cr_expect_eq(spares(r), 1);
    lose_letters();
}

/* --- before the first start ---
 *
 * Of 60 s to join, a tenth is the time after which a spare is called for a node that is missing. */

#define ILL "gpu3: Xid 79"

static void begin_joining(int replace_max, bool checks)
{
    lose_letters();
    for (int i = 0; i < WALK_NODES; i++) {
        struct core_params p = params_of(i, WALK_NODES, 1);
        p.replace_wait_ns = 40 * S;
        p.replace_max = replace_max;
        p.spares = 2;
        p.checks_health = checks && i == 1;
        str_copy(p.host, sizeof p.host, i ? "hostb" : "hosta");
        walk_begin(&p);
    }
}

/* So long node 0 hears nothing but the heartbeats of a spare. */
static void beats_for(int number, int seconds)
{
    for (int i = 0; i < seconds; i++) {
        beats(number);
        passes(&walks[0], S);
    }
}

static void says_that_it_waits(void)
{
    tells(CONN_FIRST + 9, &(struct peermsg){.type = PEERMSG_STATUS,
                                            .stamp = {.attempt = 1, .seq = 1},
                                            .status = {.life = LIFE_WAITING, .expected = 1}});
}

static void joins_as_node_1(uint64_t incarnation)
{
    comes_as_node_1(incarnation, 0);
    says_that_it_waits();
}

static void says_ill(int illness)
{
    feed(&walks[1], (struct event){.type = EV_CHECKED, .illness = illness ? ILL : NULL});
    deliver();
}

/* Node 0 is awake whenever it wants to be. */
static void waits_for(int64_t time)
{
    for (int64_t until = now + time; now < until;)
        wake(&walks[0]);
}

/* Both nodes have joined, and hear each other. */
static void both_wait_for(int seconds)
{
    for (int i = 0; i < seconds; i++) {
        passes(&walks[1], S);
        passes(&walks[0], S);
        steps_are_read(&walks[1]);
        deliver();
    }
}

Test(core_spare, is_called_for_a_node_that_does_not_join)
{
    begin_joining(10, false);
    stands_by(2);
    beats_for(2, 5);
    assert_did_not(&walks[0], "standby 1");
    beats_for(2, 1);
    assert_did(&walks[0], "22: standby 1");
    assert_said(&walks[0],
                "spare 2 (host2) is called to the place of node 1, which has not joined");
    says_goodbye(2);
    joins_as_node_1(500);
    assert_did(&walks[0], "start");
    cr_expect_eq(report_of(&walks[0]).generation, 0);
    lose_letters();
}

Test(core_spare, the_place_of_a_missing_node_is_taken)
{
    begin_joining(10, false);
    stands_by(2);
    beats_for(2, 6);
    says_goodbye(2);
    comes_as_node_1(500, 0);
    assert_said(&walks[0], "the place of node 1, which had not joined, is taken by host1");
    comes_as_node_1(600, 0); /* node 1 itself, late */
    assert_acts(&walks[0], "9: standby -1");
    stands_by(1);
    assert_did(&walks[0], "21: standby -1");
    comes_as_node_1(8, 1); /* it has joined before, and was given up */
    assert_said(&walks[0], "refused: node 1 (host1) was replaced by");
    lose_letters();
}

/* Node 1 comes after the call, and before the spare. */
Test(core_spare, a_late_node_takes_its_own_place)
{
    begin_joining(10, false);
    stands_by(2);
    beats_for(2, 6);
    says_goodbye(2);
    joins_as_node_1(8);
    assert_did(&walks[0], "start");
    tells(CONN_FIRST + 3, &(struct peermsg){0});
    struct peermsg called = hello(1, 500);
    tells(SPARE_CONN + 4, &called);
    assert_acts(&walks[0], "24: standby -1");
    lose_letters();
}

/* It comes late itself: the time of the missing node is over already. */
Test(core_spare, one_that_begins_late_is_called_for_a_missing_node)
{
    begin_joining(10, false);
    waits_for(30 * S);
    stands_by(3);
    waits_for(S);
    assert_did(&walks[0], "23: standby 1");
    lose_letters();
}

/* Node 1 was there, and its connection broke. It gets as much time as at first. */
Test(core_spare, a_node_that_comes_back_in_time)
{
    begin_joining(10, true);
    meet();
    stands_by(2);
    beats_for(2, 10);
    steps_are_read(&walks[1]);
    deliver();
    line_closes(&walks[0], false);
    walks[0].acts[0] = '\0';
    beats_for(2, 4);
    assert_did_not(&walks[0], "standby 1");
    beats_for(2, 3);
    assert_did(&walks[0], "22: standby 1");
    /* the same supervisor, before the spare */
    comes_as_node_1(8, 1);
    assert_not_said(&walks[0], "refused");
    assert_said(&walks[0], "is back");
    lose_letters();
}

Test(core_spare, no_spare_is_called_when_no_replacement_is_left)
{
    begin_joining(0, false);
    stands_by(2);
    beats_for(2, 59);
    assert_did_not(&walks[0], "standby 1");
    beats_for(2, 1);
    assert_did(&walks[0], "exit 125 not_started");
    assert_said(&walks[0], "1 of 2 nodes did not join within 1m: node 1");
    lose_letters();
}

Test(core_spare, is_called_for_an_unhealthy_node_at_once)
{
    begin_joining(10, true);
    stands_by(2);
    meet();
    says_ill(true);
    assert_did(&walks[1], "exit 45 unhealthy");
    assert_said(&walks[1], "end: hostb is not healthy: " ILL);
    assert_did_not(&walks[0], "exit");
    assert_said(&walks[0], "node 1 (hostb): it is not healthy: " ILL);
    assert_said(&walks[0], "node 1 (hostb) is lost: the job waits up to 1m for its replacement "
                           "(cluster.join_timeout)");
    assert_said(&walks[0], "spare 2 (host2) is called to the place of node 1");
    says_goodbye(2);
    comes_as_node_1(500, 0);
    assert_said(&walks[0], "node 1 (hostb) is replaced by host1");
    says_that_it_waits();
    assert_did(&walks[0], "start");
    lose_letters();
}

/* A check may take longer than a join. From its answer on the replacement has its whole time. */
Test(core_spare, an_unhealthy_node_that_is_not_replaced)
{
    begin_joining(10, true);
    meet();
    both_wait_for(50);
    says_ill(true);
    walks[0].log[0] = '\0';
    waits_for(39 * S);
    assert_did_not(&walks[0], "exit");
    waits_for(S);
    assert_did(&walks[0], "exit 42 unhealthy");
    assert_said(&walks[0],
                "node 1: hostb is not healthy: " ILL "; start the job without this host");
    assert_said(&walks[0], "; no other node has taken its place");
    lose_letters();
}

Test(core_spare, an_unhealthy_node_ends_the_job_when_no_replacement_is_left)
{
    begin_joining(0, true);
    stands_by(2);
    meet();
    says_ill(true);
    assert_did(&walks[0], "exit 42 unhealthy");
    assert_did_not(&walks[0], "standby 1");
    lose_letters();
}

/* The same supervisor, which has not heard the refusal, takes no place again. */
Test(core_spare, an_unhealthy_node_that_is_back)
{
    begin_joining(10, true);
    meet();
    says_ill(true);
    comes_as_node_1(8, 1);
    assert_said(&walks[0],
                "refused: node 1 (host1) is no longer part of the job: it is not healthy: " ILL);
    assert_said(&walks[0], "the job still waits for its nodes");
    lose_letters();
}

static void cannot_start(uint64_t seq)
{
    struct peermsg word = {.type = PEERMSG_STATUS,
                           .stamp = {.attempt = 1, .seq = seq},
                           .status = {.life = LIFE_FAILED},
                           .cause = {.fault = FAULT_START, .node = 1, .rank = -1, .code = 125}};
    str_copy(word.cause.text, sizeof word.cause.text, "no such directory");
    tells(CONN_FIRST + 9, &word);
}

/* The node itself ends the job with its reason, which may be one of every node. */
Test(core_spare, a_spare_that_cannot_start_makes_room_for_the_next)
{
    begin_joining(10, false);
    stands_by(2);
    stands_by(3);
    for (int i = 0; i < 6; i++) {
        beats(3);
        beats_for(2, 1);
    }
    says_goodbye(2);
    comes_as_node_1(500, 0);
    cannot_start(1);
    assert_said(&walks[0], "node 1 (host1): it cannot start: no such directory");
    assert_did(&walks[0], "23: standby 1");
    assert_did_not(&walks[0], "exit");
    begin_joining(10, false);
    stands_by(2);
    comes_as_node_1(500, 0);
    cannot_start(1);
    assert_did_not(&walks[0], "standby 1");
    assert_said(&walks[0], "ending: not_started: node 1: no such directory");
    lose_letters();
}

/* It is a replacement, also in the first generation. */
Test(core_spare, a_spare_that_cannot_execute_its_command_makes_room_for_the_next)
{
    begin_joining(10, true);
    stands_by(2);
    stands_by(3);
    meet();
    says_ill(true);
    says_goodbye(2);
    joins_as_node_1(500);
    assert_did(&walks[0], "start");
    started(&walks[0], 0);
    cannot_start(2);
    assert_said(&walks[0], "node 1 (host1): it cannot start: no such directory");
    assert_did(&walks[0], "23: standby 1");
    assert_did_not(&walks[0], "exit");
    lose_letters();
}

/* The spare is node 1 from its HELLO on. A later loss has a wait of its own. */
Test(core_spare, the_wait_before_the_start_is_over_with_it)
{
    begin_joining(10, true);
    stands_by(2);
    meet();
    says_ill(true);
    says_goodbye(2);
    joins_as_node_1(500);
    started(&walks[0], 0);
    attaches(&walks[0], 0, 0, WALK_NODES);
    for (int i = 0; i < 90; i++) {
        tells(CONN_FIRST + 9, &(struct peermsg){.type = PEERMSG_STATUS,
                                                .stamp = {.attempt = 1, .seq = 2 + (uint64_t)i},
                                                .status = {.life = LIFE_RUNNING, .expected = 1}});
        passes(&walks[0], S);
    }
    tells(CONN_FIRST + 9, &(struct peermsg){.type = PEERMSG_BYE, .stamp = {.attempt = 1}});
    assert_said(&walks[0], "node 1 (host1) is lost: the job waits up to 40s");
    assert_did_not(&walks[0], "exit");
    lose_letters();
}

/* As without spares. The called spare hears of the end. */
Test(core_spare, a_notice_while_a_spare_is_called)
{
    begin_joining(10, false);
    stands_by(2);
    beats_for(2, 6);
    assert_did(&walks[0], "22: standby 1");
    terminated(&walks[0]);
    for (int i = 0; i < 5; i++)
        passes(&walks[0], S);
    assert_did(&walks[0], "exit 42 preempted");
    assert_did(&walks[0], "22: standby -1; over with 42");
    lose_letters();
}

/* The job resumes from a save on the disk of the missing node. No place is vacant, so that node
 * joins as usual. */
Test(core_spare, none_is_called_for_a_missing_node_without_its_saves)
{
    lose_letters();
    struct core_params p = params_of(0, WALK_NODES, 1);
    p.replace_wait_ns = 40 * S;
    p.replace_max = 10;
    p.spares = 2;
    p.has_record = true;
    p.resume_step = 10;
    walk_begin(&p);
    stands_by(2);
    beats_for(2, 30);
    assert_did_not(&walks[0], "standby 1");
    comes_with_the_saves(8);
    says_that_it_waits();
    assert_did(&walks[0], "start");
    lose_letters();
}

/* Of a vacant place the time to join is over. The replacement has joined in its own time, and
 * node 0 has not heard yet where it stands. */
Test(core_spare, a_replacement_that_joins_after_the_time_to_join)
{
    begin_joining(10, true);
    meet();
    both_wait_for(20);
    says_ill(true);
    assert_said(&walks[0], "the job waits up to 40s for its replacement (cluster.replace_wait)");
    walks[0].log[0] = '\0';
    waits_for(30 * S);
    assert_said(&walks[0], "of 2, 70 s so far (cluster.replace_wait in 10s)");
    comes_as_node_1(500, 0);
    assert_said(&walks[0], "node 1 (hostb) is replaced by host1");
    assert_not_said(&walks[0], "did not join");
    says_that_it_waits();
    assert_did(&walks[0], "start");
    lose_letters();
}

/* Node 0's status has the wait, until the place is taken. A node that is missing is none of it. */
Test(core_spare, the_wait_before_the_start_is_reported)
{
    begin_joining(10, true);
    cr_expect_eq(report_of(&walks[0]).wait.since, 0);
    meet();
    passes(&walks[0], 2 * S);
    int64_t at = now;
    says_ill(true);
    stands_by(2);
    struct core_wait wait = report_of(&walks[0]).wait;
    cr_expect(wait.since == at && wait.until == 60 * S + at - 2 * S);
    cr_expect(wait.nvacant == 1 && wait.vacant[0].node == 1 && wait.vacant[0].since == at);
    cr_expect_str_eq(wait.vacant[0].host, "hostb");
    comes_as_node_1(500, 0);
    cr_expect_eq(report_of(&walks[0]).wait.since, 0);
    lose_letters();
}

static void ends_within(int64_t time)
{
    for (int64_t until = now + time; now < until && !strstr(walks[0].acts, "exit");) {
        wake(&walks[0]);
        steps_are_read(&walks[0]);
        lose_letters();
    }
}

static void says_that_it_is_gone(void)
{
    tells(CONN_FIRST + 9, &(struct peermsg){.type = PEERMSG_STATUS,
                                            .stamp = {.attempt = 1, .seq = 1},
                                            .status = {.life = LIFE_GONE, .expected = 1}});
}

/* Node 0 tells the nodes that come late of the notice. This one is the node itself. */
Test(core_spare, a_missing_node_that_joins_after_the_notice)
{
    begin_joining(10, false);
    stands_by(2);
    beats_for(2, 6);
    terminated(&walks[0]);
    passes(&walks[0], S);
    comes_as_node_1(8, 0);
    says_that_it_is_gone();
    assert_not_said(&walks[0], "refused");
    ends_within(30 * S);
    assert_did(&walks[0], "exit 42 preempted");
}

/* And this one is the spare that was called before the notice. */
Test(core_spare, a_called_spare_that_joins_after_the_notice)
{
    begin_joining(10, true);
    stands_by(2);
    meet();
    says_ill(true);
    says_goodbye(2);
    terminated(&walks[0]);
    passes(&walks[0], S);
    comes_as_node_1(500, 0);
    says_that_it_is_gone();
    assert_not_said(&walks[0], "refused");
    ends_within(30 * S);
    assert_did(&walks[0], "exit 42 preempted");
}

/* The wait of the first loss still has 10 s. The replacement's connection breaks once. */
Test(core_spare, a_replacement_whose_connection_breaks_after_the_time_to_join)
{
    begin_joining(10, true);
    meet();
    both_wait_for(20);
    says_ill(true);
    waits_for(30 * S);
    comes_as_node_1(500, 0);
    walks[0].log[0] = '\0';
    feed(&walks[0],
         (struct event){.type = EV_PEER_DOWN, .peer = {.conn = CONN_FIRST + 9, .why = "it broke"}});
    assert_not_said(&walks[0], "did not join");
    lose_letters();
}

/* Both nodes joined in time, and node 1 still checks its health. Its connection breaks once. */
Test(core_spare, a_connection_that_breaks_during_a_check_after_the_time_to_join)
{
    begin_joining(10, true);
    meet();
    both_wait_for(70);
    assert_not_said(&walks[0], "did not join");
    line_closes(&walks[0], false);
    assert_not_said(&walks[0], "did not join");
    walks[0].log[0] = '\0';
    for (int i = 0; i < 12; i++)
        passes(&walks[0], S);
    assert_said(&walks[0], "not_started: 1 of 2 nodes did not join again within ");
    lose_letters();
}
