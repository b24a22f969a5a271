/* SPDX-License-Identifier: Apache-2.0
 * See node.h. The table at the end of this file says which event is taken in which state; an event
 * that a state does not know is logged and ignored.
 */
#include "core/node.h"

#include "base/clock.h"
#include "base/str.h"
#include "core/verdict.h"
#include "wire/gate.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

void node_init(struct node *node, const struct core_params *params, struct out *out)
{
    node->params = params;
    node->out = out;
    node->is_tree_empty = true;
    node->leave_at = node->end_deadline = CLOCK_NEVER;
    node->notice.deadline = CLOCK_NEVER;
    node->commit_step = node->resumed_step = params->resume_step;
    ranks_init(&node->ranks, params->expected_procs);
    round_init(&node->round, &node->ranks, out);
    uplink_init(&node->uplink, out);
}

static const char *const state_names[NODE__COUNT] = {
    [NODE_WAITING] = "waiting", [NODE_RUNNING] = "running", [NODE_STOPPING] = "stopping",
    [NODE_LEAVING] = "leaving", [NODE_DONE] = "done",
};

const char *node_state_name(const struct node *node)
{
    bool is_saving = node->state == NODE_RUNNING && !node->round.is_closed;
    return is_saving ? "saving" : state_names[node->state];
}

/* The only way from one state to another. */
static void enter(struct node *node, enum node_state state)
{
    out_log(node->out, LOG_DEBUG, "node", "%s -> %s", state_names[node->state], state_names[state]);
    node->state = state;
    node->is_dirty = true;
    out_simple(node->out, ACT_STATE);
}

/* --- the end --- */

static void leave(struct node *node)
{
    if (node->is_alone)
        uplink_bye(&node->uplink);
    enter(node, NODE_DONE);
    out_act(node->out,
            &(struct action){
                .type = ACT_EXIT,
                .exit = {.outcome = node->outcome, .code = node->exit_code, .text = node->why}});
}

void node_check_gone(struct node *node)
{
    if (node->state != NODE_STOPPING || (node_has_work(node) && !node->has_given_up))
        return;
    ladder_stop(&node->ladder);
    enter(node, NODE_LEAVING);
    if (node->is_alone || node->may_leave)
        leave(node);
}

struct ending {
    enum outcome outcome;
    int exit_code;
    const char *why;
    enum peer_manner manner;
    int64_t deadline;
};

/* Why the job ends is said at the end; and here, where the end may take its time. */
static void log_ending(struct node *node, const struct ending *ending)
{
    bool has_others = node->params->nnodes > 1 && !node->uplink.is_member;
    bool was_started = node->nrunning > 0 && ending->outcome != OUTCOME_NOT_STARTED;
    out_log(node->out,
            ending->outcome == OUTCOME_COMPLETED || !(has_others || was_started) ? LOG_DEBUG
                                                                                 : LOG_NOTICE,
            "ending", "%s: %s", verdict_name(ending->outcome), ending->why);
}

static void stop(struct node *node, const struct ending *ending)
{
    if (node->state >= NODE_STOPPING)
        return;
    log_ending(node, ending);
    node->outcome = ending->outcome;
    node->exit_code = ending->exit_code;
    str_copy(node->why, sizeof node->why, ending->why);
    node->end_deadline = ending->deadline;
    struct ladder_times times = node_times(node);
    int sig = node->grace.is_live ? node->grace.signal : SIGTERM;
    if (ending->manner == MANNER_ASK)
        sig = node->params->save_signal;
    /* Everybody leaves long before it: it only guards against a chief that hangs. */
    node->leave_at = times.now + 2 * (times.exit_wait + times.term_wait + times.kill_wait) +
                     node->params->heartbeat_timeout_ns;
    if (ending->deadline != CLOCK_NEVER)
        node->leave_at += ending->deadline - times.now;
    round_end(&node->round);
    if (node->nstarting > 0 || node->nrunning > 0)
        ladder_start(&node->ladder, ending->manner, sig, &times);
    enter(node, NODE_STOPPING);
    node_sweep_if_last(node);
    ladder_limit(&node->ladder, times.now, times.deadline);
    node_check_gone(node);
}

/* There is no chief to ask. */
static void stop_alone(struct node *node, enum outcome outcome, int code, const char *why)
{
    node->is_alone = true;
    if (node->state == NODE_LEAVING) {
        leave(node);
        return;
    }
    struct ending ending = {.outcome = outcome,
                            .exit_code = verdict_code(&node->params->exit, outcome, code),
                            .why = why,
                            .manner = MANNER_STOP,
                            .deadline = node->notice.deadline};
    stop(node, &ending);
}

static void chief_lost(struct node *node)
{
    char why[320];
    bool has_notice = node->grace.is_live || node->notice.is_live;
    if (node->state >= NODE_STOPPING) {
        stop_alone(node, OUTCOME_UNKNOWN, 0, "");
    } else if (!node->uplink.was_welcome && node->grace.is_live) {
        stop_alone(node, OUTCOME_PREEMPTED, 0, "the notice came before the job was joined");
    } else if (!node->uplink.was_welcome) {
        snprintf(why, sizeof why, "could not join the job: %.280s", node->uplink.why);
        stop_alone(node, OUTCOME_NOT_STARTED, EXIT_OWN_ERROR, why);
    } else {
        snprintf(why, sizeof why, "node 0 is lost: %.280s", node->uplink.why);
        stop_alone(node, has_notice ? OUTCOME_PREEMPTED_UNSAVED : OUTCOME_NODE_LOST, 0, why);
    }
}

void node_record_fault(struct node *node, const struct node_fault *fault)
{
    if (node->fault.kind != FAULT_NONE || node->state > NODE_RUNNING)
        return;
    node->fault = *fault;
    node->fault.at = node->out->now;
    node->is_dirty = true;
}

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

/* Before the join there may be nobody to tell of a notice; nothing was started, so we just leave.
 * But the chief is told if that takes no longer than coming back would: it would take us for lost.
 */
static int64_t leave_unjoined_at(const struct node *node)
{
    const struct grace *g = &node->grace;
    if (node->uplink.was_welcome || !g->is_live || node->state != NODE_WAITING)
        return CLOCK_NEVER;
    int64_t latest = g->deadline - grace_margin(g->deadline - g->at);
    bool is_connected = node->uplink.conn != CONN_NONE;
    return is_connected ? latest : clock_min(latest, g->at + node->params->reconnect_ns);
}

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
        stop_alone(node, OUTCOME_FAILED, fault.code, fault.text);
}

static void on_signal(struct node *node, const struct event *event)
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

/* --- the chief --- */

static void take_commit(struct node *node, const struct peermsg *msg)
{
    if (msg->order.commit_step <= node->commit_step || msg->order.start == 0)
        return;
    node->commit_step = msg->order.commit_step;
    node->commit_at = node->out->now;
    out_step(node->out, ACT_COMMITTED, node->commit_step);
}

static void take_notice_of_job(struct node *node, const struct peer_order *order)
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

static void start(struct node *node)
{
    node->nstarting = node->params->children;
    enter(node, NODE_RUNNING);
    out_act(node->out, &(struct action){.type = ACT_START,
                                        .start = {.attempt = node->uplink.attempt,
                                                  .generation = node->uplink.generation,
                                                  .resume_step = node->commit_step}});
}

static void take_order(struct node *node, const struct peermsg *msg)
{
    const struct peer_order *order = &msg->order;
    node->is_dirty = true;
    node->has_roster = order->roster;
    take_commit(node, msg);
    take_notice_of_job(node, order);
    if (order->start && node->state == NODE_WAITING && order->end == END_NONE)
        start(node);
    round_order(&node->round, &msg->stamp, order);
    if (order->end >= END_STOP && node->state < NODE_STOPPING) {
        struct ending ending = {
            .outcome =
                order->outcome < OUTCOME__COUNT ? (enum outcome)order->outcome : OUTCOME_UNKNOWN,
            .exit_code = verdict_of_order(order->outcome, order->exit_code),
            .why = order->why,
            .manner = (enum peer_manner)order->manner,
            .deadline = order->end_left_ms < 0 ? CLOCK_NEVER
                                               : node->out->now + order->end_left_ms * NS_PER_MS};
        stop(node, &ending);
    }
    node->may_leave = node->may_leave || order->end == END_LEAVE;
    if (node->may_leave && node->state == NODE_LEAVING)
        leave(node);
}

void node_message(struct node *node, const struct peermsg *msg)
{
    if (node->state == NODE_DONE)
        return;
    switch (uplink_message(&node->uplink, msg)) {
    case UPLINK_ORDER:
        take_order(node, msg);
        break;
    case UPLINK_WELCOME:
        if (node->uplink.is_member)
            out_log(node->out, LOG_INFO, "join", "%s as node %d of %d",
                    node->state == NODE_WAITING ? "joined" : "back", node->params->node_rank,
                    node->params->nnodes);
        if (node->state == NODE_WAITING) /* whatever our own record says: one step for all */
            node->commit_step = node->resumed_step = msg->welcome.resume_step;
        node->has_roster = false;
        node->is_dirty = true;
        break;
    case UPLINK_REFUSED:
        if (node->uplink.was_welcome)
            chief_lost(node); /* it has given us up */
        else
            stop_alone(node, OUTCOME_NOT_STARTED, EXIT_OWN_ERROR, node->uplink.why);
        break;
    case UPLINK_LOST:
        chief_lost(node);
        break;
    default:
        break;
    }
}

static void on_start(struct node *node, const struct event *event)
{
    uplink_start(&node->uplink);
}

static void on_chief_up(struct node *node, const struct event *event)
{
    uplink_up(&node->uplink);
}

static void on_chief_down(struct node *node, const struct event *event)
{
    if (event->peer.conn == CONN_CHIEF)
        uplink_down(&node->uplink, event->peer.why ? event->peer.why : "closed");
}

/* --- time --- */

/* Who still has processes ends them first, however long the others have been gone. */
static int64_t leave_at(const struct node *node)
{
    return ladder_is_active(&node->ladder) ? CLOCK_NEVER : node->leave_at;
}

void node_timers(struct node *node)
{
    if (node->state == NODE_DONE)
        return;
    node_climb(node);
    if (node->state == NODE_DONE)
        return;
    round_release_own(&node->round, node->out->now - node->params->commit_wait_ns);
    if (node->settle_at && node->settle_at <= node->out->now) {
        node->settle_at = 0;
        node->is_dirty = true;
    }
    enum uplink_event event = uplink_timers(&node->uplink);
    if (event == UPLINK_LOST || leave_unjoined_at(node) <= node->out->now)
        chief_lost(node);
    else if (event == UPLINK_STEPS)
        out_simple(node->out, ACT_READ_STEPS);
    if (node->state < NODE_DONE && leave_at(node) <= node->out->now)
        leave(node);
}

int64_t node_wake_at(const struct node *node)
{
    if (node->state == NODE_DONE)
        return CLOCK_NEVER;
    int64_t wake = clock_min(node_climb_at(node), uplink_wake_at(&node->uplink));
    wake = clock_min(wake, leave_unjoined_at(node));
    wake = clock_min(wake, node_settles_at(node));
    int64_t since = round_own_since(&node->round);
    if (since != CLOCK_NEVER)
        wake = clock_min(wake, since + node->params->commit_wait_ns);
    return clock_min(wake, leave_at(node));
}

void node_forgive(struct node *node, int64_t away)
{
    ladder_forgive(&node->ladder, away);
    uplink_forgive(&node->uplink);
}

/* --- the table --- */

typedef void handler(struct node *node, const struct event *event);

#define FROM(state) (1U << (state))
#define ALIVE       (FROM(NODE_RUNNING) | FROM(NODE_STOPPING) | FROM(NODE_LEAVING))
#define ANY         (FROM(NODE_WAITING) | ALIVE)

static const struct {
    handler *handle;
    unsigned states; /* in which it can happen */
    const char *name;
} table[EV__COUNT] = {
    [EV_START] = {on_start, FROM(NODE_WAITING), "start"},
    [EV_SIGNAL] = {on_signal, ANY, "signal"},
    [EV_CHILD_STARTED] = {node_on_child_started, ALIVE, "child started"},
    [EV_CHILD_FAILED] = {node_on_child_failed, ALIVE, "child failed to start"},
    [EV_CHILD_EXITED] = {node_on_child_exited, ALIVE, "child exited"},
    [EV_TREE_EMPTY] = {node_on_tree_empty, ANY, "tree empty"},
    [EV_PROC_ATTACHED] = {node_on_proc_attached, ALIVE, "process attached"},
    [EV_PROC_MESSAGE] = {node_on_proc_message, ALIVE, "process message"},
    [EV_PROC_GONE] = {node_on_proc_gone, ALIVE, "process gone"},
    [EV_STEPS] = {node_on_steps, ANY, "steps"},
    [EV_PREPARED] = {node_on_prepared, ALIVE, "record written"},
    [EV_CHIEF_UP] = {on_chief_up, ANY, "chief connected"},
    [EV_PEER_DOWN] = {on_chief_down, ANY, "connection closed"},
};

void node_event(struct node *node, const struct event *event)
{
    if (node->state == NODE_DONE || !table[event->type].handle)
        return;
    if (!(table[event->type].states & FROM(node->state))) {
        out_log(node->out, LOG_ERROR, "bug", "event \"%s\" in state \"%s\"",
                table[event->type].name, state_names[node->state]);
        return;
    }
    table[event->type].handle(node, event);
}
