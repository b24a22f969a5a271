/* SPDX-License-Identifier: Apache-2.0
 * test_uplink: which generation a node speaks for, whose connection to the chief came back in the
 * middle of a restart in place; and how long it waits to be admitted.
 */
#include "base/clock.h"
#include "core/node/uplink.h"

#include <criterion/criterion.h>
#include <string.h>

#define TIMEOUT (15 * NS_PER_S)

static const struct core_params params = {
    .node_rank = 1, .nnodes = 2, .attempt = 1, .heartbeat_timeout_ns = TIMEOUT};
static struct out out;
static struct uplink uplink;
static struct peermsg sent; /* the last message */

static void act(void *shell, const struct action *action)
{
    if (action->type == ACT_SEND)
        sent = *action->peer.msg;
}

static void set_up(void)
{
    memset(&out, 0, sizeof out);
    out.params = &params;
    out.act = act;
    out.now = NS_PER_S;
    uplink_init(&uplink, &out);
    uplink_start(&uplink);
}

TestSuite(uplink, .init = set_up);

static enum uplink_event hear(enum peermsg_type type, uint32_t generation, uint64_t seq)
{
    struct peermsg msg = {.type = type,
                          .stamp = {.attempt = 1, .generation = generation, .seq = seq}};
    if (type == PEERMSG_WELCOME)
        msg.welcome.incarnation = 9;
    return uplink_message(&uplink, &msg);
}

static uint32_t generation_of_status(void)
{
    struct peermsg msg = {.type = PEERMSG_STATUS};
    uplink_send_status(&uplink, &msg);
    cr_assert_eq(sent.type, PEERMSG_STATUS);
    return sent.stamp.generation;
}

/* A node that joins a restarted job begins with its present generation. */
Test(uplink, the_first_welcome_tells_the_generation)
{
    uplink_up(&uplink);
    cr_assert_eq(hear(PEERMSG_WELCOME, 3, 0), UPLINK_WELCOME);
    cr_expect_eq(generation_of_status(), 3);
}

/* Between the welcome and the order the node still reports its saves of the last generation: the
 * chief must not take that for a save of the next one. */
Test(uplink, a_later_generation_begins_with_its_order)
{
    uplink_up(&uplink);
    cr_assert_eq(hear(PEERMSG_WELCOME, 0, 0), UPLINK_WELCOME);
    cr_assert_eq(hear(PEERMSG_ORDER, 0, 1), UPLINK_ORDER);
    uplink.may_renew = true;
    uplink_down(&uplink, "cut", false);
    uplink_up(&uplink);
    cr_assert_eq(hear(PEERMSG_WELCOME, 1, 0), UPLINK_WELCOME);
    cr_expect_eq(generation_of_status(), 0);
    cr_assert_eq(hear(PEERMSG_ORDER, 1, 2), UPLINK_ORDER);
    cr_expect_eq(generation_of_status(), 1);
}

static int64_t beats(void)
{
    struct peermsg msg = {.type = PEERMSG_STATUS};
    uplink.beat = BEAT_READY;
    uplink_send_status(&uplink, &msg);
    cr_assert_eq(sent.status.sent_ns, out.now);
    return out.now;
}

static void answers(int64_t sent_ns)
{
    uplink_message(&uplink, &(struct peermsg){.type = PEERMSG_ORDER,
                                              .stamp = {.attempt = 1},
                                              .order = {.echo_ns = sent_ns}});
}

/* The lease runs from the sending of the heartbeat, in whatever order the answers come. */
Test(uplink, a_late_answer_does_not_renew_the_lease)
{
    uplink_up(&uplink);
    cr_assert_eq(hear(PEERMSG_WELCOME, 0, 0), UPLINK_WELCOME);
    cr_expect_eq(uplink_lost_at(&uplink), out.now + TIMEOUT);
    int64_t first = beats();
    out.now += NS_PER_S;
    int64_t second = beats();
    out.now += 10 * NS_PER_S;
    answers(second);
    cr_expect_eq(uplink_lost_at(&uplink), second + TIMEOUT);
    answers(first);
    answers(out.now + 1); /* it was never sent */
    cr_expect_eq(uplink_lost_at(&uplink), second + TIMEOUT);
    cr_expect_eq(hear(PEERMSG_ORDER, 0, 1), UPLINK_ORDER);
    cr_expect_eq(uplink_lost_at(&uplink), second + TIMEOUT, "an order that answers nothing");
}

/* A WELCOME after a reconnect answers the HELLO. */
Test(uplink, a_late_welcome_does_not_renew_the_lease)
{
    uplink_up(&uplink);
    cr_assert_eq(hear(PEERMSG_WELCOME, 0, 0), UPLINK_WELCOME);
    out.now += NS_PER_S;
    uplink_down(&uplink, "cut", false);
    uplink_up(&uplink);
    int64_t hello = out.now;
    out.now += NS_PER_S;
    cr_assert_eq(hear(PEERMSG_WELCOME, 0, 0), UPLINK_WELCOME);
    cr_expect_eq(uplink_lost_at(&uplink), hello + TIMEOUT);
}

Test(uplink, a_lease_that_ends_while_messages_come_is_said_so)
{
    uplink_up(&uplink);
    cr_assert_eq(hear(PEERMSG_WELCOME, 0, 0), UPLINK_WELCOME);
    out.now += TIMEOUT;
    cr_assert_eq(hear(PEERMSG_ORDER, 0, 1), UPLINK_ORDER);
    uplink_lose(&uplink);
    cr_expect(strstr(uplink.why,
                     "its messages come, but answer nothing that this node sent in the last 15s"),
              "%s", uplink.why);
}

/* Node 0 may need time before it can say whether it admits us. */
Test(uplink, who_hears_that_node_0_is_there_waits_on)
{
    uplink_up(&uplink);
    out.now += 30 * NS_PER_S;
    cr_assert_lt(uplink_lost_at(&uplink), out.now);
    cr_assert_eq(hear(PEERMSG_ORDER, 0, 0), UPLINK_NOTHING);
    cr_expect_eq(uplink_lost_at(&uplink), out.now);
}
