/* SPDX-License-Identifier: Apache-2.0
 * The processes that remain on a node, and the way to its end. See node_parts.h.
 */
#include "core/node/node_parts.h"

#include "base/clock.h"
#include "base/str.h"
#include "core/common/cause.h"
#include "core/common/verdict.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

void node_enter(struct node *node, enum node_state state)
{
    out_log(node->out, LOG_DEBUG, "node", "%s -> %s", node_state_name(node->state),
            node_state_name(state));
    node->state = state;
    node->is_dirty = true;
    out_simple(node->out, ACT_STATE);
}

/* --- the processes that are left --- */

bool node_has_work(const struct node *node)
{
    bool has_leftovers = !node->is_tree_empty && node->params->leftovers == LEFTOVERS_KILL;
    return node->gen.nstarting > 0 || node->gen.nrunning > 0 || has_leftovers;
}

bool node_commands_have_ended(const struct node *node)
{
    return node->gen.nstarting == 0 && node->gen.nrunning == 0 &&
           node->gen.children[0].state == CHILD_ENDED;
}

int64_t node_settles_at(const struct node *node)
{
    bool settles = node_commands_have_ended(node) && node->gen.ranks.nconnected > 0;
    return settles && node->gen.settle_at ? node->gen.settle_at : CLOCK_NEVER;
}

bool node_is_settling(const struct node *node)
{
    return node_settles_at(node) != CLOCK_NEVER || node->gen.end_wants_steps;
}

bool node_is_finished(const struct node *node)
{
    return node_commands_have_ended(node) && !node_is_settling(node) &&
           (!node_has_work(node) || node->gen.has_given_up);
}

static int64_t node_deadline(const struct node *node)
{
    int64_t by_notice = clock_min(grace_deadline(&node->grace), node->notice.deadline);
    return clock_min(node->gen.end.deadline, by_notice);
}

/* A rank that returned by itself is done, even after a notice. But a rank that handles SIGTERM
 * itself may have ended because of the notice. */
bool node_rank_is_done(const struct node *node, const struct member *m)
{
    bool may_have_left = !m->is_shielded && grace_has_signal(&node->grace);
    return m->is_done || (m->has_returned && !may_have_left);
}

/* A rank of this node has called pch_done, and its process has not ended. */
static bool is_ending(const struct node *node, const struct member *m)
{
    const struct child *child = node_child_of(node, m->pid);
    return m->is_done && (m->slot >= 0 || (child && child->state == CHILD_RUNNING));
}

void node_name_those_who_stay(const struct node *node, struct peer_watch *ret)
{
    ret->behind_count = 0;
    for (int i = 0; i < node->gen.ranks.n; i++) {
        const struct member *m = &node->gen.ranks.members[i];
        if (!is_ending(node, m) || ret->behind_count++ > 0)
            continue;
        ret->behind_rank = m->rank;
        ret->behind_pid = m->pid;
    }
}

/* A command without such a rank may be a shell that is about to start another program. A shell that
 * died of the notice starts no further program. */
bool node_is_over(const struct node *node)
{
    const struct ranks *ranks = &node->gen.ranks;
    int ending = 0, running = 0;
    for (int i = 0; i < ranks->n; i++) {
        if (!node_rank_is_done(node, &ranks->members[i]))
            return false;
        ending += is_ending(node, &ranks->members[i]);
    }
    for (int i = 0; i < node->params->children; i++)
        running +=
            node->gen.children[i].state == CHILD_RUNNING && !node->gen.children[i].may_be_noticed;
    return ranks_are_complete(ranks) && node->gen.nstarting == 0 && running <= ending;
}

/* A command that died of the notice may have left behind a process that saves: that has until the
 * deadline. Until the chief has ended the job the node sends no signal. */
static bool may_save(const struct node *node)
{
    bool is_asked = node->gen.asked_with && ladder_is_active(&node->gen.ladder);
    return node->gen.died_asked && (node->state == NODE_RUNNING || is_asked);
}

void node_sweep_if_last(struct node *node)
{
    bool is_under_way = ladder_is_active(&node->gen.ladder) && node->gen.has_signalled_tree;
    if (may_save(node) || !node_commands_have_ended(node) || !node_has_work(node) || is_under_way ||
        node->state < NODE_RUNNING || node->state > NODE_STOPPING)
        return;
    node->gen.swept_at = node->out->now;
    ladder_sweep(&node->gen.ladder, node->out->now, node_deadline(node));
}

/* --- the end --- */

/* If there is a chief, it orders the end, so that all nodes exit with one code. */
static void tell_replaced(struct node *node)
{
    bool has_chief = node->may_leave && !node->is_alone;
    if (!has_chief)
        node_tell_final(node);
    if (has_chief || node->gen.fault.kind != FAULT_REPLACED ||
        !verdict_gives_way(node->gen.end.outcome))
        return;
    node_describe_fault(node, &node->gen.cause);
    node->gen.end.outcome = OUTCOME_FAILED;
    node->gen.end.exit_code = node->gen.fault.code;
    str_copy(node->gen.end.why, sizeof node->gen.end.why, node->gen.fault.text);
}

void node_leave(struct node *node)
{
    tell_replaced(node);
    /* A BYE says that no process is left here, so that a replacement may train. */
    bool says_bye = node->params->replace_wait_ns == 0 || !node->gen.has_given_up;
    if (node->is_alone && says_bye)
        uplink_bye(&node->uplink);
    (void)PROMISE(5, node->out,
                  node->gen.end.outcome == OUTCOME_COMPLETED || node->gen.end.exit_code != 0);
    (void)PROMISE(6, node->out, !node_has_work(node) || node->gen.has_given_up);
    node_enter(node, NODE_DONE);
    out_act(node->out, &(struct action){.type = ACT_EXIT,
                                        .exit = {.outcome = node->gen.end.outcome,
                                                 .code = node->gen.end.exit_code,
                                                 .text = node->gen.end.why}});
}

/* Before a restart the node also waits for attached processes outside its tree, and for an open
 * record. Otherwise both would last into the next generation. */
static bool has_more_to_end(const struct node *node)
{
    bool has_attached = node->gen.ranks.nconnected > 0 || node->gen.ranks.ncounting > 0;
    return node->gen.end.restarts && (has_attached || node->gen.round.is_writing);
}

/* Only the end after a last save counts. A leftover process that SIGKILL had to end would never
 * have ended, so the end of the commands counts. A command that got SIGKILL although the deadline
 * was not near proves nothing. */
static void note_end(struct node *node)
{
    const struct node_ending *end = &node->gen.end;
    bool is_left = end->manner == MANNER_LEAVE && end->outcome != OUTCOME_PREEMPTED_UNSAVED;
    bool is_cut = node->gen.has_killed && !node->gen.swept_at;
    int64_t gone_at = node->out->now;
    if (node->gen.has_killed)
        gone_at = is_cut ? node->gen.ladder.kill_by : node->gen.swept_at;
    if (!is_left || node->gen.has_given_up || gone_at > node->out->now ||
        gone_at <= node->gen.stopped_at)
        return;
    node->gen.end_ns = gone_at - node->gen.stopped_at;
    node->gen.end_cut = is_cut || node->gen.began_before;
}

void node_check_gone(struct node *node)
{
    bool has_more = node_has_work(node) || has_more_to_end(node);
    if (node->state != NODE_STOPPING || (has_more && !node->gen.has_given_up))
        return;
    ladder_stop(&node->gen.ladder);
    note_end(node);
    node_enter(node, NODE_LEAVING);
    if (node->gen.end.restarts)
        node_check_health(node);
    if (node->is_alone || node->may_leave)
        node_leave(node);
}

/* The reason is logged at the end, and also here, because stopping may take long. */
static void log_ending(struct node *node, const struct node_ending *ending)
{
    bool has_others = node->params->nnodes > 1 && !node->uplink.is_member;
    bool was_started = node->gen.nrunning > 0 && ending->outcome != OUTCOME_NOT_STARTED;
    /* Node 0 has already logged the restart. */
    bool is_told =
        ending->outcome == OUTCOME_COMPLETED || (ending->restarts && !node->uplink.is_member);
    out_log(node->out, is_told || !(has_others || was_started) ? LOG_DEBUG : LOG_NOTICE,
            ending->restarts ? "restart" : "ending", "%s: %s%s", verdict_name(ending->outcome),
            ending->why,
            ending->restarts ? "; node 0 decides whether the job restarts in place" : "");
}

/* The training is complete, but the processes of these ranks are cut short. */
static void name_those_who_stay(struct node *node)
{
    for (int i = 0; i < node->gen.ranks.n; i++) {
        const struct member *m = &node->gen.ranks.members[i];
        if (is_ending(node, m))
            out_log(node->out, LOG_WARN, "stop",
                    "rank %d (process %d) was done, but has not ended: pchrun ends it", m->rank,
                    m->pid);
    }
}

static bool any_is_ending(const struct node *node)
{
    for (int i = 0; i < node->gen.ranks.n; i++)
        if (is_ending(node, &node->gen.ranks.members[i]))
            return true;
    return false;
}

static void keep_ending(struct node *node, const struct node_ending *ending)
{
    const struct core_params *p = node->params;
    node->gen.end = *ending;
    /* Normally all nodes leave long before this; it guards only against a chief that hangs. */
    int64_t stop_ns = p->exit_wait_ns + p->term_wait_ns + p->kill_wait_ns;
    node->gen.leave_at = node->out->now + 2 * stop_ns + p->heartbeat_timeout_ns;
    if (ending->deadline != CLOCK_NEVER)
        node->gen.leave_at += ending->deadline - node->out->now;
    /* The node waits until the chief orders the next start, or is lost. Node 0 is never without
     * its chief, which has a deadline for the others. */
    if (ending->restarts || !node->uplink.is_member)
        node->gen.leave_at = CLOCK_NEVER;
}

void node_stop(struct node *node, const struct node_ending *ending)
{
    if (node->state >= NODE_STOPPING)
        return;
    log_ending(node, ending);
    if (ending->outcome == OUTCOME_COMPLETED)
        name_those_who_stay(node);
    keep_ending(node, ending);
    int64_t now = node->out->now, deadline = node_deadline(node);
    int given = node->grace.is_live ? grace_first(&node->grace)->signal : 0;
    node->gen.stopped_at = now;
    node->gen.began_before = any_is_ending(node);
    int sig = given ? given : SIGTERM;
    if (ending->manner == MANNER_ASK)
        sig = node->params->save_signal;
    if (ending->manner == MANNER_ASK || ending->manner == MANNER_FORWARD)
        node->gen.asked_with = sig;
    bool has_left = node->gen.asked_with && node->gen.died_asked && node_has_work(node);
    round_end(&node->gen.round);
    uplink_beat_alone(&node->uplink, false);
    if (node->gen.nstarting > 0 || node->gen.nrunning > 0 || has_left)
        ladder_start(&node->gen.ladder, ending->manner, sig, now, deadline);
    node_enter(node, NODE_STOPPING);
    if (ending->restarts) /* a rank that ends only now may have failed first, at this step */
        out_simple(node->out, ACT_READ_STEPS);
    node_sweep_if_last(node);
    ladder_limit(&node->gen.ladder, now, deadline);
    node_check_gone(node);
}

void node_stop_for_good(struct node *node, const struct node_ending *ending)
{
    if (!node->gen.end.restarts)
        return;
    log_ending(node, ending);
    keep_ending(node, ending);
    node->is_dirty = true;
    node_check_gone(node);
}

void node_stop_alone(struct node *node, enum outcome outcome, int code, const char *why)
{
    int64_t kill_by = uplink_kill_by(&node->uplink);
    node->is_alone = true;
    struct node_ending ending = {
        .outcome = outcome,
        .exit_code = node_own_code(node, outcome, verdict_code(&node->params->exit, outcome, code)),
        .manner = MANNER_STOP,
        .deadline = clock_min(node->notice.deadline, kill_by)};
    str_copy(ending.why, sizeof ending.why, why);
    node_stop_for_good(node, &ending);
    if (kill_by != CLOCK_NEVER)
        ladder_limit(&node->gen.ladder, node->out->now, kill_by);
    if (node->state == NODE_LEAVING)
        node_leave(node);
    else
        node_stop(node, &ending);
}

/* --- the health of this node --- */

/* A replacement may join while its first check is under way. That check counts. */
void node_check_health(struct node *node)
{
    if (!node->params->checks_health || node->is_checking)
        return;
    node->is_checking = node->is_dirty = true;
    out_simple(node->out, ACT_CHECK);
}

/* The node tells node 0, which ends the job on all nodes. A node that has not joined yet tries for
 * a while. */
void node_on_checked(struct node *node, const struct event *event)
{
    bool awaits_start = node->state == NODE_WAITING || node->gen.end.restarts;
    struct node_fault fault = {.kind = FAULT_UNFIT, .rank = -1};
    node->is_checking = false;
    node->is_dirty = true;
    if (!event->illness || !awaits_start || cause_is_final(node->gen.fault.kind))
        return;
    node->is_unfit = true;
    node->tell_until = node->out->now + node->params->tell_ns;
    fault.code = node->params->exit.unhealthy;
    cause_say_unfit(fault.text, sizeof fault.text, node->params->host, event->illness);
    node_record_fault(node, &fault);
}

int64_t node_gives_up_telling_at(const struct node *node)
{
    bool waits = node->gen.fault.kind == FAULT_UNFIT && !node->uplink.was_welcome;
    return waits && node->state == NODE_WAITING ? node->tell_until : CLOCK_NEVER;
}

void node_give_up_telling(struct node *node)
{
    node_stop_alone(node, OUTCOME_UNHEALTHY, 0, node->gen.fault.text);
}

int node_own_code(const struct node *node, enum outcome outcome, int code)
{
    return outcome == OUTCOME_UNHEALTHY && node->is_unfit ? node->params->exit.unhealthy : code;
}

/* --- the wait for a replacement --- */

/* "node 3", "nodes 3, 6, 7 and 2 more" */
static char *vacant_text(const struct core_wait *w, char *text, size_t size)
{
    int n = w->nvacant < CORE_VACANCIES ? w->nvacant : CORE_VACANCIES;
    snprintf(text, size, "node%s", w->nvacant > 1 ? "s" : "");
    for (int i = 0; i < n; i++)
        str_addf(text, size, "%s %d", i > 0 ? "," : "", w->vacant[i].node);
    if (w->nvacant > n)
        str_addf(text, size, " and %d more", w->nvacant - n);
    return text;
}

/* Nothing is said if it is over in a moment. */
static void say_fence(const struct node *node)
{
    int64_t left = node->gen.wait.fence_at - node->out->now;
    char in[32];
    if (left < NS_PER_S)
        return;
    out_log(node->out, LOG_NOTICE, "replace",
            "every place is taken; the next generation waits %s for the processes of the lost "
            "node to end",
            str_about(left, in, sizeof in));
}

/* Node 0 has logged the loss with its wait. */
static void say_new_wait(const struct node *node)
{
    const struct core_wait *w = &node->gen.wait;
    int64_t way = NS_PER_S / 2; /* the order took a moment */
    char vacant[128], in[32];
    if (w->nvacant > 0 && node->uplink.is_member)
        out_log(node->out, LOG_NOTICE, "replace",
                "waits up to %s for the replacement of %s (cluster.replace_wait); pchctl stop ends "
                "the job",
                reminder_left(w->until - node->out->now + way, in, sizeof in),
                vacant_text(w, vacant, sizeof vacant));
    else if (w->nvacant == 0)
        say_fence(node);
}

void node_take_wait(struct node *node, const struct peer_order *order)
{
    const struct peer_wait *w = &order->waits;
    int64_t now = node->out->now, until = now + w->left_ms * NS_PER_MS;
    bool is_vacant = w->node > 0 && w->node <= CORE_NODES_MAX;
    int vacant = is_vacant ? (int)w->node - 1 : -1;
    bool is_over = !order->restart || (w->node == 0 && w->fence_ms <= 0);
    bool was_over = node->gen.wait.since == 0;
    bool is_new = is_over != was_over || (!is_over && vacant != node->gen.wait.vacant[0].node);
    if (is_new)
        out_simple(node->out, ACT_STATE);
    if (is_over) {
        node->gen.wait.since = 0;
        node->gen.reminder.at = CLOCK_NEVER;
        return;
    }
    if (node->gen.wait.since == 0)
        reminder_begin(&node->gen.reminder, now);
    node->gen.wait = (struct core_wait){.since = until - node->params->replace_wait_ns,
                                        .nvacant = is_vacant,
                                        .vacant = {{.node = vacant}},
                                        .until = until,
                                        .fence_at = now + w->fence_ms * NS_PER_MS};
    if (is_new)
        say_new_wait(node);
}

int64_t node_says_wait_at(const struct node *node)
{
    return node->gen.end.restarts ? node->gen.reminder.at : CLOCK_NEVER;
}

void node_say_wait(struct node *node)
{
    const struct core_wait *w = &node->gen.wait;
    int64_t now = node->out->now;
    char vacant[128], so_far[32], in[32];
    reminder_next(&node->gen.reminder, now);
    if (w->nvacant > 0)
        out_log(node->out, LOG_NOTICE, "replace",
                "still waiting for the replacement of %s, %s so far (cluster.replace_wait in %s); "
                "pchctl stop ends the job",
                vacant_text(w, vacant, sizeof vacant),
                str_about(now - w->since, so_far, sizeof so_far),
                reminder_left(w->until - now, in, sizeof in));
    else
        say_fence(node);
}

/* --- the next generation ---
 *
 * When the chief restarts the job, the node stays in NODE_LEAVING after the end of its processes.
 * The first order of the next generation finds it in that state. */

void node_begin_generation(struct node *node)
{
    node->gen.leave_at = node->gen.end.deadline = node->gen.reminder.at = CLOCK_NEVER;
    ranks_init(&node->gen.ranks, node->params->expected_procs);
    node->gen.ladder.params = node->params;
    round_init(&node->gen.round, &node->gen.ranks, node->out);
}

void node_renew(struct node *node)
{
    memset(&node->gen, 0, sizeof node->gen);
    node_begin_generation(node);
    /* A new process begins with an open gate. */
    out_act(node->out, &(struct action){.type = ACT_GATE, .gate = GATE_OPEN});
    node->generation = node->uplink.generation;
    if (node->uplink.is_member) /* node 0 has logged it */
        out_log(node->out, LOG_NOTICE, "restart", "generation %u begins", node->generation);
    node_enter(node, NODE_WAITING);
    node_tell_final(node); /* again, because the chief forgot the reason with the old generation */
}
