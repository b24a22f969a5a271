/* SPDX-License-Identifier: Apache-2.0
 * The failures of the job, the first of them, and the end because of it. See chief_parts.h.
 *
 * The job ends with the first failure that node 0 hears. An earlier failure may still be on its
 * way. Each node reports its own failure until all nodes leave. So the last order names the first
 * failure of all, as far as the nodes' clocks can be compared. A lost node becomes the cause in the
 * same way: node 0 needs longer to be sure of a loss.
 */
#include "core/chief/chief_parts.h"

#include "base/clock.h"
#include "base/sigtext.h"
#include "base/str.h"
#include "core/common/grace.h"
#include "core/common/verdict.h"

/* When a node dies, processes on other nodes fail before node 0 sees the loss. Node 0 may hear of a
 * signal as late. */
#define FAULT_PAUSE_NS (200 * NS_PER_MS)

/* Node 0 knows the sender, so it ignores the node in the message. A node reports one failure at a
 * time. A cause that forbids a restart is kept beside the node's earlier failure. The first report
 * comes with freshly read steps; later the other ranks may train on while they end. */
void chief_note_fault(struct chief *chief, struct peer *peer, const struct peer_cause *told)
{
    if (told->fault == FAULT_NONE || told->fault == FAULT_LOST)
        return;
    if (!peer->has_failed)
        peer->failed_step = peer->status.highest;
    peer->has_failed = true;
    struct peer_cause cause = *told;
    cause.node = chief_rank_of(chief, peer);
    cause.ago_ns = grace_clamp(told->ago_ns);
    str_copy(cause.host, sizeof cause.host, peer->at.host);
    causes_take(cause_is_final(told->fault) ? &chief->gen.finals : &chief->gen.causes,
                chief->out->now, &cause);
}

void chief_note_strike(struct chief *chief, struct peer *peer, const struct peer_cause *told)
{
    char illness[CAUSE_ILLNESS_MAX];
    if (told->fault != FAULT_UNFIT || peer->struck == peer->at.incarnation)
        return;
    peer->struck = peer->at.incarnation;
    cause_illness(told, illness);
    out_act(chief->out, &(struct action){.type = ACT_STRIKE,
                                         .strike = {.host = peer->at.host, .text = illness}});
}

static const struct peer_cause *first_cause(const struct chief *chief)
{
    const struct peer_cause *failure = causes_first(&chief->gen.causes);
    const struct peer_cause *final = causes_first(&chief->gen.finals);
    return !failure || (final && final->at_ns < failure->at_ns) ? final : failure;
}

/* A node that is gone by this time may be the reason for the failure. */
static int64_t follows_until(const struct chief *chief, const struct peer_cause *cause)
{
    return chief->params->nnodes > 1 && cause_is_process(cause->fault)
               ? cause->at_ns + FAULT_PAUSE_NS
               : cause->at_ns;
}

/* A node that hears nothing ends its processes when its lease is over. Node 0 has heard it for a
 * while longer, so it knows the loss later than the other ranks feel it. A node that was heard
 * since then is not the reason. */
static bool may_be_lost(const struct chief *chief, const struct peer *peer, int64_t until)
{
    const struct core_params *p = chief->params;
    bool is_silent = p->replace_wait_ns > 0 && peer->at.conn != CONN_SELF &&
                     peer->last_heard <= until &&
                     chief->out->now > peer->last_heard + 2 * p->heartbeat_interval_ns;
    return peer->down_at <= until || is_silent;
}

/* A process that fails when a node is lost most often fails for that reason. Node 0 knows the loss
 * only when the time to reconnect is over. */
static bool may_follow_from_loss(const struct chief *chief, const struct peer_cause *cause)
{
    if (chief->out->now < follows_until(chief, cause))
        return true;
    for (int i = 0; i < chief->params->nnodes; i++) {
        const struct peer *peer = &chief->peers[i];
        if (i != cause->node && peer_is(peer, FACT_JOINED) && !peer_is(peer, FACT_GONE) &&
            may_be_lost(chief, peer, follows_until(chief, cause)))
            return true;
    }
    return false;
}

/* A failure ends the job at once; a loss may become the cause later. But a decided save goes on
 * while it can do without the process. It also goes on while the failure may come from a loss: if
 * the lost node has saved, the save can still commit. Where a lost node may be replaced, the loss
 * is worth the wait, too: the job survives it. */
bool chief_fault_counts(const struct chief *chief)
{
    const struct peer_cause *first = first_cause(chief);
    bool is_outlived = first && cause_is_process(first->fault) && chief->gen.finals.n == 0 &&
                       chief_outlives(chief);
    bool may_be_replaced = chief->order.start && chief->params->replace_wait_ns > 0;
    /* The loss decides, when it matters. After a standstill the times no longer tell. */
    bool follows_loss = may_be_replaced && any_is(chief, FACT_LOST) && chief->gen.finals.n == 0;
    return first && !is_outlived && !follows_loss &&
           !((chief_is_deciding(chief) || may_be_replaced) && may_follow_from_loss(chief, first));
}

int64_t chief_fault_counts_at(const struct chief *chief)
{
    const struct peer_cause *first = first_cause(chief);
    return first ? follows_until(chief, first) : CLOCK_NEVER;
}

/* --- a signal that told the job to end --- */

/* These are the ways in which a signal ends a program. A program with an exit code of its own has
 * handled the signal, and that code counts. */
static bool may_follow_from_signal(const struct peer_cause *cause, int number)
{
    bool is_plain = cause->code == 1 || cause->code == EXIT_BY_SIGNAL + number;
    return cause->fault == FAULT_SILENT ||
           ((cause->fault == FAULT_EXIT || cause->fault == FAULT_SIGNAL) && is_plain);
}

/* The node that first got such a signal before the failure; NULL: none did. The ranks of other
 * nodes fail, too. */
static const struct peer *interrupted_before(const struct chief *chief,
                                             const struct peer_cause *cause)
{
    const struct peer *first = NULL;
    for (int i = 0; any_is(chief, FACT_INTERRUPTED) && i < chief->params->nnodes; i++) {
        const struct peer *peer = &chief->peers[i];
        if (peer->interrupted_at <= cause->at_ns + FAULT_PAUSE_NS &&
            may_follow_from_signal(cause, peer->status.interrupted_by) &&
            (!first || peer->interrupted_at < first->interrupted_at))
            first = peer;
    }
    return first;
}

static void take_cause(struct chief *chief, const struct peer_cause *cause)
{
    chief->gen.cause = *cause;
    chief->gen.interrupted = interrupted_before(chief, cause);
}

/* --- the end --- */

/* A failure near a notice is a preemption. But a job must not start again if it was replaced or
 * stopped, or if pchrun broke a promise. */
static enum outcome outcome_of(const struct chief *chief)
{
    uint8_t fault = chief->gen.cause.fault;
    if (fault == FAULT_START && chief->generation == 0)
        return OUTCOME_NOT_STARTED;
    if (fault == FAULT_STOPPED)
        return OUTCOME_STOPPED;
    if (fault == FAULT_UNFIT)
        return OUTCOME_UNHEALTHY;
    bool is_preempted =
        chief->gen.was_preempted && fault != FAULT_REPLACED && fault != FAULT_BROKEN;
    if (is_preempted)
        return OUTCOME_PREEMPTED_UNSAVED;
    if (chief->gen.interrupted)
        return OUTCOME_INTERRUPTED;
    return fault == FAULT_GAVE_UP ? OUTCOME_HANG : OUTCOME_FAILED;
}

static int code_of(const struct chief *chief)
{
    const struct peer_cause *cause = &chief->gen.cause;
    if (chief->gen.interrupted)
        return EXIT_BY_SIGNAL + chief->gen.interrupted->status.interrupted_by;
    return cause->fault == FAULT_GAVE_UP ? chief->params->exit.hang : cause->code;
}

/* In a preemption a program that does not attach may save by itself, whichever process has failed.
 */
static enum peer_manner manner_of(const struct chief *chief)
{
    bool may_save = outcome_of(chief) == OUTCOME_PREEMPTED_UNSAVED && !any_is(chief, FACT_ATTACHED);
    return may_save ? chief_asks_by(chief) : MANNER_STOP;
}

/* Which process ended first is chance after a signal. The report has it. */
static void describe_cause(struct chief *chief, char *why, size_t size)
{
    const struct peer_cause *cause = &chief->gen.cause;
    const struct peer *peer = chief->gen.interrupted;
    const char *behind = cause->fault == FAULT_GAVE_UP ? chief_who_is_behind(chief) : "";
    if (peer) {
        str_addf(why, size, "interrupted on node %d by %s", chief_rank_of(chief, peer),
                 SIGTEXT(peer->status.interrupted_by));
        return;
    }
    str_addf(why, size, "%s%s", behind, behind[0] ? "; " : "");
    str_addf(why, size, "node %d: ", cause->node);
    if (cause->rank >= 0)
        str_addf(why, size, "rank %d, ", cause->rank);
    str_addf(why, size, "%s", cause->text);
}

static void tell(struct chief *chief, void (*tell_end)(struct chief *, const struct chief_end *))
{
    char why[PEERMSG_WHY_SIZE] = "";
    describe_cause(chief, why, sizeof why);
    tell_end(chief, &(struct chief_end){.outcome = outcome_of(chief),
                                        .code = code_of(chief),
                                        .manner = manner_of(chief),
                                        .why = why});
}

/* Only a failed process may be cured by a restart; other failures would repeat. No restart follows
 * a signal that told the job to end. */
static bool may_restart(const struct chief *chief)
{
    return cause_is_process(chief->gen.cause.fault) && chief->order.start &&
           !chief_notice_is_near(chief) && !any_is(chief, FACT_INTERRUPTED) &&
           !any_is(chief, FACT_LOST);
}

void chief_end_by_fault(struct chief *chief)
{
    const struct peer_cause *first = first_cause(chief);
    if (first->fault == FAULT_GAVE_UP && !chief_notice_is_near(chief) && !chief_has_looked(chief))
        return;
    take_cause(chief, first);
    chief->gen.was_preempted = chief_notice_is_near(chief);
    tell(chief, may_restart(chief) ? chief_restart_or_end : chief_end);
}

/* The job may begin again in place, or by its scheduler. */
static bool may_begin_again(const struct chief *chief)
{
    enum outcome told = (enum outcome)chief->order.outcome;
    bool gives_way = chief->order.end == END_STOP && verdict_gives_way(told);
    return chief_is_restarting(chief) || gives_way;
}

/* The last save has failed because a rank ended, and node 0 hears later how. The processes of the
 * other ranks end when they are told to. */
static bool explains_unsaved(const struct chief *chief, const struct peer_cause *first)
{
    const struct peer *ended = chief->gen.ended;
    return ended && first->node == chief_rank_of(chief, ended) &&
           first->at_ns < chief->gen.stopped_at &&
           chief->order.outcome == OUTCOME_PREEMPTED_UNSAVED;
}

static void end_as(struct chief *chief, const struct peer_cause *final)
{
    bool is_told = chief->order.end != END_NONE && !chief->order.restart;
    take_cause(chief, final);
    tell(chief, is_told ? chief_tell_end : chief_end);
}

/* A job that would begin again ends for good if it was replaced or stopped, or if a node must not
 * train. Otherwise an earlier failure, or a loss, becomes the cause. */
void chief_tell_fault(struct chief *chief)
{
    const struct peer_cause *final =
        may_begin_again(chief) ? causes_first(&chief->gen.finals) : NULL;
    if (final) {
        if (!cause_is_same(final, &chief->gen.cause))
            end_as(chief, final);
        return;
    }
    const struct peer_cause *first = first_cause(chief);
    if (chief->order.end != END_STOP || chief->gen.cause.fault == FAULT_LOST ||
        cause_is_final(chief->gen.cause.fault) || !first)
        return;
    if (chief->gen.cause.fault == FAULT_NONE) {
        if (!explains_unsaved(chief, first))
            return;
        chief->gen.was_preempted = true;
    }
    /* During a restart chief_decide_restart() handles a loss. */
    if (cause_is_process(first->fault) && !chief->order.restart &&
        chief_tell_loss(chief, follows_until(chief, first)))
        return;
    bool is_known = chief->gen.interrupted || !interrupted_before(chief, first);
    if (is_known && cause_is_same(first, &chief->gen.cause))
        return;
    take_cause(chief, first);
    tell(chief, chief_tell_end);
}
