/* SPDX-License-Identifier: Apache-2.0
 *
 * spare: a supervisor that stands by. It ends with the job, leaves for a notice, notices that node
 * 0 is lost, and takes a place once.
 */
#include "core/spare/spare.h"

#include "base/clock.h"
#include "base/str.h"
#include "unit.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>

#define S NS_PER_S

static struct spare *spare;
static char acts[1024];
static struct peermsg last; /* that it sent */
static int64_t now;

static void act(void *shell, const struct action *a)
{
    (void)shell;
    switch (a->type) {
    case ACT_SEND:
        last = *a->peer.msg;
        str_addf(acts, sizeof acts, "%s; ", peermsg_name(last.type));
        break;
    case ACT_TAKE:
        str_addf(acts, sizeof acts, "take %d; ", a->place);
        break;
    case ACT_EXIT:
        str_addf(acts, sizeof acts, "exit %d %s; ", a->exit.code, a->exit.text);
        break;
    case ACT_CONNECT:
        str_addf(acts, sizeof acts, "connect; ");
        break;
    case ACT_CLOSE:
        str_addf(acts, sizeof acts, "close; ");
        break;
    default:
        break;
    }
}

static void assert_acts(const char *expected)
{
    cr_assert_str_eq(acts, expected);
    acts[0] = '\0';
}

static void feed(struct event event)
{
    event.now = now;
    spare_handle(spare, &event);
}

static void begin(void)
{
    struct core_params p = {.node_rank = 3,
                            .nnodes = 2,
                            .spares = 2,
                            .pid = 77,
                            .incarnation = 5,
                            .join_timeout_ns = 60 * S,
                            .heartbeat_interval_ns = 2 * S,
                            .heartbeat_timeout_ns = 20 * S,
                            .reconnect_ns = 5 * S,
                            .exit = {.preempted = 42, .node_lost = 42, .stopped = 46}};
    p.signals[SIGTERM].rule = SIGNAL_PREEMPT;
    str_copy(p.identity, sizeof p.identity, "run7");
    now = 1000 * S;
    spare = spare_new(&p, act, NULL);
    feed((struct event){.type = EV_START});
    assert_acts("connect; ");
}

static void finish(void)
{
    spare_free(spare);
}

TestSuite(spare, .fini = finish);

static void hears(struct peermsg msg)
{
    msg.stamp.attempt = 4;
    feed((struct event){.type = EV_PEER_MESSAGE, .peer = {.conn = CONN_CHIEF, .msg = &msg}});
}

static void hears_place(int place)
{
    hears((struct peermsg){.type = PEERMSG_STANDBY, .standby = {.place = place}});
}

static void passes(int64_t time)
{
    for (int64_t until = now + time; now < until;) {
        now = clock_min(until, spare_wake_at(spare));
        feed((struct event){.type = EV_TIMER});
    }
}

static void goes_down(bool has_ended)
{
    feed((struct event){.type = EV_PEER_DOWN,
                        .peer = {.conn = CONN_CHIEF, .why = "reset", .has_ended = has_ended}});
}

static void begin_standing(void)
{
    begin();
    feed((struct event){.type = EV_CHIEF_UP});
    hears_place(-1);
    assert_acts("HELLO; ");
}

Test(spare, says_that_it_stands_by)
{
    begin();
    feed((struct event){.type = EV_CHIEF_UP});
    cr_assert(last.type == PEERMSG_HELLO && last.hello.stands_by == 1);
    cr_assert(last.hello.node_rank == 3 && last.hello.nnodes == 2 && last.hello.incarnation == 5);
    cr_assert(last.stamp.attempt == 0 && last.hello.pid == 77);
    cr_assert_str_eq(last.hello.job, "run7");
}

/* It stands by for a day, because node 0 answers. */
Test(spare, beats_as_long_as_it_is_answered)
{
    begin_standing();
    for (int i = 0; i < 43200; i++) {
        passes(2 * S);
        assert_acts("STATUS; ");
        cr_assert(last.status.wants_reply == 1 && last.stamp.attempt == 4);
        cr_assert_eq(last.stamp.seq, (uint64_t)i + 1 + 1);
        hears_place(-1);
    }
}

Test(spare, takes_a_place_once)
{
    begin_standing();
    hears_place(1);
    assert_acts("BYE; close; take 1; ");
    hears_place(1);
    passes(100 * S);
    assert_acts("");
    cr_assert_eq(spare_wake_at(spare), CLOCK_NEVER);
}

/* Node 0's own place is never given away, and no job has more places than nodes. */
Test(spare, takes_no_place_that_cannot_be)
{
    begin_standing();
    hears_place(0);
    hears_place(2);
    assert_acts("");
}

Test(spare, ends_with_the_job)
{
    begin_standing();
    hears((struct peermsg){.type = PEERMSG_STANDBY,
                           .standby = {.place = -1,
                                       .is_over = 1,
                                       .outcome = OUTCOME_FAILED,
                                       .exit_code = 7,
                                       .why = "rank 1"}});
    assert_acts("BYE; close; exit 7 rank 1; ");
}

Test(spare, ends_with_a_completed_job)
{
    begin_standing();
    hears((struct peermsg){
        .type = PEERMSG_STANDBY,
        .standby = {.place = -1, .is_over = 1, .outcome = OUTCOME_COMPLETED, .why = "done"}});
    assert_acts("BYE; close; exit 0 done; ");
}

/* An outcome that this pchrun does not know is no success. */
Test(spare, an_unknown_end_is_no_success)
{
    begin_standing();
    hears((struct peermsg){.type = PEERMSG_STANDBY,
                           .standby = {.place = -1, .is_over = 1, .outcome = 99, .why = "?"}});
    assert_acts("BYE; close; exit 125 ?; ");
}

Test(spare, leaves_for_a_notice)
{
    struct notice n = {.type = NOTICE_TERMINATE, .source = "gce", .text = "soon"};
    begin_standing();
    feed((struct event){.type = EV_NOTICE, .notice = &n});
    assert_acts("BYE; close; exit 42 this spare leaves for its notice: gce soon; ");
}

Test(spare, stays_for_other_notices)
{
    begin_standing();
    for (enum notice_type t = NOTICE_CHECKPOINT; t < NOTICE__COUNT; t++)
        feed((struct event){.type = EV_NOTICE, .notice = &(struct notice){.type = t}});
    feed((struct event){.type = EV_NOTICE,
                        .notice = &(struct notice){.type = NOTICE_TERMINATE, .is_repeated = true}});
    assert_acts("");
}

Test(spare, leaves_for_a_signal)
{
    begin_standing();
    feed((struct event){.type = EV_SIGNAL, .signal = {.number = SIGWINCH}});
    assert_acts("");
    feed((struct event){.type = EV_SIGNAL, .signal = {.number = SIGTERM}});
    cr_assert(str_starts(acts, "BYE; close; exit 42 "), "%s", acts);
}

Test(spare, is_interrupted)
{
    begin_standing();
    feed((struct event){.type = EV_SIGNAL, .signal = {.number = SIGINT}});
    cr_assert(str_starts(acts, "BYE; close; exit 130 "), "%s", acts);
}

Test(spare, is_stopped_by_a_user)
{
    begin();
    feed((struct event){.type = EV_STOP_ASKED, .stop = {.why = "stopped by ann"}});
    assert_acts("exit 46 stopped by ann; ");
}

Test(spare, notices_silence)
{
    begin_standing();
    passes(20 * S - 1);
    acts[0] = '\0';
    passes(1);
    assert_acts("BYE; close; exit 42 node 0 is lost: no message from it for 20s; ");
}

/* The time in which this machine did not run is not held against node 0. */
Test(spare, forgives_its_own_pause)
{
    begin_standing();
    now += 3600 * S;
    feed((struct event){.type = EV_TIMER});
    assert_acts("STATUS; ");
    passes(19 * S);
    hears_place(-1);
    passes(10 * S);
    cr_assert_not(strstr(acts, "exit"), "%s", acts);
}

Test(spare, connects_again)
{
    begin_standing();
    goes_down(false);
    passes(S / 2);
    assert_acts("connect; ");
    feed((struct event){.type = EV_CHIEF_UP});
    cr_assert(strstr(acts, "HELLO"), "%s", acts);
    hears_place(-1);
    acts[0] = '\0';
    passes(18 * S);
    cr_assert_not(strstr(acts, "exit"), "%s", acts);
}

Test(spare, gives_up_a_connection_that_stays_closed)
{
    begin_standing();
    goes_down(false);
    for (int i = 0; i < 10 && !strstr(acts, "exit"); i++) {
        passes(S);
        goes_down(false);
    }
    cr_assert(strstr(acts, "exit 42 node 0 is lost: reset"), "%s", acts);
    cr_assert_leq(now, 1005 * S);
}

Test(spare, sees_the_end_of_node_0)
{
    begin_standing();
    goes_down(true);
    assert_acts("exit 42 node 0 is lost: reset; ");
}

Test(spare, hears_the_end_of_node_0)
{
    begin_standing();
    hears((struct peermsg){.type = PEERMSG_BYE});
    assert_acts("BYE; close; exit 42 node 0 is lost: its supervisor has reported its own end; ");
}

Test(spare, waits_for_node_0_for_the_join_timeout)
{
    begin();
    passes(60 * S - 1);
    cr_assert_not(strstr(acts, "exit"), "%s", acts);
    passes(1);
    cr_assert(strstr(acts, "exit 125 could not join the job: there is no connection"), "%s", acts);
}

Test(spare, is_refused)
{
    begin();
    feed((struct event){.type = EV_CHIEF_UP});
    hears((struct peermsg){.type = PEERMSG_REFUSED, .refused = {"other settings"}});
    assert_acts("HELLO; BYE; close; exit 125 other settings; ");
}

/* Node 0 was started again, and knows nothing of this spare. */
Test(spare, is_refused_after_it_stood_by)
{
    begin_standing();
    goes_down(false);
    feed((struct event){.type = EV_CHIEF_UP});
    hears((struct peermsg){.type = PEERMSG_REFUSED, .refused = {"of attempt 4"}});
    assert_acts("HELLO; STATUS; BYE; close; exit 42 node 0 refuses this spare: of attempt 4; ");
}

/* Another spare has come with its number. */
Test(spare, is_refused_while_it_stands_by)
{
    begin_standing();
    hears((struct peermsg){.type = PEERMSG_REFUSED, .refused = {"two spares with rank 3"}});
    assert_acts("BYE; close; exit 125 two spares with rank 3; ");
}
