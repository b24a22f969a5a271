/* SPDX-License-Identifier: Apache-2.0
 * The signals that a node gets, and the notices: its own and the job's. See node_parts.h.
 */
#include "core/node_parts.h"

#include "base/clock.h"
#include "base/str.h"
#include "core/verdict.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

/* --- notices --- */

static void log_notice_change(struct node *node, enum grace_change change)
{
    const struct grace *g = &node->grace;
    double left = (double)(g->deadline - node->out->now) / (double)NS_PER_S;
    if (change == GRACE_NEW || change == GRACE_SOONER)
        out_log(node->out, LOG_NOTICE, "notice", "%s%s%s, %.3g s left", g->source,
                g->text[0] ? " " : "", g->text, left);
    else if (change == GRACE_HURRIED && g->hurry == HURRY_SAVE)
        out_log(node->out, LOG_NOTICE, "notice", "%s again: save now, train no further", g->source);
    else if (change == GRACE_HURRIED)
        out_log(node->out, LOG_NOTICE, "notice", "%s a third time: stop", g->source);
}

/* Whether there is anything to save depends on the steps: they are read before the notice is told,
 * or said to be known. */
static void read_steps_for_notice(struct node *node)
{
    node->notice_wants_steps = true;
    out_simple(node->out, ACT_READ_STEPS);
}

void node_take_notice(struct node *node, enum grace_change change)
{
    if (change == GRACE_SAME)
        return;
    log_notice_change(node, change);
    node->is_dirty = true;
    if (change == GRACE_NEW)
        read_steps_for_notice(node);
    out_simple(node->out, ACT_STATE);
    ladder_limit(&node->ladder, node->out->now, node->grace.deadline);
    if (node->grace.hurry == HURRY_STOP)
        ladder_hurry(&node->ladder, node->out->now);
}

void node_take_notice_of_job(struct node *node, const struct peer_order *order)
{
    bool was_live = node->notice.is_live;
    int64_t deadline =
        order->has_notice ? node->out->now + grace_clamp(order->notice_left_ns) : CLOCK_NEVER;
    node->notice.is_live = order->has_notice;
    node->notice.node_rank = order->notice_node;
    node->notice.deadline = deadline;
    if (!was_live && !order->has_notice)
        return;
    if (!was_live && !node->grace.is_live)
        read_steps_for_notice(node);
    char text[64] = "";
    if (order->has_notice)
        str_addf(text, sizeof text, "preemption notice on node %d", order->notice_node);
    out_act(node->out, &(struct action){.type = ACT_NOTICE,
                                        .notice = {.text = text, .deadline_ns = deadline}});
}

/* Before the join there may be nobody to tell of a notice; nothing was started, so we just leave.
 * But the chief is told if that takes no longer than coming back would: it would take us for lost.
 */
int64_t node_leave_unjoined_at(const struct node *node)
{
    const struct grace *g = &node->grace;
    if (node->uplink.was_welcome || !g->is_live || node->state != NODE_WAITING)
        return CLOCK_NEVER;
    int64_t latest = g->deadline - grace_margin(g->deadline - g->at);
    bool is_connected = node->uplink.conn != CONN_NONE;
    return is_connected ? latest : clock_min(latest, g->at + node->params->reconnect_ns);
}

/* --- signals --- */

static bool ends_programs(int number)
{
    return number == SIGHUP || number == SIGINT || number == SIGQUIT || number == SIGTERM;
}

/* Who signals a group and its leader sends us the same signal twice, and means it once. */
static bool is_repeat(struct node *node, int number)
{
    int64_t *at = &node->forwarded_at[number];
    if (ends_programs(number) && *at && node->out->now - *at <= GRACE_SAME_NS)
        return true;
    *at = node->out->now;
    return false;
}

/* A signal that ends programs ends a pchrun that has not started any yet. */
static void forward(struct node *node, int number)
{
    if (node->state != NODE_WAITING) {
        if (!is_repeat(node, number))
            out_signal(node->out, number, TARGET_CHILDREN);
        return;
    }
    if (!ends_programs(number))
        return;
    struct node_fault fault = {.kind = FAULT_SIGNAL, .rank = -1, .code = EXIT_BY_SIGNAL + number};
    snprintf(fault.text, sizeof fault.text, "signal %d (%s) came before the start", number,
             strsignal(number));
    node_record_fault(node, &fault);
    if (!node->uplink.was_welcome)
        node_stop_alone(node, OUTCOME_FAILED, fault.code, fault.text);
}

void node_on_signal(struct node *node, const struct event *event)
{
    int number = event->signal.number;
    const struct signal_plan *plan = &node->params->signals[number];
    switch (plan->rule) {
    case SIGNAL_PREEMPT:
        node_take_notice(node, grace_signal(&node->grace, number, node->out->now, plan->grace_ns));
        break;
    case SIGNAL_CHECKPOINT:
        node->checkpoint_asked++;
        node->is_dirty = true;
        break;
    case SIGNAL_FORWARD:
        /* The keyboard's signals have reached the commands already, if there are any; and what one
         * of them sent us is not sent back. */
        if (event->signal.from == SIGNAL_FROM_OUTSIDE || node->state == NODE_WAITING)
            forward(node, number);
        break;
    case SIGNAL_IGNORE:
        break;
    }
}
