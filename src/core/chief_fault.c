/* SPDX-License-Identifier: Apache-2.0
 * What has failed, which of it was the first, and the end because of it. See chief_parts.h.
 *
 * The job ends with the first failure that is heard of, and not all have been told by then. Each
 * node tells of its own until it leaves, and it leaves when all have; so what the last order names
 * was the first of all, as far as the nodes' clocks can be compared. In the same way a node that
 * had gone by then, which takes longer to be sure of, becomes the cause.
 */
#include "core/chief_parts.h"

#include "base/clock.h"
#include "base/str.h"
#include "core/grace.h"
#include "core/verdict.h"

/* A node that goes is missed by the processes of the others before we see that it has gone. */
#define FAULT_PAUSE_NS (200 * NS_PER_MS)

static bool is_final(const struct peer_cause *cause)
{
    return cause->fault == FAULT_REPLACED || cause->fault == FAULT_STOPPED;
}

/* Node 0 knows which node speaks; the rank in the message does not count. A node tells one failure
 * at a time. That the job must not begin again is kept beside the node's earlier failure. */
void chief_note_fault(struct chief *chief, const struct peer *peer, const struct peer_cause *told)
{
    if (told->fault == FAULT_NONE || told->fault == FAULT_LOST)
        return;
    struct peer_cause cause = *told;
    cause.node = chief_rank_of(chief, peer);
    cause.ago_ns = grace_clamp(told->ago_ns);
    str_copy(cause.host, sizeof cause.host, peer->at.host);
    causes_take(is_final(told) ? &chief->finals : &chief->causes, chief->out->now, &cause);
}

static const struct peer_cause *first_cause(const struct chief *chief)
{
    const struct peer_cause *failure = causes_first(&chief->causes);
    const struct peer_cause *final = causes_first(&chief->finals);
    return !failure || (final && final->at_ns < failure->at_ns) ? final : failure;
}

/* Of a node that we miss by then. */
static int64_t follows_until(const struct chief *chief, const struct peer_cause *cause)
{
    return chief->params->nnodes > 1 && cause_is_process(cause->fault)
               ? cause->at_ns + FAULT_PAUSE_NS
               : cause->at_ns;
}

/* What fails when a node has gone fails because of that. Whether it has gone, and not only its
 * connection, is known when it may no longer come back. */
static bool may_follow_from_loss(const struct chief *chief, const struct peer_cause *cause)
{
    if (chief->out->now < follows_until(chief, cause))
        return true;
    for (int i = 0; i < chief->params->nnodes; i++) {
        const struct peer *peer = &chief->peers[i];
        if (i != cause->node && peer_is(peer, FACT_JOINED) && !peer_is(peer, FACT_GONE) &&
            peer->down_at <= follows_until(chief, cause))
            return true;
    }
    return false;
}

/* The end comes at once, and may still turn out to be that of a loss. But a save that is decided is
 * not given up for what a loss has brought about: a node that had saved by then does not undo it.
 */
bool chief_fault_counts(const struct chief *chief)
{
    const struct peer_cause *first = first_cause(chief);
    return first && !(chief_is_deciding(chief) && may_follow_from_loss(chief, first));
}

int64_t chief_fault_wake_at(const struct chief *chief)
{
    const struct peer_cause *first = first_cause(chief);
    int64_t until = first ? follows_until(chief, first) : 0;
    return until > chief->out->now ? until : CLOCK_NEVER;
}

/* A notice once given holds: what fails after it was preempted. But who was replaced, or stopped,
 * is not to be started again. */
static enum outcome outcome_of(const struct chief *chief)
{
    uint8_t fault = chief->cause.fault;
    if (fault == FAULT_START && chief->generation == 0)
        return OUTCOME_NOT_STARTED;
    if (fault == FAULT_STOPPED)
        return OUTCOME_STOPPED;
    bool is_preempted = chief->was_preempted && fault != FAULT_REPLACED;
    return is_preempted ? OUTCOME_PREEMPTED_UNSAVED : OUTCOME_FAILED;
}

static void tell(struct chief *chief, void (*tell_end)(struct chief *, const struct chief_end *))
{
    const struct peer_cause *cause = &chief->cause;
    char why[PEERMSG_WHY_SIZE] = "";
    str_addf(why, sizeof why, "node %d: ", cause->node);
    if (cause->rank >= 0)
        str_addf(why, sizeof why, "rank %d, ", cause->rank);
    str_addf(why, sizeof why, "%s", cause->text);
    tell_end(chief, &(struct chief_end){.outcome = outcome_of(chief),
                                        .code = cause->code,
                                        .manner = MANNER_STOP,
                                        .why = why});
}

/* A generation that fails in any other way would be followed by one that fails like it; and who
 * asks a program to end does not want it started again. */
static bool may_restart(const struct chief *chief)
{
    return cause_is_process(chief->cause.fault) && chief->order.start && !chief->notice.is_live &&
           !any_is(chief, FACT_INTERRUPTED) && !any_is(chief, FACT_LOST);
}

void chief_end_by_fault(struct chief *chief)
{
    chief->cause = *first_cause(chief);
    chief->was_preempted = chief->notice.is_live;
    tell(chief, may_restart(chief) ? chief_restart_or_end : chief_end);
}

/* In place, or by the scheduler. */
static bool may_begin_again(const struct chief *chief)
{
    enum outcome told = (enum outcome)chief->order.outcome;
    bool gives_way = chief->order.end == END_STOP && verdict_gives_way(told);
    return chief_is_restarting(chief) || gives_way;
}

static void end_as(struct chief *chief, const struct peer_cause *final)
{
    bool is_told = chief->order.end != END_NONE && !chief->order.restart;
    chief->cause = *final;
    tell(chief, is_told ? chief_tell_end : chief_end);
}

/* Of what was to begin again it turns out that the job is another's, or somebody asks for its end.
 */
void chief_tell_fault(struct chief *chief)
{
    const struct peer_cause *final = may_begin_again(chief) ? causes_first(&chief->finals) : NULL;
    if (final) {
        end_as(chief, final);
        return;
    }
    const struct peer_cause *first = first_cause(chief);
    if (chief->order.end != END_STOP || chief->cause.fault == FAULT_NONE ||
        chief->cause.fault == FAULT_LOST || is_final(&chief->cause) || !first)
        return;
    /* A loss ends what was to be restarted, too; but by a way of its own. */
    if (cause_is_process(first->fault) && !chief->order.restart &&
        chief_tell_loss(chief, follows_until(chief, first)))
        return;
    if (cause_is_same(first, &chief->cause))
        return;
    chief->cause = *first;
    tell(chief, chief_tell_end);
}
