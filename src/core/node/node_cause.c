/* SPDX-License-Identifier: Apache-2.0
 * The first failure of this node, and of the job. See node_parts.h.
 */
#include "core/node/node_parts.h"

#include "base/clock.h"
#include "base/str.h"
#include "core/common/cause.h"
#include "core/common/gaveup.h"
#include "core/common/verdict.h"

#include <stdio.h>

int64_t node_counts_from(const struct node_fault *fault)
{
    return fault->is_told ? fault->at : cause_counts_from(fault->kind, fault->code, fault->at);
}

/* The first failure of this node counts, even if the chief is told a final cause in its place. The
 * exit of the process that failed first then still gives more details. No other process takes its
 * place: the processes whose deaths one look finds have all died at the same time. */
static bool is_first(const struct node *node, const struct node_fault *fault, int64_t at)
{
    const struct node_fault *known = &node->gen.fault;
    bool is_its_exit = at == node->gen.failed_at && fault->pid == node->gen.failed_pid;
    return known->kind == FAULT_NONE || at < node->gen.failed_at ||
           (cause_is_final(known->kind) && is_its_exit);
}

/* A process that we end may die in many ways; none of them is a failure. Two processes failed
 * before our signal, although their exit came after it: one gave its reason earlier, the other was
 * already dead. */
static bool counts(const struct node *node, const struct node_fault *fault)
{
    /* A round that does not need every save may go on without a process that failed. */
    bool is_outlived = !node->gen.round.is_closed && node->gen.round.needs != NEEDS_ALL;
    bool may_begin_again = node->gen.end.restarts || is_outlived ||
                           (node->state > NODE_RUNNING && verdict_gives_way(node->gen.end.outcome));
    /* A replaced or stopped job must not begin again. */
    if (cause_is_final(fault->kind) && may_begin_again)
        return true;
    int64_t at = node_counts_from(fault);
    bool is_before_end = node->state <= NODE_RUNNING ||
                         ((fault->is_told || fault->was_dead) && at < node->gen.stopped_at);
    return is_first(node, fault, at) && is_before_end;
}

/* The node has known of this fault since the death of the process. The exit of the process now
 * gives more details. */
static bool completes(const struct node *node, const struct node_fault *fault)
{
    return node->gen.fault.is_early && fault->pid == node->gen.fault.pid && fault->was_dead;
}

static void take_fault(struct node *node, const struct node_fault *fault)
{
    if (!cause_is_final(fault->kind) || node->gen.fault.kind == FAULT_NONE) {
        node->gen.failed_at = node_counts_from(fault);
        node->gen.failed_pid = fault->pid;
    }
    node->gen.fault = *fault;
    node->is_dirty = true;
}

void node_record_fault(struct node *node, const struct node_fault *fault)
{
    struct node_fault timed = *fault;
    const struct node_fault *known = &node->gen.fault;
    /* Our own signal ended it. So its failure is the one that it reported before, and not a crash.
     */
    if (node->state > NODE_RUNNING && timed.kind == FAULT_SIGNAL && !timed.was_dead) {
        timed.kind = FAULT_EXIT;
        timed.code = timed.told_code;
    }
    if (cause_is_process(timed.kind) && (timed.waited_out || gaveup_is_told(timed.text)))
        timed.kind = FAULT_GAVE_UP;
    if (completes(node, fault)) {
        timed.wall = known->wall - (known->at - timed.at);
        take_fault(node, &timed);
        return;
    }
    if (!timed.at)
        timed.at = node->out->now;
    timed.wall = node->out->wall - (node->out->now - timed.at);
    if (!counts(node, &timed))
        return;
    take_fault(node, &timed);
    if (node->params->restart.max == 0 || !cause_is_process(timed.kind) ||
        node->state > NODE_RUNNING)
        return;
    /* A restart depends on whether any rank had finished a step: read the steps first. */
    node->gen.fault_wants_steps = true;
    out_simple(node->out, ACT_READ_STEPS);
}

void node_add_words(struct node_fault *fault, const char *reason, int64_t at, int code)
{
    char text[2 * sizeof fault->text + 2];
    if (!reason[0])
        return;
    snprintf(text, sizeof text, "%s: %s", fault->text, reason);
    str_fit(fault->text, sizeof fault->text, text);
    fault->at = at;
    fault->is_told = at > 0;
    fault->told_code = code;
}

void node_tell_final(struct node *node)
{
    bool is_replaced = node->replaced_by[0] != '\0';
    struct node_fault fault = {.kind = is_replaced ? FAULT_REPLACED : FAULT_STOPPED,
                               .rank = -1,
                               .code = is_replaced ? EXIT_OWN_ERROR : node->params->exit.stopped};
    str_copy(fault.text, sizeof fault.text, is_replaced ? node->replaced_by : node->stopped_by);
    if (fault.text[0] && node->gen.fault.kind != fault.kind)
        node_record_fault(node, &fault);
}

void node_judge_record(struct node *node, const struct err *bad)
{
    if (!bad || bad->code != ERR_REPLACED)
        return;
    str_copy(node->replaced_by, sizeof node->replaced_by, bad->text);
    node_tell_final(node);
}

void node_describe_fault(const struct node *node, struct peer_cause *ret)
{
    const struct node_fault *f = &node->gen.fault;
    *ret = (struct peer_cause){.fault = (uint8_t)f->kind,
                               .node = node->params->node_rank,
                               .rank = f->rank,
                               .pid = f->pid,
                               .code = f->code,
                               .wall_ns = f->wall};
    str_copy(ret->host, sizeof ret->host, node->params->host);
    str_copy(ret->text, sizeof ret->text, f->text);
    str_copy(ret->tail, sizeof ret->tail, f->tail);
}

/* Two causes that name the same process are one failure; the later cause has more details. */
static bool is_of_one_process(const struct peer_cause *a, const struct peer_cause *b)
{
    return a->node == b->node && a->pid == b->pid && a->pid > 0;
}

void node_take_cause(struct node *node, const struct peer_cause *cause,
                     const struct node_ending *ending)
{
    struct node_ending *end = &node->gen.end;
    if (node->is_alone)
        return;
    node->gen.is_ordered = true;
    if (cause_is_same(&node->gen.cause, cause) &&
        (cause->fault == FAULT_NONE ||
         (end->outcome == ending->outcome && end->exit_code == ending->exit_code)))
        return;
    /* After a cancelled restart node_stop_for_good() has just logged the end with its cause. Which
     * process of an interrupted job failed first is chance. */
    if (cause->fault != FAULT_NONE && node->gen.cause.fault != FAULT_NONE &&
        ending->outcome != OUTCOME_INTERRUPTED && !str_is(end->why, ending->why) &&
        !is_of_one_process(&node->gen.cause, cause))
        out_log(node->out, LOG_INFO, "ending", "the cause has changed: %s", ending->why);
    node->gen.cause = *cause;
    if (cause->fault != FAULT_NONE) { /* else the cause is that a restart was cancelled */
        end->outcome = ending->outcome;
        end->exit_code = ending->exit_code;
        str_copy(end->why, sizeof end->why, ending->why);
    }
    out_simple(node->out, ACT_STATE);
}

void node_blame_chief(struct node *node)
{
    const struct uplink *u = &node->uplink;
    int64_t since = clock_min(u->last_heard, u->down_at);
    if (node->gen.fault.kind != FAULT_NONE && node->gen.fault.at < since)
        return;
    node->gen.cause = (struct peer_cause){.fault = FAULT_LOST,
                                          .node = u->stood_still ? node->params->node_rank : 0,
                                          .rank = -1,
                                          .code = node->params->exit.node_lost,
                                          .wall_ns = node->out->wall - (node->out->now - since)};
    str_addf(node->gen.cause.text, sizeof node->gen.cause.text, "the node is lost: %s", u->why);
}

/* A node that is not healthy may leave a job that goes on after another failure. Its illness is why
 * it ends. */
static bool leaves_for_illness(const struct node *node)
{
    return node->gen.end.outcome == OUTCOME_UNHEALTHY && node->gen.fault.kind == FAULT_UNFIT &&
           node->gen.cause.fault != FAULT_UNFIT;
}

void node_cause(const struct node *node, struct peer_cause *ret)
{
    bool is_told = node->gen.is_ordered || node->gen.cause.fault != FAULT_NONE;
    if (is_told && !leaves_for_illness(node))
        *ret = node->gen.cause;
    else
        node_describe_fault(node, ret);
}

/* --- victims --- */

static bool is_the_cause(const struct node *node, const struct member *m,
                         const struct peer_cause *cause)
{
    if (cause->node != node->params->node_rank)
        return false;
    return cause->rank >= 0 ? m->rank == cause->rank : m->pid == cause->pid;
}

const struct child *node_child_of(const struct node *node, int pid)
{
    for (int i = 0; i < node->params->children && pid > 0; i++)
        if (node->gen.children[i].pid == pid)
            return &node->gen.children[i];
    return NULL;
}

bool node_is_victim(const struct node *node, const struct member *m, const struct peer_cause *cause)
{
    if (cause->fault == FAULT_NONE || is_the_cause(node, m, cause))
        return false;
    const struct child *child = node_child_of(node, m->pid);
    return child ? child->state == CHILD_ENDED && child->status != 0 : ranks_is_silent(m);
}
