/* SPDX-License-Identifier: Apache-2.0
 * See chief.h.
 */
#include "core/chief.h"

#include "base/clock.h"
#include "base/str.h"
#include "core/grace.h"
#include "core/ranks.h"
#include "core/verdict.h"

#include <stdio.h>
#include <string.h>

#define FAULT_PAUSE_NS (200 * NS_PER_MS)

void chief_init(struct chief *chief, const struct core_params *params, struct peer *peers,
                struct out *out)
{
    memset(chief, 0, sizeof *chief);
    chief->params = params;
    chief->out = out;
    chief->peers = peers;
    chief->order.commit_step = params->resume_step;
    chief->order_seq = 1;
    chief->next_loss_at = chief->next_word_at = CLOCK_NEVER;
    chief->end_deadline = chief->leave_deadline = CLOCK_NEVER;
    chief->notice.deadline = CLOCK_NEVER;
    chief->stride = stride_make(0, 1);
    memset(peers, 0, (size_t)params->nnodes * sizeof peers[0]);
    for (int i = 0; i < params->nnodes; i++) {
        peers[i].down_at = CLOCK_NEVER;
        peers[i].notice_deadline = CLOCK_NEVER;
    }
}

/* --- facts --- */

void chief_set_fact(struct chief *chief, struct peer *peer, enum fact fact, bool holds)
{
    unsigned bit = 1U << fact;
    if (!(peer->facts & bit) == !holds)
        return;
    peer->facts ^= bit;
    chief->count[fact] += holds ? 1 : -1;
    if (fact == FACT_JOINED || fact == FACT_LOST || fact == FACT_GONE)
        chief_set_fact(chief, peer, FACT_THERE,
                       peer_is(peer, FACT_JOINED) && !peer_is(peer, FACT_GONE) &&
                           !peer_is(peer, FACT_LOST));
}

int chief_rank_of(const struct chief *chief, const struct peer *peer)
{
    return (int)(peer - chief->peers);
}

struct peer *chief_first(const struct chief *chief, enum fact fact)
{
    for (int i = 0; i < chief->params->nnodes; i++)
        if (peer_is(&chief->peers[i], fact))
            return &chief->peers[i];
    return NULL;
}

static void note_round(struct chief *chief, struct peer *peer)
{
    const struct peer_status *s = &peer->status;
    bool is_round = chief->round > 0 && peer->stamp.round == chief->round;
    bool is_ballot = is_round && peer->stamp.ballot == chief->ballot;
    bool is_all = s->expected != PEERMSG_UNKNOWN && s->saved == s->expected;
    chief_set_fact(chief, peer, FACT_VOTED, is_ballot && s->vote != VOTE_NONE);
    chief_set_fact(chief, peer, FACT_NACK, is_ballot && s->vote == VOTE_NACK);
    chief_set_fact(chief, peer, FACT_SAVED,
                   is_round && is_all && (s->prepared || s->expected == 0) && !s->mismatch);
    chief_set_fact(chief, peer, FACT_SOME_SAVED, is_round && s->saved > 0);
    chief_set_fact(chief, peer, FACT_BAD,
                   is_round && (s->failed || s->mismatch || s->save_error[0]));
    chief_set_fact(chief, peer, FACT_SOME_ENDED, is_round && s->ended > 0);
    chief_set_fact(chief, peer, FACT_SERVED, is_round && s->served >= s->attached);
    chief_set_fact(chief, peer, FACT_SETTLED,
                   is_round && s->saved + s->ended + s->failed >= s->attached);
    chief_set_fact(chief, peer, FACT_CLOSED, is_round && s->closed);
    chief_set_fact(chief, peer, FACT_WAITS, is_round && s->all_wait);
}

static void note_own(struct chief *chief, struct peer *peer)
{
    const struct peer_status *s = &peer->status;
    chief_set_fact(chief, peer, FACT_OWN,
                   s->expected == 0 || (s->own_step > chief->order.commit_step &&
                                        s->own_step > chief->order.own_closed));
}

void chief_note(struct chief *chief, struct peer *peer)
{
    const struct peer_status *s = &peer->status;
    bool has = peer->seq > 0; /* a STATUS has come at all */
    bool is_known = has && s->expected != PEERMSG_UNKNOWN;
    chief_set_fact(chief, peer, FACT_COMPLETE, is_known && s->attached == s->expected);
    chief_set_fact(chief, peer, FACT_LIVE, is_known && s->live == s->expected);
    chief_set_fact(chief, peer, FACT_ATTACHED, has && s->attached > 0);
    chief_set_fact(chief, peer, FACT_STEPPED, has && s->stepped);
    chief_set_fact(chief, peer, FACT_DONE, is_known && s->done == s->expected);
    chief_set_fact(chief, peer, FACT_ENDED,
                   has && (s->life == LIFE_ENDED || s->life == LIFE_FINISHED));
    chief_set_fact(chief, peer, FACT_FINISHED, has && s->life == LIFE_FINISHED);
    chief_set_fact(chief, peer, FACT_KNOWS, has && s->knows_notice);
    chief_set_fact(chief, peer, FACT_FAULT, has && s->fault != FAULT_NONE);
    chief_set_fact(chief, peer, FACT_GONE, has && s->life == LIFE_GONE);
    chief_set_fact(chief, peer, FACT_LISTED, is_known && (s->expected == 0 || s->roster[0]));
    note_own(chief, peer);
    note_round(chief, peer);
}

void chief_note_all(struct chief *chief)
{
    for (int i = 0; i < chief->params->nnodes; i++) {
        note_round(chief, &chief->peers[i]);
        note_own(chief, &chief->peers[i]);
    }
}

/* --- the order --- */

static int32_t left_ms(const struct chief *chief, int64_t deadline)
{
    if (deadline == CLOCK_NEVER)
        return -1;
    int64_t left = (deadline - chief->out->now) / NS_PER_MS;
    return left < 0 ? 0 : (int32_t)clock_min(left, INT32_MAX);
}

void chief_send_order(struct chief *chief, int conn, uint64_t echo)
{
    struct peermsg msg = {.type = PEERMSG_ORDER,
                          .stamp = {.attempt = chief->params->attempt,
                                    .generation = chief->params->generation,
                                    .round = chief->round,
                                    .ballot = chief->ballot,
                                    .seq = chief->order_seq},
                          .order = chief->order};
    msg.order.echo = echo;
    msg.order.end_left_ms = left_ms(chief, chief->end_deadline);
    msg.order.has_notice = chief->notice.is_live;
    msg.order.notice_node = chief->notice.node;
    if (chief->notice.is_live)
        msg.order.notice_left_ns = chief->notice.deadline - chief->out->now;
    out_send(chief->out, conn, &msg);
}

/* To the others first: our own node may leave on it. */
static void send_order_to_all(struct chief *chief)
{
    chief->order_seq++;
    chief->is_changed = false;
    for (int i = chief->params->nnodes - 1; i >= 0; i--) {
        chief_tell_claim(chief, &chief->peers[i]);
        if (peer_is(&chief->peers[i], FACT_JOINED))
            chief_send_order(chief, chief->peers[i].at.conn, 0);
    }
}

/* --- messages --- */

static struct peer *anchor_of(const struct chief *chief, int conn)
{
    return &chief->peers[conn % chief->params->nnodes];
}

/* NULL: nobody's. */
static struct peer *of_conn(const struct chief *chief, int conn)
{
    struct peer *peer = anchor_of(chief, conn)->anchored;
    while (peer && peer->at.conn != conn)
        peer = peer->next;
    return peer;
}

void chief_set_conn(struct chief *chief, struct peer *peer, int conn)
{
    struct peer **at = &anchor_of(chief, peer->at.conn)->anchored;
    while (*at && *at != peer)
        at = &(*at)->next;
    if (*at)
        *at = peer->next;
    peer->at.conn = conn;
    if (conn == CONN_NONE)
        return;
    struct peer *anchor = anchor_of(chief, conn);
    peer->next = anchor->anchored;
    anchor->anchored = peer;
}

/* Steps per time, smoothed, for guessing where a node stands by now. Not every STATUS comes with
 * steps that were read for it, so the time is that between two changes. */
static void note_rate(struct chief *chief, struct peer *peer, uint64_t highest)
{
    int64_t took = chief->out->now - peer->moved_at;
    if (highest == peer->status.highest)
        return;
    peer->moved_at = chief->out->now;
    /* Only between steps that were trained: attaching with the step of a checkpoint is no pace. */
    if (!peer->status.stepped || took < NS_PER_MS * 10 || highest < peer->status.highest)
        return;
    double rate = (double)(highest - peer->status.highest) / (double)took;
    peer->rate = peer->rate > 0 ? (peer->rate + rate) / 2 : rate;
}

static void take_notice(struct chief *chief, struct peer *peer, const struct peer_status *s)
{
    int64_t deadline = s->has_notice ? chief->out->now + s->notice_left_ns : CLOCK_NEVER;
    /* The same notice told again: only the time on the wire differs, and never moves it back. */
    bool is_same = peer->notice_deadline != CLOCK_NEVER && s->has_notice &&
                   deadline < peer->notice_deadline + 2 * chief->params->heartbeat_timeout_ns;
    if (is_same)
        deadline = clock_min(deadline, peer->notice_deadline);
    uint32_t hurry = s->has_notice ? s->notice_hurry : 0;
    chief->notice_changed =
        chief->notice_changed || deadline != peer->notice_deadline || hurry != peer->notice_hurry;
    peer->notice_deadline = deadline;
    peer->notice_hurry = hurry;
}

static uint64_t step_within(uint64_t step)
{
    return step <= RANKS_STEP_MAX ? step : RANKS_STEP_MAX;
}

/* What a peer says is held to what can be, so that no sum of it overflows. */
static void hold_within(struct peer_status *s)
{
    s->highest = step_within(s->highest);
    s->lowest = step_within(s->lowest);
    s->saved_step = step_within(s->saved_step);
    s->own_step = step_within(s->own_step);
    s->own_failed = step_within(s->own_failed);
    s->last_step = step_within(s->last_step);
    if (s->rtt_ns > (uint64_t)GRACE_MAX_NS)
        s->rtt_ns = 0;
    s->notice_left_ns = grace_clamp(s->notice_left_ns);
    s->fault_ago_ns = grace_clamp(s->fault_ago_ns);
}

static void on_status(struct chief *chief, struct peer *peer, const struct peermsg *msg)
{
    if (msg->stamp.attempt != chief->params->attempt ||
        msg->stamp.generation != chief->params->generation || msg->stamp.seq <= peer->seq)
        return;
    struct peer_status held = msg->status;
    const struct peer_status *s = &held;
    hold_within(&held);
    note_rate(chief, peer, s->highest);
    take_notice(chief, peer, s);
    char roster[sizeof s->roster];
    str_copy(roster, sizeof roster, peer->status.roster);
    chief->checkpoints += s->checkpoint_asked - peer->status.checkpoint_asked;
    chief->own_failed = s->own_failed > chief->own_failed ? s->own_failed : chief->own_failed;
    peer->seq = msg->stamp.seq;
    peer->stamp = msg->stamp;
    peer->status = *s;
    peer->status_at = peer->last_heard = chief->out->now;
    chief_refuse_claim(chief, peer);
    if (!s->roster[0]) /* told before: the chief's word for it is in the order */
        str_copy(peer->status.roster, sizeof peer->status.roster, roster);
    chief_note(chief, peer);
    if (s->wants_reply)
        chief_send_order(chief, peer->at.conn, msg->stamp.seq);
}

void chief_reset(struct chief *chief, struct peer *peer)
{
    chief->checkpoints -= peer->status.checkpoint_asked;
    memset(&peer->status, 0, sizeof peer->status);
    peer->status.expected = PEERMSG_UNKNOWN;
    peer->seq = 0;
}

static void on_bye(struct chief *chief, struct peer *peer)
{
    if (!chief->order.start)
        chief_set_fact(chief, peer, FACT_JOINED, false);
    else if (!peer_is(peer, FACT_LOST) && !peer_is(peer, FACT_GONE))
        chief_lose(chief, peer, "its supervisor has left");
}

void chief_message(struct chief *chief, int conn, const struct peermsg *msg, const char *from)
{
    if (msg->type == PEERMSG_HELLO) {
        chief_hello(chief, conn, msg, from);
        return;
    }
    struct peer *peer = of_conn(chief, conn);
    if (!peer)
        return;
    if (msg->type == PEERMSG_STATUS)
        on_status(chief, peer, msg);
    else if (msg->type == PEERMSG_BYE)
        on_bye(chief, peer);
}

static void on_down(struct chief *chief, const struct event *event)
{
    struct peer *peer = of_conn(chief, event->peer.conn);
    if (!peer) {
        chief_forget_claim(chief, event->peer.conn);
        return;
    }
    chief_set_conn(chief, peer, CONN_NONE);
    peer->down_at = chief->out->now;
    if (!peer_is(peer, FACT_LOST) && !peer_is(peer, FACT_GONE))
        out_log(chief->out, LOG_INFO, "peers", "node %d (%s): the connection is closed: %s",
                chief_rank_of(chief, peer), peer->at.host, event->peer.why ? event->peer.why : "");
    chief->next_loss_at =
        clock_min(chief->next_loss_at, peer->down_at + chief->params->reconnect_ns);
    if (!chief->order.start)
        chief_unjoin(chief, peer);
}

void chief_event(struct chief *chief, const struct event *event)
{
    switch (event->type) {
    case EV_START:
        chief->started_at = chief->out->now;
        chief->word_gap = CHIEF_FIRST_WORD_NS;
        chief->next_word_at = chief->out->now + chief->word_gap;
        break;
    case EV_PEER_DOWN:
        on_down(chief, event);
        break;
    case EV_COMMITTED:
        chief_committed(chief, event->written.err);
        break;
    default:
        break;
    }
}

/* --- the end --- */

static void close_for_end(struct chief *chief, const struct chief_end *end)
{
    if (chief->order.phase == PHASE_DECIDED)
        chief_close_round(chief, PHASE_FAILED, end->why);
    else if (chief->order.phase == PHASE_PROPOSED)
        chief_close_round(chief, PHASE_ABORTED, end->why);
}

void chief_end(struct chief *chief, const struct chief_end *end)
{
    const struct core_params *p = chief->params;
    if (chief->order.end != END_NONE)
        return;
    enum outcome outcome = end->outcome;
    bool is_stuck = verdict_is_restart(outcome) && !chief->has_committed &&
                    p->no_progress_limit > 0 &&
                    p->attempts_without_commit + 1 >= p->no_progress_limit;
    chief->order.leave = true;
    close_for_end(chief, end);
    str_copy(chief->order.why, sizeof chief->order.why, end->why);
    if (is_stuck) {
        outcome = OUTCOME_NO_PROGRESS;
        snprintf(chief->order.why, sizeof chief->order.why,
                 "%d attempts in a row ended without a new commit; the last: %.250s",
                 p->attempts_without_commit + 1, end->why);
    }
    chief->order.end = END_STOP;
    chief->order.manner = (uint8_t)end->manner;
    chief->order.outcome = (uint8_t)outcome;
    chief->order.exit_code = verdict_code(&p->exit, outcome, end->code);
    chief->end_deadline = chief->notice.is_live ? chief->notice.deadline : CLOCK_NEVER;
    chief->leave_deadline =
        chief->out->now + p->exit_wait_ns + p->term_wait_ns + p->kill_wait_ns + NS_PER_S;
    if (chief->notice.is_live && chief->notice.deadline > chief->out->now)
        chief->leave_deadline += chief->notice.deadline - chief->out->now;
    chief->is_changed = true;
}

static int64_t fault_at(const struct peer *peer)
{
    return peer->status_at - peer->status.fault_ago_ns;
}

/* NULL: nothing has failed. */
static const struct peer *first_fault(const struct chief *chief)
{
    const struct peer *first = NULL;
    for (int i = 0; any_is(chief, FACT_FAULT) && i < chief->params->nnodes; i++) {
        const struct peer *peer = &chief->peers[i];
        if (peer_is(peer, FACT_FAULT) && (!first || fault_at(peer) < fault_at(first)))
            first = peer;
    }
    return first;
}

/* Until when it is not known what a fault comes from: a node that goes is missed by the processes
 * of the others before we see its connection closed. */
static int64_t fault_due_at(const struct chief *chief, const struct peer *fault)
{
    uint8_t kind = fault->status.fault;
    bool may_follow = kind == FAULT_EXIT || kind == FAULT_SIGNAL || kind == FAULT_SILENT;
    return chief->params->nnodes > 1 && may_follow ? fault_at(fault) + FAULT_PAUSE_NS
                                                   : fault_at(fault);
}

/* What fails when a node has gone fails because of that. Whether it has gone, and not only its
 * connection, is known when it may no longer come back. */
static bool may_follow_from_loss(const struct chief *chief, const struct peer *fault)
{
    if (chief->out->now < fault_due_at(chief, fault))
        return true;
    for (int i = 0; i < chief->params->nnodes; i++) {
        const struct peer *peer = &chief->peers[i];
        if (peer != fault && peer_is(peer, FACT_JOINED) && !peer_is(peer, FACT_GONE) &&
            peer->down_at <= fault_due_at(chief, fault))
            return true;
    }
    return false;
}

static void end_by_fault(struct chief *chief, const struct peer *first)
{
    const struct peer_status *s = &first->status;
    char why[320] = "";
    str_addf(why, sizeof why, "node %d: ", chief_rank_of(chief, first));
    if (s->fault_rank >= 0)
        str_addf(why, sizeof why, "rank %d, ", s->fault_rank);
    str_addf(why, sizeof why, "%s", s->fault_text);
    struct chief_end end = {.outcome =
                                s->fault == FAULT_START ? OUTCOME_NOT_STARTED : OUTCOME_FAILED,
                            .code = s->fault_code,
                            .manner = MANNER_STOP,
                            .why = why};
    /* A notice once given holds: what fails after it was preempted. */
    if (chief->notice.is_live && s->fault != FAULT_START)
        end.outcome = OUTCOME_PREEMPTED_UNSAVED;
    chief_end(chief, &end);
}

static void decide_leave(struct chief *chief)
{
    if (chief->order.end != END_STOP)
        return;
    if (any_is(chief, FACT_THERE) && chief->out->now < chief->leave_deadline)
        return;
    chief->order.end = END_LEAVE;
    chief->is_changed = true;
}

/* --- all decisions --- */

static void decide_finished(struct chief *chief)
{
    if (!all_are(chief, FACT_FINISHED) || chief->writing != COMMIT_NOTHING)
        return;
    struct chief_end end = {.outcome = OUTCOME_COMPLETED,
                            .manner = MANNER_STOP,
                            .why = "every process has ended with success"};
    if (chief->notice.is_live && !chief->is_trained && !all_are(chief, FACT_DONE)) {
        end.outcome = OUTCOME_PREEMPTED_UNSAVED;
        end.why = "the processes ended after the notice without having said that they were done";
    }
    chief_end(chief, &end);
}

static void decide_running(struct chief *chief)
{
    const struct peer *fault = first_fault(chief);
    if (fault && !may_follow_from_loss(chief, fault)) {
        end_by_fault(chief, fault);
        return;
    }
    if (chief_losses_matter(chief)) {
        chief_end_by_loss(chief);
        return;
    }
    if (!chief_check_roster(chief))
        return;
    chief_decide_round(chief);
    if (chief->order.end == END_NONE)
        decide_finished(chief);
    if (chief->order.end == END_NONE)
        chief_decide_notice(chief);
    if (chief->order.end == END_NONE)
        chief_decide_checkpoint(chief);
}

void chief_decide(struct chief *chief)
{
    chief_look_for_losses(chief);
    chief_gather_notices(chief);
    chief->is_trained = chief->is_trained || (all_are(chief, FACT_ENDED) && !chief->notice.is_live);
    if (chief->order.end == END_NONE && !chief->order.start)
        chief_decide_join(chief);
    else if (chief->order.end == END_NONE)
        decide_running(chief);
    decide_leave(chief);
    if (chief->is_changed)
        send_order_to_all(chief);
}

int64_t chief_wake_at(const struct chief *chief)
{
    int64_t wake = chief->next_loss_at;
    if (chief->order.end == END_LEAVE)
        return CLOCK_NEVER;
    if (chief->order.end == END_STOP)
        return clock_min(wake, chief->leave_deadline);
    if (!chief->order.start)
        wake = clock_min(wake, chief_join_wake_at(chief));
    if (chief->writing != COMMIT_ROUND)
        wake = clock_min(wake, chief_abort_at(chief));
    const struct peer *fault = first_fault(chief);
    if (fault && fault_due_at(chief, fault) > chief->out->now)
        wake = clock_min(wake, fault_due_at(chief, fault));
    return clock_min(wake, chief_round_wake_at(chief));
}

void chief_forgive(struct chief *chief)
{
    /* Who has not said yet that it is gone gets the time to come back and say so. */
    int64_t back = chief->out->now + 2 * chief->params->reconnect_ns;
    if (chief->leave_deadline < back)
        chief->leave_deadline = back;
    for (int i = 0; i < chief->params->nnodes; i++) {
        struct peer *peer = &chief->peers[i];
        peer->last_heard = chief->out->now;
        if (peer->down_at != CLOCK_NEVER)
            peer->down_at = chief->out->now;
    }
}
