/* SPDX-License-Identifier: Apache-2.0
 * See node_state.h. The table at the end of this file lists the states that accept each event. An
 * event in any other state is logged and ignored.
 */
#include "core/node/node_parts.h"

#include "base/clock.h"
#include "base/str.h"
#include "core/common/slowness.h"
#include "core/common/verdict.h"

#include <stdio.h>

void node_init(struct node *node, const struct core_params *params, struct out *out)
{
    node->params = params;
    node->out = out;
    node->is_tree_empty = true;
    node->notice.deadline = CLOCK_NEVER;
    node->commit_step = node->resumed_step = params->resume_step;
    node->save_ns = params->save_ns;
    uplink_init(&node->uplink, out);
    watchdog_init(&node->watchdog, &node->gen.ranks, out);
    node_begin_generation(node);
}

enum node_state node_stands(const struct node *node)
{
    if (node->gen.end.restarts)
        return NODE_RESTARTING;
    bool is_saving = node->state == NODE_RUNNING && !node->gen.round.is_closed;
    return is_saving ? NODE_SAVING : node->state;
}

/* --- the chief --- */

/* The generation has ended for a notice to this node, and node 0 lets it go. */
static bool leaves_for_notice(const struct node *node)
{
    return node->gen.end.restarts && node->params->replace_wait_ns > 0 && node->grace.is_live &&
           verdict_is_preempted(node->gen.end.outcome);
}

static void chief_lost(struct node *node)
{
    char why[320];
    bool has_notice = node_notice_is_near(node);
    if (node->state >= NODE_STOPPING && !node->gen.end.restarts) {
        node_stop_alone(node, OUTCOME_UNKNOWN, 0, "");
    } else if (!node->uplink.was_welcome && node->grace.is_live) {
        node_stop_alone(node, OUTCOME_PREEMPTED, 0, "the notice came before the job was joined");
    } else if (node->gen.fault.kind == FAULT_UNFIT) {
        node_give_up_telling(node);
    } else if (!node->uplink.was_welcome) {
        snprintf(why, sizeof why, "could not join the job: %.280s", node->uplink.why);
        node_stop_alone(node, OUTCOME_NOT_STARTED, EXIT_OWN_ERROR, why);
    } else if (node->stopped_by[0]) {
        node_stop_alone(node, OUTCOME_STOPPED, 0, node->stopped_by);
    } else if (leaves_for_notice(node)) {
        str_copy(why, sizeof why, node->gen.end.why);
        node_stop_alone(node, node->gen.end.outcome, 0, why);
    } else if (has_notice && node->gen.wait.since) { /* node 0 lets it go, or is lost, too */
        node_stop_alone(node, OUTCOME_PREEMPTED_UNSAVED, 0,
                        "the notice came while the job waited for the replacement of a node");
    } else {
        snprintf(why, sizeof why, "%s: %.280s",
                 node->uplink.stood_still ? "this node ends" : "node 0 is lost", node->uplink.why);
        node_blame_chief(node);
        node_stop_alone(node, has_notice ? OUTCOME_PREEMPTED_UNSAVED : OUTCOME_NODE_LOST, 0, why);
    }
}

void node_break(struct node *node, int promise)
{
    struct node_fault fault = {.kind = FAULT_BROKEN, .rank = -1, .code = EXIT_OWN_ERROR};
    snprintf(fault.text, sizeof fault.text,
             "this is a fault of pchrun: promise %d of its design was broken, so nothing more is "
             "committed. Please report it at %s, with the lines \"bug\" of this node's log",
             promise, PCHRUN_BUGS);
    node_record_fault(node, &fault);
    if (!node->uplink.was_welcome)
        node_stop_alone(node, OUTCOME_FAILED, fault.code, fault.text);
}

static void take_commit(struct node *node, const struct peermsg *msg)
{
    if (msg->order.commit_step <= node->commit_step || msg->order.start == 0)
        return;
    node->commit_step = msg->order.commit_step;
    node->commit_at = node->out->now;
    out_act(node->out, &(struct action){.type = ACT_COMMITTED,
                                        .step = node->commit_step,
                                        .whole = msg->order.commit_whole});
}

static void start(struct node *node, uint16_t port)
{
    node->gen.nstarting = node->params->children;
    node->resumed_step = node->commit_step;
    watchdog_begin(&node->watchdog);
    node_enter(node, NODE_RUNNING);
    out_act(node->out, &(struct action){.type = ACT_START,
                                        .start = {.attempt = node->uplink.attempt,
                                                  .generation = node->uplink.generation,
                                                  .resume_step = node->commit_step,
                                                  .port = port}});
}

static struct node_ending ending_of(const struct node *node, const struct peer_order *order)
{
    struct node_ending ending = {
        .outcome = order->outcome < OUTCOME__COUNT ? (enum outcome)order->outcome : OUTCOME_UNKNOWN,
        .exit_code = node_own_code(node, (enum outcome)order->outcome,
                                   verdict_of_order(order->outcome, order->exit_code)),
        .manner = (enum peer_manner)order->manner,
        .deadline =
            order->end_left_ms < 0 ? CLOCK_NEVER : node->out->now + order->end_left_ms * NS_PER_MS,
        .restarts = order->restart};
    str_copy(ending.why, sizeof ending.why, order->why);
    return ending;
}

/* Comes before the start and each end: what the node opened for a measurement is closed by then. */
static void take_measure(struct node *node, const struct peer_measure *measure)
{
    bool is_new = measure->number != node->measure;
    if (!is_new && node->has_sent >= measure->begins)
        return;
    if (is_new)
        node->link = (struct peer_link){0};
    node->measure = measure->number;
    node->has_sent = measure->begins;
    out_act(node->out, &(struct action){.type = ACT_MEASURE, .measure = measure});
}

/* Normal: the answer to an earlier measurement comes late. */
static void on_measured(struct node *node, const struct event *event)
{
    if (event->link->number != node->measure)
        return;
    node->link = *event->link;
    node->is_dirty = true;
}

static void take_order(struct node *node, const struct peermsg *msg)
{
    const struct peer_order *order = &msg->order;
    if (node->generation != node->uplink.generation && node->state == NODE_LEAVING)
        node_renew(node);
    else if (node->generation != node->uplink.generation)
        out_log(node->out, LOG_ERROR, "bug", "generation %u begins in state \"%s\"",
                node->uplink.generation, node_state_name(node->state));
    node->is_dirty = true;
    take_measure(node, &order->measure);
    node->gen.has_roster = order->roster;
    take_commit(node, msg);
    if (order->save_ns)
        node->save_ns = grace_clamp(order->save_ns);
    node_take_notice_of_job(node, order);
    node_take_stop_answer(node, order);
    /* After a standstill the order may be older than the lease. */
    if (order->start && node->state == NODE_WAITING && order->end == END_NONE &&
        uplink_has_lease(&node->uplink))
        start(node, order->port);
    round_order(&node->gen.round, &msg->stamp, order);
    watchdog_order(&node->watchdog, order->examine);
    node->gen.own_ns = order->own_ns;
    slowness_judge(&node->gen.ranks, order->own_ns);
    if (order->end >= END_STOP) {
        struct node_ending ending = ending_of(node, order);
        if (!order->restart)
            node_stop_for_good(node, &ending);
        node_stop(node, &ending);
        node->uplink.may_renew = node->gen.end.restarts;
        node_take_cause(node, &msg->cause, &ending);
        node_take_wait(node, order);
        node_tell_final(node);
    }
    node->may_leave = node->may_leave || order->end == END_LEAVE;
    if (node->may_leave && node->state == NODE_LEAVING)
        node_leave(node);
}

/* Once: node 0 has written its record before the first WELCOME. */
static void seek_dir(struct node *node)
{
    if (!node->uplink.is_member || !node->params->shared_dir[0] || node->has_sought_dir)
        return;
    node->has_sought_dir = true;
    node->dir = DIR_LOOKS;
    out_act(node->out, &(struct action){.type = ACT_SEEK_DIR, .chief = node->uplink.chief});
}

static void on_dir_seen(struct node *node, const struct event *event)
{
    node->dir = event->is_other_dir ? DIR_OTHER : DIR_SAME;
    node->is_dirty = true;
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
        if (node->state == NODE_WAITING) { /* all resume from node 0's step, not their own */
            node->generation = node->uplink.generation;
            node->commit_step = node->resumed_step = msg->welcome.resume_step;
        }
        seek_dir(node);
        node->gen.has_roster = false;
        node->is_dirty = true;
        break;
    case UPLINK_REFUSED:
        if (node->uplink.was_welcome)
            chief_lost(node); /* node 0 has given this node up as lost */
        else
            node_stop_alone(node, OUTCOME_NOT_STARTED, EXIT_OWN_ERROR, node->uplink.why);
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
    node_check_health(node);
    uplink_start(&node->uplink);
}

static void on_chief_up(struct node *node, const struct event *event)
{
    uplink_up(&node->uplink);
}

static void on_chief_down(struct node *node, const struct event *event)
{
    if (event->peer.conn == CONN_CHIEF)
        uplink_down(&node->uplink, event->peer.why ? event->peer.why : "closed",
                    event->peer.has_ended && node->state != NODE_WAITING);
}

/* --- time --- */

/* A node that still has processes ends them first, even after leave_at. */
static int64_t leave_at(const struct node *node)
{
    return ladder_is_active(&node->gen.ladder) ? CLOCK_NEVER : node->gen.leave_at;
}

static int64_t waits_due_at(const struct node *node)
{
    return round_wait_due_at(&node->gen.round);
}

static void act_on_waits(struct node *node)
{
    round_act_on_waits(&node->gen.round);
}

/* The chief is silent for too long, or a notice leaves no time to wait for it. */
static int64_t loses_chief_at(const struct node *node)
{
    return clock_min(uplink_lost_at(&node->uplink), node_leaves_chief_at(node));
}

static void lose_chief(struct node *node)
{
    uplink_lose(&node->uplink);
    chief_lost(node);
}

static int64_t calls_at(const struct node *node)
{
    return uplink_calls_at(&node->uplink);
}

static void call(struct node *node)
{
    uplink_call(&node->uplink);
}

/* Every deadline of a node: the time, CLOCK_NEVER if it is not set; and the act that is due then.
 * An act that is done moves or clears its time. */
static const struct {
    int64_t (*at)(const struct node *node);
    void (*act)(struct node *node);
} deadlines[] = {
    {node_misses_notice_at, node_judge_those_who_left}, /* first: dead commands get no signal */
    {node_climb_at, node_climb},
    {waits_due_at, act_on_waits},
    {node_settles_at, node_settle},
    {node_serves_at, node_serve_notices},
    {node_saves_for_repeated_at, node_save_for_repeated},
    {node_watches_at, node_watch},
    {node_gives_up_telling_at, node_give_up_telling},
    {loses_chief_at, lose_chief},
    {calls_at, call},
    {node_says_wait_at, node_say_wait},
    {leave_at, node_leave},
};

void node_timers(struct node *node)
{
    for (size_t i = 0; i < ARRAY_LEN(deadlines) && node->state != NODE_DONE; i++)
        if (deadlines[i].at(node) <= node->out->now)
            deadlines[i].act(node);
}

int64_t node_wake_at(const struct node *node)
{
    int64_t wake = CLOCK_NEVER;
    for (size_t i = 0; i < ARRAY_LEN(deadlines) && node->state != NODE_DONE; i++)
        wake = clock_min(wake, deadlines[i].at(node));
    return wake;
}

void node_forgive(struct node *node, int64_t away)
{
    ladder_forgive(&node->gen.ladder, node->out->now, away);
    watchdog_forgive(&node->watchdog, away);
    uplink_forgive(&node->uplink);
}

/* --- the table --- */

typedef void handler(struct node *node, const struct event *event);

#define FROM(state) (1U << (state))
#define ALIVE       (FROM(NODE_RUNNING) | FROM(NODE_STOPPING) | FROM(NODE_LEAVING))
#define ANY         (FROM(NODE_WAITING) | ALIVE)

static const struct {
    handler *handle;
    unsigned states; /* the states that accept the event */
    const char *name;
} table[EV__COUNT] = {
    [EV_START] = {on_start, FROM(NODE_WAITING), "start"},
    [EV_SIGNAL] = {node_on_signal, ANY, "signal"},
    [EV_NOTICE] = {node_on_notice, ANY, "notice"},
    [EV_SAVE_ASKED] = {node_on_save_asked, ANY, "save asked for"},
    [EV_STOP_ASKED] = {node_on_stop_asked, ANY, "stop asked for"},
    [EV_CHILD_STARTED] = {node_on_child_started, ALIVE, "child started"},
    [EV_CHILD_FAILED] = {node_on_child_failed, ALIVE, "child failed to start"},
    [EV_CHILD_DYING] = {node_on_child_dying, ALIVE, "child dying"},
    [EV_CHILD_EXITED] = {node_on_child_exited, ALIVE, "child exited"},
    [EV_CHILD_BAD] = {node_on_child_bad, ALIVE, "child failed"},
    [EV_TREE_EMPTY] = {node_on_tree_empty, ANY, "tree empty"},
    [EV_PROC_ATTACHED] = {node_on_proc_attached, ALIVE, "process attached"},
    [EV_PROC_MESSAGE] = {node_on_proc_message, ALIVE, "process message"},
    [EV_PROC_GONE] = {node_on_proc_gone, ALIVE, "process gone"},
    [EV_PROC_UNATTACHED] = {node_on_proc_unattached, ALIVE, "process not attached"},
    [EV_PROC_LOST] = {node_on_proc_lost, ALIVE, "process lost"},
    [EV_STEPS] = {node_on_steps, ANY, "steps"},
    [EV_EXAMINED] = {node_on_examined, ANY, "examined"},
    [EV_PREPARED] = {node_on_prepared, ALIVE, "record written"},
    [EV_COMMITTED] = {node_on_committed, ALIVE, "commit written"},
    [EV_DIR_SEEN] = {on_dir_seen, ANY, "directory seen"},
    [EV_CHECKED] = {node_on_checked, ANY, "health checked"},
    [EV_MEASURED] = {on_measured, ANY, "network measured"},
    [EV_CHIEF_UP] = {on_chief_up, ANY, "chief connected"},
    [EV_PEER_DOWN] = {on_chief_down, ANY, "connection closed"},
};

void node_event(struct node *node, const struct event *event)
{
    if (node->state == NODE_DONE || !table[event->type].handle)
        return;
    if (!(table[event->type].states & FROM(node->state))) {
        out_log(node->out, LOG_ERROR, "bug", "event \"%s\" in state \"%s\"",
                table[event->type].name, node_state_name(node->state));
        return;
    }
    table[event->type].handle(node, event);
}
