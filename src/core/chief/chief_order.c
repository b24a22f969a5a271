/* SPDX-License-Identifier: Apache-2.0
 * The order: how it is sent, and the acts that end a round or the job. See chief_parts.h.
 */
#include "core/chief/chief_parts.h"

#include "base/clock.h"
#include "base/str.h"
#include "core/common/verdict.h"

#include <stdio.h>

/* This many preemptions before the first step end a job. The number is high, because preemptions
 * come in series. It stops a job with an endless notice, or with a start over the time limit. */
#define WITHOUT_STEP_MAX 100

static int32_t left_ms(const struct chief *chief, int64_t deadline)
{
    if (deadline == CLOCK_NEVER)
        return -1;
    int64_t left = (deadline - chief->out->now) / NS_PER_MS;
    return left < 0 ? 0 : (int32_t)clock_min(left, INT32_MAX);
}

static struct peer_wait waits_of(const struct chief *chief)
{
    const struct peer *vacant = chief->gen.replace.first;
    return (struct peer_wait){.node = vacant ? 1 + (uint32_t)chief_rank_of(chief, vacant) : 0,
                              .left_ms = left_ms(chief, chief->gen.replace.until),
                              .fence_ms = left_ms(chief, chief->gen.replace.fence_at)};
}

/* Of the ring of node numbers. */
static const struct peer *next_of(const struct chief *chief, const struct peer *peer)
{
    return &chief->peers[(chief_rank_of(chief, peer) + 1) % chief->params->nnodes];
}

/* Before the transfers: where node 0 listens; the others wait until that is known. */
static struct peer_measure measure_of(const struct chief *chief, const struct peer *peer)
{
    struct peer_measure ret = chief->order.measure;
    const struct peer *first = &chief->peers[0];
    if (ret.begins)
        ret.next = next_of(chief, peer)->status.link.here;
    else if (peer_is(first, FACT_LISTENS))
        str_copy(ret.next.at, sizeof ret.next.at, first->status.link.here.at);
    else if (peer != first)
        ret = (struct peer_measure){0};
    return ret;
}

void chief_send_order(struct chief *chief, int conn, int64_t echo_ns)
{
    struct peermsg msg = {
        .type = PEERMSG_ORDER, .stamp = chief_stamp(chief), .order = chief->order};
    msg.stamp.round = chief->gen.round;
    msg.stamp.ballot = chief->gen.ballot;
    msg.stamp.seq = chief->order_seq;
    if (chief->order.end != END_NONE)
        msg.cause = chief->gen.cause;
    const struct peer *peer = chief_of_conn(chief, conn);
    msg.order.stop_answered = peer ? peer->stops_given_up : 0;
    msg.order.echo_ns = echo_ns;
    msg.order.clock_ns = chief->out->now;
    msg.order.end_left_ms = left_ms(chief, chief->gen.end_deadline);
    msg.order.save_ns = chief->save_ns;
    if (peer)
        msg.order.measure = measure_of(chief, peer);
    if (chief_is_waiting(chief))
        msg.order.waits = waits_of(chief);
    msg.order.has_notice = chief->notice.is_live;
    msg.order.notice_node = chief->notice.node;
    if (chief->notice.is_live) {
        const struct peer_status *told = &chief->peers[chief->notice.node].status;
        msg.order.notice_left_ns = chief->notice.deadline - chief->out->now;
        msg.order.notice = told->notice;
    }
    out_send(chief->out, conn, &msg);
}

/* --- the end of a round --- */

/* The wait in a save that failed is not part of a node's pace. */
static void forget_pace(struct chief *chief)
{
    for (int i = 0; i < chief->params->nnodes; i++)
        chief->peers[i].is_paced = false;
}

void chief_say_saved(const struct chief *chief, enum log_level level, uint64_t step)
{
    const char *unrecorded =
        chief->params->has_record ? "" : "; but no record says so (no checkpoint.dir)";
    uint32_t whole = chief->order.commit_whole;
    if (chief->without[0])
        out_log(chief->out, LOG_WARN, "commit", "step %llu is committed without %s%s", ull(step),
                chief->without, unrecorded);
    else if (whole && !all_are(chief, FACT_SAVED))
        out_log(chief->out, level, "commit",
                "step %llu is durable: the save of rank %u is the whole checkpoint%s", ull(step),
                whole - 1, unrecorded);
    else if (chief->params->has_record)
        out_log(chief->out, level, "commit", "step %llu is durable on every rank", ull(step));
    else
        out_log(chief->out, level, "commit",
                "step %llu is saved on every rank, but no record says so (no checkpoint.dir)",
                ull(step));
}

/* `cause` is for the log; "": the next line in the log names the cause. */
static void close_round(struct chief *chief, enum peer_phase phase, const char *why,
                        const char *cause)
{
    bool is_decided = chief_is_deciding(chief);
    if (!PROMISE(1, chief->out, (phase == PHASE_ABORTED) == !is_decided))
        phase = PHASE_FAILED; /* a decided round cannot be called off */
    chief->order.is_late =
        phase == PHASE_FAILED &&
        chief->out->now >= clock_min(chief_saves_until(chief), chief_abort_at(chief));
    chief->order.phase = (uint8_t)phase;
    chief->order.leave = chief->order.leave || (chief->gen.wants_to_end && phase != PHASE_ABORTED);
    str_copy(chief->order.why, sizeof chief->order.why, why);
    chief->is_changed = true;
    /* After a failed save the next one for this notice is the last. */
    chief->notice.has_saved = chief->notice.is_live;
    if (phase == PHASE_FAILED)
        forget_pace(chief);
    if (phase != PHASE_COMMITTED && !chief->gen.wants_to_end)
        chief_count_anew(chief, chief->order.save_step);
    if (phase == PHASE_COMMITTED)
        chief_say_saved(chief, LOG_NOTICE, chief->order.commit_step);
    else if (phase == PHASE_FAILED)
        out_log(chief->out, LOG_WARN, "save", "step %llu is not saved, so it is not committed%s%s",
                ull(chief->order.save_step), *cause ? ": " : "", cause);
    else
        out_log(chief->out, LOG_WARN, "save", "called off%s%s", *cause ? ": " : "", cause);
}

void chief_close_round(struct chief *chief, enum peer_phase phase, const char *why)
{
    close_round(chief, phase, why, why);
}

/* --- the end of the job --- */

/* A user's own end says nothing about progress. Nor does a preemption before the first step, unless
 * a process failed too. */
bool chief_is_uncounted(const struct chief *chief)
{
    enum outcome outcome = (enum outcome)chief->order.outcome;
    bool is_early = !chief->has_stepped && chief->gen.causes.n == 0;
    bool is_by_user = outcome == OUTCOME_INTERRUPTED || outcome == OUTCOME_STOPPED;
    bool has_commit = chief->has_committed || chief->writing != COMMIT_NOTHING;
    return !has_commit && (is_by_user || (verdict_is_preempted(outcome) && is_early));
}

/* The program's exit code equals a code that asks the scheduler for a restart. The program may
 * intend this (TensorFlow's handler), or it is chance. */
static bool reads_as_restart(const struct chief *chief)
{
    const struct exit_codes *codes = &chief->params->exit;
    int code = chief->order.exit_code;
    return chief->order.outcome == OUTCOME_FAILED &&
           (code == codes->preempted || code == codes->preempted_unsaved ||
            code == codes->node_lost || code == codes->hang || code == codes->unhealthy);
}

/* An end before any rank attached proves nothing, because the program may never attach. A program
 * that committed before does attach. */
bool chief_brings_nothing(const struct chief *chief)
{
    const struct core_params *p = chief->params;
    enum outcome outcome = (enum outcome)chief->order.outcome;
    bool does_attach = p->save_mode == SAVE_ATTACH && p->resume_step > 0;
    bool may_attach = does_attach || any_is(chief, FACT_ATTACHED);
    return verdict_is_restart(outcome) || (reads_as_restart(chief) && may_attach) ||
           (outcome == OUTCOME_PREEMPTED_UNKNOWN && does_attach);
}

bool chief_counts_starts(const struct chief *chief)
{
    const struct core_params *p = chief->params;
    return !p->has_record && p->resume_step == 0 && p->attempts_without_commit > 0 &&
           p->save_mode == SAVE_ATTACH;
}

/* The job begins anew, so no start before has kept anything. Saves that no record names are no
 * progress: no later start finds them. */
static bool has_lost_all(const struct chief *chief)
{
    return chief_counts_starts(chief) && chief->begins_anew;
}

/* Earlier attempts in a row that count as this one does. */
static int attempts_before(const struct chief *chief)
{
    const struct core_params *p = chief->params;
    if (chief_is_uncounted(chief))
        return p->attempts_without_step;
    return p->has_record || has_lost_all(chief) ? p->attempts_without_commit : 0;
}

static const char *say_no_progress(const struct chief *chief)
{
    if (chief_is_uncounted(chief))
        return "attempts in a row were preempted before the first step (is a notice never over, or "
               "the start longer than the time limit?)";
    if (has_lost_all(chief))
        return "starts of this job, the last at the first step again: no record exists, and "
               "--checkpoint-dir DIR keeps the progress (if the program resumes by itself, set "
               "exit.no_progress_after to 0)";
    return "attempts in a row ended without a new commit";
}

/* Too many attempts without progress: replaces the outcome and the text of the end. `why`: that
 * text alone. */
static void call_no_progress(struct chief *chief, const char *why)
{
    const struct core_params *p = chief->params;
    int limit = p->no_progress_limit, attempts = 1 + attempts_before(chief);
    bool has_progressed = chief->has_committed && !has_lost_all(chief);
    if (limit <= 0 || has_progressed || !chief_brings_nothing(chief))
        return;
    if (attempts <
        (chief_is_uncounted(chief) && limit < WITHOUT_STEP_MAX ? WITHOUT_STEP_MAX : limit))
        return;
    char text[sizeof chief->order.why + 320];
    snprintf(text, sizeof text, "%d %s; the last: %s", attempts, say_no_progress(chief), why);
    chief->order.outcome = OUTCOME_NO_PROGRESS;
    chief->order.exit_code = verdict_code(&p->exit, OUTCOME_NO_PROGRESS, 0);
    str_fit(chief->order.why, sizeof chief->order.why, text);
}

/* The next order says how the job ends. A node is gone only after it has acted on that order. A
 * node that stays away is lost. */
static void await_all(struct chief *chief)
{
    chief->gen.end_seq = chief->order_seq + 1;
    chief->next_loss_at = chief->out->now;
    chief_note_all(chief);
}

void chief_give_up_stops(struct chief *chief)
{
    for (int i = 0; i < chief->params->nnodes; i++)
        chief->peers[i].stops_given_up = chief->peers[i].status.stop_asked;
    chief->is_changed = true;
    chief_note_all(chief);
}

/* A user has asked for a save and the end. The job ends now, so it must not start again. */
static bool stops_for_good(const struct chief *chief, enum outcome outcome)
{
    return any_is(chief, FACT_STOPS) &&
           (verdict_is_preempted(outcome) || verdict_gives_way(outcome));
}

/* The generation has saved for a notice and ended, so the job loses nothing when it ends now. */
static enum outcome outcome_of_end(const struct chief *chief, enum outcome outcome)
{
    if (stops_for_good(chief, outcome))
        return OUTCOME_STOPPED;
    bool is_saved = chief->order.outcome == OUTCOME_PREEMPTED;
    return is_saved && outcome == OUTCOME_PREEMPTED_UNSAVED ? OUTCOME_PREEMPTED : outcome;
}

void chief_tell_end(struct chief *chief, const struct chief_end *end)
{
    enum outcome outcome = outcome_of_end(chief, end->outcome);
    char why[sizeof chief->order.why] = "";
    await_all(chief);
    if (outcome == OUTCOME_STOPPED && end->outcome != OUTCOME_STOPPED)
        str_addf(why, sizeof why, "stopped by pchctl on node %d: ",
                 chief_rank_of(chief, chief_first(chief, FACT_STOPS)));
    str_addf(why, sizeof why, "%s", end->why); /* end->why may be order.why itself */
    str_copy(chief->order.why, sizeof chief->order.why, why);
    chief->order.outcome = (uint8_t)outcome;
    chief->order.exit_code = verdict_code(&chief->params->exit, outcome, end->code);
    chief->is_changed = true;
    if (chief->order.restart)
        return;
    if (reads_as_restart(chief))
        str_addf(chief->order.why, sizeof chief->order.why,
                 "; with this code a scheduler starts the job again, as after a preemption");
    call_no_progress(chief, end->why);
}

void chief_end(struct chief *chief, const struct chief_end *end)
{
    const struct core_params *p = chief->params;
    bool has_ended = chief->order.end != END_NONE && !chief->order.restart;
    if (has_ended || (end->restarts && chief_is_restarting(chief)))
        return;
    chief->order.restart = end->restarts;
    chief->order.leave = true;
    chief->order.measure = (struct peer_measure){0};
    if (chief_has_round(chief))
        chief_close_round(chief, chief_is_deciding(chief) ? PHASE_FAILED : PHASE_ABORTED, end->why);
    if (end->restarts)
        chief_give_up_stops(chief);
    chief_tell_end(chief, end);
    chief->order.end = END_STOP;
    chief->order.manner = (uint8_t)end->manner;
    chief->gen.stopped_at = chief->out->now;
    chief->gen.end_deadline = CLOCK_NEVER;
    if (chief->notice.is_live)
        chief->gen.end_deadline = chief->notice.deadline;
    bool is_for_notice = chief->notice.is_live && verdict_is_preempted(end->outcome);
    if (is_for_notice) /* no program needs longer than the lead, even if the deadline is far away */
        chief->gen.end_deadline =
            clock_min(chief->gen.end_deadline, chief->out->now + chief->notice.lead);
    chief->gen.leave_deadline =
        chief->out->now + p->exit_wait_ns + p->term_wait_ns + p->kill_wait_ns + NS_PER_S;
    if (is_for_notice && chief->gen.end_deadline > chief->out->now)
        chief->gen.leave_deadline += chief->gen.end_deadline - chief->out->now;
}

enum peer_manner chief_asks_by(const struct chief *chief)
{
    return chief->params->save_mode == SAVE_SIGNAL ? MANNER_ASK : MANNER_FORWARD;
}

void chief_stop(struct chief *chief, enum outcome outcome, int code, const char *why)
{
    chief_end(chief, &(struct chief_end){
                         .outcome = outcome, .code = code, .manner = MANNER_STOP, .why = why});
}

void chief_give_up(struct chief *chief, enum peer_phase phase, const char *why)
{
    char text[sizeof chief->order.why];
    str_copy(text, sizeof text, why); /* `why` may be order.why itself */
    /* If every rank is done, the job ends with success instead. After a sleep through the deadline
     * the ranks get time to say so. */
    chief->gen.wants_to_end =
        chief->gen.wants_to_end && !all_are(chief, FACT_DONE) && !chief_hears_late_news(chief);
    close_round(chief, phase, text, chief->gen.wants_to_end ? "" : text);
    if (chief->gen.wants_to_end)
        chief_end(chief, &(struct chief_end){.outcome = OUTCOME_PREEMPTED_UNSAVED,
                                             .manner = MANNER_LEAVE,
                                             .why = text});
}

const char *chief_how_to_attach(const struct chief *chief)
{
    return chief->params->is_instrumented
               ? "--instrument attaches programs of Trainer, Lightning and Keras only; see also "
                 "--save-mode signal"
               : "see --instrument and --save-mode signal";
}
