/* SPDX-License-Identifier: Apache-2.0
 * The signals, requests and notices that a node gets, and the job's notice. See node_parts.h.
 */
#include "core/node/node_parts.h"

#include "base/clock.h"
#include "base/sigtext.h"
#include "base/str.h"
#include "core/common/verdict.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

/* --- notices --- */

/* When this node's own notice, which is live, is near. */
static int64_t own_near_at(const struct node *node)
{
    const struct grace_notice *first = grace_first(&node->grace);
    const struct core_params *p = node->params;
    if (node->state == NODE_WAITING && !grace_has_signal(&node->grace))
        return first->deadline - grace_plan_need(p->grace_ns, p->start_ns, p->save_ns);
    return grace_near_at(first->deadline, first->lead, p->grace_ns);
}

/* The chief knows a source's notice, and whether a rank had stepped before it. It tells this node
 * when the notice is near. */
static bool is_judged_by_chief(const struct node *node)
{
    const struct uplink *u = &node->uplink;
    bool is_heard = !u->is_given_up && node->out->now < uplink_mute_at(u);
    return node->notice.is_live && is_heard && !grace_has_signal(&node->grace);
}

bool node_notice_is_near(const struct node *node)
{
    const struct grace *g = &node->grace;
    if (node->is_notice_near || !g->is_live)
        return node->is_notice_near;
    if (g->hurry != HURRY_NONE)
        return true;
    return !is_judged_by_chief(node) && node->out->now >= own_near_at(node);
}

static void log_notice_change(struct node *node, enum grace_change change, int signal)
{
    const struct grace *g = &node->grace;
    if (change == GRACE_OVER) {
        out_log(node->out, LOG_NOTICE, "notice", "withdrawn: this node has no notice any more");
        return;
    }
    const struct grace_notice *n = grace_first(g);
    char left[32];
    if (change == GRACE_HURRIED && g->hurry == HURRY_SAVE)
        out_log(node->out, LOG_NOTICE, "notice", "%s again: saving now, without more training",
                SIGTEXT(signal));
    else if (change == GRACE_HURRIED)
        out_log(node->out, LOG_NOTICE, "notice", "third %s: giving up the save, stopping now",
                SIGTEXT(signal));
    else
        out_log(node->out, LOG_NOTICE, "notice", "%s%s%s, %s left%s", n->label.source,
                n->label.text[0] ? " " : "", n->label.text,
                str_about(n->deadline - node->out->now, left, sizeof left),
                change == GRACE_LATER ? " now" : "");
}

/* The steps decide whether there is anything to save. So the node reads them before it reports
 * its notice, or says that it knows the job's notice. */
static void read_steps_for_notice(struct node *node)
{
    node->gen.notice_wants_steps = true;
    out_simple(node->out, ACT_READ_STEPS);
}

void node_take_notice(struct node *node, enum grace_change change, int signal)
{
    node->is_dirty = true; /* the chief learns of a signal, even if its deadline is a later one */
    if (change == GRACE_SAME)
        return;
    log_notice_change(node, change, signal);
    if (change == GRACE_NEW)
        read_steps_for_notice(node);
    out_simple(node->out, ACT_STATE);
    if (node->grace.is_live) {
        ladder_limit(&node->gen.ladder, node->out->now, grace_deadline(&node->grace));
        /* Only a timer that comes late shows that this machine stood still. */
        uplink_beat_alone(&node->uplink, node->gen.ranks.n > 0);
    }
    if (node->grace.hurry == HURRY_STOP)
        ladder_hurry(&node->gen.ladder, node->out->now);
}

void node_take_notice_of_job(struct node *node, const struct peer_order *order)
{
    bool was_live = node->notice.is_live;
    int64_t deadline =
        order->has_notice ? node->out->now + grace_clamp(order->notice_left_ns) : CLOCK_NEVER;
    node->is_notice_near = order->is_near;
    node->notice = (struct core_notice){.is_live = order->has_notice,
                                        .node_rank = order->notice_node,
                                        .deadline = deadline,
                                        .label = order->notice};
    if (!was_live && !order->has_notice)
        return;
    if (order->has_notice)
        ladder_limit(&node->gen.ladder, node->out->now, deadline);
    uplink_beat_alone(&node->uplink, order->has_notice && node->gen.ranks.n > 0);
    if (!was_live && !node->grace.is_live)
        read_steps_for_notice(node);
    char text[192] = "";
    if (order->has_notice)
        str_addf(text, sizeof text, "preemption notice on node %d: %s%s%s", order->notice_node,
                 order->notice.source, order->notice.text[0] ? " " : "", order->notice.text);
    out_act(node->out, &(struct action){.type = ACT_NOTICE,
                                        .notice = {.text = text, .deadline_ns = deadline}});
}

int64_t node_serves_at(const struct node *node)
{
    bool waits = node->gen.end.restarts && node->params->restart.after_notice;
    return waits ? grace_deadline(&node->grace) : CLOCK_NEVER;
}

void node_serve_notices(struct node *node)
{
    grace_serve(&node->grace, node->out->now);
    node->is_dirty = true;
}

static void ask_for_save(struct node *node)
{
    node->checkpoint_asked++;
    node->is_dirty = true;
}

int64_t node_saves_for_repeated_at(const struct node *node)
{
    bool can_save = node->state == NODE_RUNNING;
    return can_save ? grace_save_at(&node->grace, node->save_ns) : CLOCK_NEVER;
}

void node_save_for_repeated(struct node *node)
{
    grace_saved(&node->grace, node->save_ns, node->out->now);
    out_log(node->out, LOG_NOTICE, "notice",
            "the deadline of a repeated notice is near: save and go on");
    ask_for_save(node);
}

/* Before the join nothing was started, so a node with a notice leaves. First it tries to tell the
 * chief, for as long as a reconnect may take: the chief may already count this node. A deadline
 * that leaves more than `grace` is far: the job may still start and train before it. */
static int64_t leave_unjoined_at(const struct node *node)
{
    const struct grace *g = &node->grace;
    if (node->uplink.was_welcome || !g->is_live || node->state != NODE_WAITING)
        return CLOCK_NEVER;
    int64_t deadline = grace_deadline(g);
    int64_t latest = deadline - grace_margin(deadline - g->at);
    int64_t told = g->at + node->params->reconnect_ns;
    bool is_plan = own_near_at(node) > told && g->hurry == HURRY_NONE;
    return clock_min(latest, is_plan ? own_near_at(node) : told);
}

/* The platform takes the machine at the deadline. A chief that lives gives up an open save before
 * that, and says so. A deadline that passed before the end came does not count. */
static int64_t give_up_chief_at(const struct node *node)
{
    const struct grace *g = &node->grace;
    if (!g->is_live || node->params->restart.after_notice || node->state < NODE_RUNNING)
        return CLOCK_NEVER;
    int64_t deadline = grace_deadline(g), mute = uplink_mute_at(&node->uplink);
    int64_t at = deadline - grace_margin(deadline - g->at) / 2;
    if (node->state >= NODE_STOPPING && at <= node->gen.stopped_at)
        return CLOCK_NEVER;
    return at > mute ? at : mute;
}

int64_t node_leaves_chief_at(const struct node *node)
{
    return clock_min(give_up_chief_at(node), leave_unjoined_at(node));
}

/* --- requests --- */

void node_on_save_asked(struct node *node, const struct event *event)
{
    ask_for_save(node);
}

/* The chief ends the job on every node. A node that has never joined ends alone. A node that stops
 * its processes already has nothing to save. */
void node_on_stop_asked(struct node *node, const struct event *event)
{
    if (node->stopped_by[0] || (node->state >= NODE_STOPPING && !node->gen.end.restarts))
        return;
    if (event->stop.saves && node->uplink.was_welcome && node->state <= NODE_RUNNING) {
        out_log(node->out, LOG_NOTICE, "checkpoint", "every rank saves, then the job ends: %s",
                event->stop.why);
        node->stop_asked++;
        node->is_dirty = true;
        return;
    }
    str_copy(node->stopped_by, sizeof node->stopped_by, event->stop.why);
    node_tell_final(node);
    if (!node->uplink.was_welcome)
        node_stop_alone(node, OUTCOME_STOPPED, 0, node->stopped_by);
}

void node_take_stop_answer(struct node *node, const struct peer_order *order)
{
    if (order->stop_answered != node->stop_asked || node->stops_given_up == node->stop_asked)
        return;
    node->stops_given_up = node->stop_asked;
    snprintf(node->why_given_up, sizeof node->why_given_up,
             "the job was to save and end, but goes on: %.140s; pchctl stop ends it without a save",
             order->why[0] ? order->why : "it was restarted in place");
    out_log(node->out, LOG_WARN, "stop", "%s", node->why_given_up);
    out_simple(node->out, ACT_STATE);
}

/* --- sources --- */

/* A notice that comes and goes must not cause one save after another, nor fill the log. */
static void take_advice(struct node *node)
{
    enum { SAID_MAX = 10 };
    const struct grace_notice *n = &node->grace.notices[node->grace.n - 1];
    bool saves = n->type == NOTICE_CHECKPOINT && node->state == NODE_RUNNING;
    bool is_again = node->advised_at && node->out->now - node->advised_at < NODE_ADVICE_NS;
    bool is_enough = saves && is_again && node->advised_again++ >= SAID_MAX;
    out_log(node->out, is_enough ? LOG_DEBUG : LOG_NOTICE, "notice", "%s %s%s", n->label.source,
            n->label.text[0] ? n->label.text : notice_type_name(n->type),
            !saves     ? ""
            : is_again ? "; the job has just saved for such a notice"
                       : ": save and go on");
    if (!saves || is_again)
        return;
    node->advised_at = node->out->now;
    node->advised_again = 0;
    ask_for_save(node);
}

void node_on_notice(struct node *node, const struct event *event)
{
    struct grace_left left = {node->params->grace_ns, node->params->is_guess};
    enum grace_change change = grace_notice(&node->grace, event->notice, node->out->now, left);
    if (change == GRACE_ADVICE)
        take_advice(node);
    else if (change == GRACE_PLAN)
        out_simple(node->out, ACT_STATE); /* node_save_for_repeated() asks for the save */
    else
        node_take_notice(node, change, 0);
}

/* --- signals --- */

/* A program that signals a group and its leader sends us one signal twice. */
static bool is_repeat(struct node *node, int number)
{
    int64_t *at = &node->forwarded_at[number];
    if (sigends(number) && *at && node->out->now - *at <= GRACE_SAME_NS)
        return true;
    *at = node->out->now;
    return false;
}

/* A signal that is sent during a start would miss the commands that are just starting. */
void node_forward(struct node *node)
{
    for (int number = 1; number <= 64 && node->gen.nstarting == 0 && node->gen.to_forward; number++)
        if (node->gen.to_forward & UINT64_C(1) << (number - 1)) {
            node->gen.to_forward &= ~(UINT64_C(1) << (number - 1));
            out_signal(node->out, number, TARGET_CHILDREN);
        }
}

/* Before the start there is no command, so a signal that ends programs ends pchrun. */
static void forward(struct node *node, int number)
{
    if (node->state != NODE_WAITING) {
        if (!is_repeat(node, number))
            node->gen.to_forward |= UINT64_C(1) << (number - 1);
        node_forward(node);
        return;
    }
    if (!sigends(number))
        return;
    struct node_fault fault = {.kind = FAULT_SIGNAL, .rank = -1, .code = EXIT_BY_SIGNAL + number};
    snprintf(fault.text, sizeof fault.text, "signal %d (%s) came before the start", number,
             strsignal(number));
    node_record_fault(node, &fault);
    if (!node->uplink.was_welcome)
        node_stop_alone(node, OUTCOME_INTERRUPTED, fault.code, fault.text);
}

void node_on_signal(struct node *node, const struct event *event)
{
    int number = event->signal.number;
    const struct signal_plan *plan = &node->params->signals[number];
    switch (plan->rule) {
    case SIGNAL_PREEMPT:
        node_take_notice(node,
                         grace_signal(&node->grace, number, node->out->now,
                                      (struct grace_left){plan->grace_ns, plan->is_guess}),
                         number);
        break;
    case SIGNAL_CHECKPOINT:
        ask_for_save(node);
        break;
    case SIGNAL_FORWARD:
        if (sigends(number)) {
            node->interrupted_at = node->out->now;
            node->interrupted_by = (uint8_t)number;
            node->is_dirty = true;
        }
        /* The terminal has already sent its signals to the commands. A signal that a command sent
         * us is not sent back. */
        if (event->signal.from == SIGNAL_FROM_OUTSIDE || node->state == NODE_WAITING)
            forward(node, number);
        break;
    case SIGNAL_IGNORE:
        break;
    }
}
