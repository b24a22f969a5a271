/* SPDX-License-Identifier: Apache-2.0
 * See chief.h; the functions of the other files are in chief_parts.h.
 */
#include "core/chief/chief.h"

#include "base/clock.h"
#include "base/str.h"
#include "core/chief/chief_parts.h"
#include "core/common/grace.h"
#include "core/common/ranks.h"

#include <string.h>

/* How long the end of the training waits for saves that are not recorded yet. */
#define DRAIN_NS (60 * NS_PER_S)

_Static_assert(FACT__COUNT <= 64, "facts are bits");

void chief_init(struct chief *chief, const struct core_params *params, struct peer *peers,
                struct out *out)
{
    chief->params = params;
    chief->out = out;
    chief->peers = peers;
    chief->order.commit_step = chief->mark.commit_step = params->resume_step;
    chief->order_seq = 1;
    chief->next_loss_at = chief->next_spare_at = chief->join.at = CLOCK_NEVER;
    chief_begin_generation(chief);
    chief->notice.deadline = CLOCK_NEVER;
    chief->save_ns = params->save_ns;
    chief->saves_seen = params->save_ns > 0;
    chief->start_ns = params->start_ns;
    chief->end_ns = params->end_ns;
    chief->every_ns = params->every_ns;
    chief->restart = (struct restart){.policy = &params->restart, .random = params->incarnation};
    memset(peers, 0, (size_t)params->nnodes * sizeof peers[0]);
    for (int i = 0; i < params->nnodes; i++) {
        peers[i].down_at = CLOCK_NEVER;
        peers[i].notice_deadline = CLOCK_NEVER;
    }
}

/* --- the order --- */

/* Node 0 comes last, because this order may end its own supervisor. */
static void send_order_to_all(struct chief *chief)
{
    chief->order_seq++;
    chief->is_changed = false;
    if (chief->order.end == END_LEAVE)
        chief_end_spares(chief);
    for (int i = chief->params->nnodes - 1; i >= 0; i--) {
        chief_tell_duplicate(chief, &chief->peers[i]);
        if (peer_is(&chief->peers[i], FACT_JOINED))
            chief_send_order(chief, chief->peers[i].at.conn, 0);
    }
}

/* --- messages --- */

/* The time that a message travels makes the same deadline look up to this much earlier or later. */
#define WIRE_NS (10 * NS_PER_MS)

static void take_notice(struct chief *chief, struct peer *peer, const struct peer_status *s)
{
    int64_t deadline = s->has_notice ? chief->out->now + s->notice_left_ns : CLOCK_NEVER;
    /* If a notice is reported again, its deadline differs only by the time that the message
     * travelled. The deadline stays: a change would send a new order to all nodes each time. */
    if (s->has_notice && s->notice_version == peer->notice_version &&
        deadline > peer->notice_deadline - WIRE_NS)
        deadline = peer->notice_deadline;
    peer->notice_version = s->notice_version;
    peer->notice_lead = s->notice_lead_ns;
    uint32_t hurry = s->has_notice ? s->notice_hurry : 0;
    bool is_guess = s->has_notice && s->notice_is_guess;
    bool has_signal = s->has_notice && s->notice_has_signal;
    chief->notice_changed = chief->notice_changed || deadline != peer->notice_deadline ||
                            is_guess != peer->notice_is_guess ||
                            has_signal != peer->notice_has_signal || hurry != peer->notice_hurry;
    peer->notice_is_guess = is_guess;
    peer->notice_has_signal = has_signal;
    peer->notice_deadline = deadline;
    peer->notice_hurry = hurry;
}

static uint64_t step_within(uint64_t step)
{
    return step <= RANKS_STEP_MAX ? step : RANKS_STEP_MAX;
}

/* 1 + a rank; a number that no rank has counts as none. */
static uint32_t rank_within(uint32_t number)
{
    return number <= CORE_WORLD_MAX ? number : 0;
}

/* A peer's numbers are clamped, so that no sum of them overflows. */
static void hold_within(struct peer_status *s)
{
    s->highest = step_within(s->highest);
    s->lowest = step_within(s->lowest);
    s->saved_step = step_within(s->saved_step);
    s->own_step = step_within(s->own_step);
    s->own_failed = step_within(s->own_failed);
    s->last_step = step_within(s->last_step);
    s->need.whole = rank_within(s->need.whole);
    for (int i = 0; i < PEERMSG_NEEDS; i++)
        s->need.declares[i] = rank_within(s->need.declares[i]);
    if (s->rtt_ns > (uint64_t)GRACE_MAX_NS)
        s->rtt_ns = 0;
    s->notice_left_ns = grace_clamp(s->notice_left_ns);
    s->notice_lead_ns = grace_clamp(s->notice_lead_ns);
    s->end_ns = grace_clamp(s->end_ns);
    s->watch.behind_step = step_within(s->watch.behind_step);
    s->watch.still_ns = grace_clamp(s->watch.still_ns);
    s->watch.limit_ns = grace_clamp(s->watch.limit_ns);
    s->watch.patience_ns = grace_clamp(s->watch.patience_ns);
}

static void on_status(struct chief *chief, struct peer *peer, const struct peermsg *msg)
{
    if (msg->stamp.attempt != chief->params->attempt)
        return;
    bool is_lost = peer_is(peer, FACT_LOST);
    /* Also to a heartbeat that a later message, or the next generation, has overtaken. An answer
     * renews the node's lease, so a lost node gets only the order. */
    if (msg->status.wants_reply)
        chief_send_order(chief, peer->at.conn, is_lost ? 0 : msg->status.sent_ns);
    if (msg->status.wants_reply && !is_lost)
        peer->answered_at = chief->out->now;
    if (peer_is(peer, FACT_VACANT)) {
        chief_hear_vacant(chief, peer, msg);
        return;
    }
    if (msg->stamp.generation != chief->generation || msg->stamp.seq <= peer->stamp.seq)
        return;
    struct peer_status *s = &peer->status;
    uint32_t asked = s->checkpoint_asked;
    uint64_t highest = s->highest;
    struct peer_own own = s->own;
    *s = msg->status;
    hold_within(s);
    chief_note_steps(chief, peer, highest);
    chief_note_highest(chief, highest, s->highest);
    chief_note_slow(chief, peer, &own);
    chief_note_lines(chief, peer);
    take_notice(chief, peer, s);
    peer->interrupted_at =
        s->interrupted_by ? clock_min(peer->interrupted_at, chief->out->now) : CLOCK_NEVER;
    chief->checkpoints += s->checkpoint_asked - asked;
    chief->gen.own_failed =
        s->own_failed > chief->gen.own_failed ? s->own_failed : chief->gen.own_failed;
    chief_note_uncommitted(chief, s->own_failed);
    if (s->loading_ns > chief->gen.loading_ns)
        chief->gen.loading_ns = s->loading_ns;
    if (s->roster[0])
        str_copy(peer->roster, sizeof peer->roster, s->roster);
    peer->stamp = msg->stamp;
    peer->status_at = peer->last_heard = chief->out->now;
    if (s->wants_reply)
        peer->read_at = chief->out->now;
    chief_refuse_duplicate(chief, peer);
    chief_note_strike(chief, peer, &msg->cause);
    if (!chief_lose_unable(chief, peer, &msg->cause))
        chief_note_fault(chief, peer, &msg->cause);
    chief_note(chief, peer);
    if (s->wants_reply && peer->at.conn == CONN_SELF)
        chief_hold_duplicates(chief);
}

/* A node leaves if it hears nothing of node 0 for too long. So node 0 says whether it has just
 * stood still itself. */
static void lose_gone(struct chief *chief, struct peer *peer)
{
    char why[sizeof peer->lost_why] = "its supervisor has reported its own end", text[32];
    int64_t away = chief->away_until - chief->away_since;
    int64_t silence = away + 2 * chief->params->heartbeat_interval_ns;
    if (silence >= chief->params->heartbeat_timeout_ns &&
        chief->out->now - chief->away_until < chief->params->reconnect_ns)
        str_addf(why, sizeof why, "; node 0 had stood still for %s",
                 str_about(away, text, sizeof text));
    chief_lose(chief, peer, why);
}

static void on_bye(struct chief *chief, struct peer *peer)
{
    if (!chief->order.start) {
        peer->went_at = chief->out->now;
        chief_set_fact(chief, peer, FACT_JOINED, false);
    }
    chief_lower_fence(chief, peer);
    if (peer_is(peer, FACT_VACANT))
        return;
    if (chief->order.start && chief_is_awaited(chief, peer))
        lose_gone(chief, peer);
}

void chief_message(struct chief *chief, int conn, const struct peermsg *msg, const char *from)
{
    if (msg->type == PEERMSG_HELLO) {
        chief_hello(chief, conn, msg, from);
        return;
    }
    struct peer *peer = chief_of_conn(chief, conn);
    if (msg->stamp.epoch != chief->params->epoch)
        return;
    if (!peer)
        chief_hear_spare(chief, conn, msg);
    else if (msg->type == PEERMSG_STATUS)
        on_status(chief, peer, msg);
    else if (msg->type == PEERMSG_BYE)
        on_bye(chief, peer);
}

static void on_down(struct chief *chief, const struct event *event)
{
    struct peer *peer = chief_of_conn(chief, event->peer.conn);
    if (!peer) {
        chief_forget_duplicate(chief, event->peer.conn);
        chief_spare_down(chief, event->peer.conn, event->peer.why);
        return;
    }
    chief_set_conn(chief, peer, CONN_NONE);
    peer->down_at = peer->went_at = chief->out->now;
    if (chief_is_awaited(chief, peer))
        out_log(chief->out, LOG_INFO, "peers", "node %d (%s): the connection is closed: %s%s",
                chief_rank_of(chief, peer), peer->at.host, event->peer.why ? event->peer.why : "",
                chief_is_joining(chief) ? "; node 0 waits until it joins again" : "");
    chief->next_loss_at =
        clock_min(chief->next_loss_at, peer->down_at + chief->params->reconnect_ns);
    if (!chief->order.start)
        chief_unjoin(chief, peer);
    else if (event->peer.has_ended && chief_is_awaited(chief, peer))
        chief_lose(chief, peer, "its supervisor has ended without reporting it");
}

void chief_event(struct chief *chief, const struct event *event)
{
    switch (event->type) {
    case EV_START:
        chief->started_at = chief->out->now;
        chief->misses_at = chief->out->now + chief->params->join_timeout_ns / 10;
        reminder_begin(&chief->join, chief->out->now);
        break;
    case EV_PEER_DOWN:
        on_down(chief, event);
        break;
    case EV_PEER_STRANGE: /* already logged */
        str_fit(chief->refusal, sizeof chief->refusal, event->peer.why);
        break;
    case EV_COMMITTED:
        chief_committed(chief, event->unwritten);
        break;
    default:
        break;
    }
}

/* --- all decisions --- */

/* A job that is preempted before its start begins again later. A node that is just joining, or a
 * spare that was called, does not know of the notice: without node 0 it would wait for the join,
 * and end with an error. So node 0 stays as long as a reconnect may take, even if the notice is
 * withdrawn. It stays no longer: the deadline may be a guess, and nothing is left to save. If a
 * node cannot start, node 0 stays for a while, unless it is told to end. CLOCK_NEVER: it does not
 * stay.
 */
static int64_t tells_until(const struct chief *chief)
{
    bool has_failed = chief_cannot_start(chief);
    bool is_told = chief->notice.is_live || any_is(chief, FACT_INTERRUPTED);
    if (chief->order.end != END_STOP || chief->order.start || !chief->tell_until ||
        (has_failed && is_told))
        return CLOCK_NEVER;
    for (int i = 0; i < chief->params->nnodes; i++) {
        const struct peer *peer = &chief->peers[i];
        if (chief_is_called_to(chief, peer) ||
            (!peer_is(peer, FACT_GONE) && !peer_is(peer, FACT_LOST)))
            return chief->tell_until;
    }
    return CLOCK_NEVER;
}

static void decide_leave(struct chief *chief)
{
    int64_t until = tells_until(chief);
    if (chief->order.end != END_STOP || chief->order.restart)
        return;
    if (any_is(chief, FACT_THERE) && chief->out->now < chief->gen.leave_deadline)
        return;
    if (until != CLOCK_NEVER && chief->out->now < until)
        return;
    chief->order.end = END_LEAVE;
    chief->is_changed = true;
    chief_note_end(chief);
    if (chief_is_uncounted(chief))
        out_act(chief->out,
                &(struct action){.type = ACT_UNCOUNT, .has_no_step = chief_brings_nothing(chief)});
    else if (chief->end_ns != chief->params->end_ns)
        out_act(chief->out, &(struct action){.type = ACT_NOTE_END, .end_ns = chief->end_ns});
}

uint64_t chief_last_step(const struct chief *chief)
{
    return chief->highest;
}

uint64_t chief_longest_loading(const struct chief *chief)
{
    return chief->gen.loading_ns;
}

bool chief_has_ranks(const struct chief *chief)
{
    return any_is(chief, FACT_ATTACHED);
}

int64_t chief_saves_every(const struct chief *chief)
{
    return chief->params->save_mode == SAVE_ATTACH ? chief->every_ns : 0;
}

uint64_t chief_uncommitted(const struct chief *chief)
{
    return chief->gen.uncommitted > chief->order.commit_step ? chief->gen.uncommitted : 0;
}

/* The job succeeded, but some saves may not be committed: the text says which checkpoint counts. */
static const char *say_success(const struct chief *chief, char *text, size_t size)
{
    str_copy(text, size, "every process has ended with success");
    if (!chief_uncommitted(chief))
        return text;
    if (chief->order.commit_step)
        str_addf(text, size, "; the last commit is of step %llu: later saves",
                 ull(chief->order.commit_step));
    else
        str_addf(text, size, "; nothing is committed: saves");
    str_addf(text, size, " up to step %llu were not committed", ull(chief->gen.uncommitted));
    return text;
}

static void note_undrained(struct chief *chief)
{
    for (int i = 0; i < chief->params->nnodes; i++)
        if (peer_is(&chief->peers[i], FACT_OWN_MORE))
            chief_note_uncommitted(chief, chief->peers[i].status.own_step);
}

/* Until when the end waits for the program's own saves; CLOCK_NEVER: it waits for none. */
static int64_t drains_until(const struct chief *chief)
{
    bool drains = all_are(chief, FACT_FINISHED) && any_is(chief, FACT_OWN_MORE) &&
                  chief->order.end == END_NONE;
    int64_t until = chief->gen.finished_at + DRAIN_NS;
    if (chief->notice.is_live)
        until = clock_min(until, chief->notice.deadline -
                                     grace_margin(chief->notice.deadline - chief->notice.at));
    return drains ? until : CLOCK_NEVER;
}

static bool says_finished(const struct chief *chief, const struct peer *peer)
{
    return peer->status.life == LIFE_FINISHED;
}

static void complete(struct chief *chief)
{
    char text[160];
    chief_say_unsaveable(chief);
    chief_stop(chief, OUTCOME_COMPLETED, 0, say_success(chief, text, sizeof text));
}

static void decide_finished(struct chief *chief)
{
    if (!all_are(chief, FACT_FINISHED) || chief->writing != COMMIT_NOTHING)
        return;
    if (!chief->gen.finished_at)
        chief->gen.finished_at = chief->out->now;
    int64_t until = drains_until(chief);
    if (until != CLOCK_NEVER && chief->out->now < until)
        return;
    if (!PROMISE(5, chief->out, chief_all_say(chief, says_finished)))
        return;
    if (until != CLOCK_NEVER)
        note_undrained(chief);
    if (chief->notice.is_live && !chief->gen.is_trained)
        chief_stop(chief, OUTCOME_PREEMPTED_UNSAVED, 0,
                   "the processes ended after the notice, and not every rank is known to be done");
    else
        complete(chief);
}

static void decide_running(struct chief *chief)
{
    static void (*const decisions[])(struct chief *) = {
        chief_decide_round,  decide_finished,         chief_decide_stop, chief_decide_done,
        chief_decide_notice, chief_decide_checkpoint, chief_decide_hang, chief_decide_period,
        chief_decide_slow,   chief_say_unattached,
    };
    if (chief_fault_counts(chief)) {
        chief_end_by_fault(chief);
        return;
    }
    if (chief_losses_matter(chief)) {
        chief_wait_or_end(chief);
        return;
    }
    if (!chief_check_roster(chief) || !chief_check_parts(chief))
        return;
    for (size_t i = 0; i < ARRAY_LEN(decisions) && chief->order.end == END_NONE; i++)
        decisions[i](chief);
}

/* A program that does not attach has trained if it returned before an order asked it to end. */
static bool has_trained(const struct chief *chief)
{
    bool has_returned = chief->order.end == END_NONE && all_are(chief, FACT_RETURNED);
    return all_are(chief, FACT_ENDED) &&
           (!chief->notice.is_live || all_are(chief, FACT_DONE) || has_returned);
}

void chief_decide(struct chief *chief)
{
    chief_look_for_losses(chief);
    chief_gather_notices(chief);
    chief_note_beginning(chief);
    chief_note_start(chief);
    chief_note_hurt(chief);
    chief->gen.is_trained = chief->gen.is_trained || has_trained(chief);
    if (chief->order.end == END_NONE && !chief->order.start)
        chief_decide_start(chief);
    else if (chief->order.end == END_NONE)
        decide_running(chief);
    chief_tell_dirs(chief);
    chief_tell_needs(chief);
    chief_tell_fault(chief);
    chief_decide_restart(chief);
    chief_call_spares(chief);
    decide_leave(chief);
    chief_mark(chief);
    if (chief->order.is_near != chief_notice_is_near(chief)) {
        chief->order.is_near = !chief->order.is_near;
        chief->is_changed = true;
    }
    if (chief->is_changed)
        send_order_to_all(chief);
}

/* --- time --- */

enum { JOINING = 1, RUNNING = 2, RESTARTING = 4, STOPPING = 8 };

/* 0: all nodes leave, and nothing remains to be decided. */
static unsigned job_phase(const struct chief *chief)
{
    if (chief->order.end == END_NONE)
        return chief->order.start ? RUNNING : JOINING;
    if (chief->order.end == END_LEAVE)
        return 0;
    return chief->order.restart ? RESTARTING : STOPPING;
}

/* chief_decide() uses the same functions, so a decision is due at its deadline. A deadline that has
 * passed is ignored: its decision waits for an event, not for time. */
int64_t chief_wake_at(const struct chief *chief)
{
    /* Every deadline, and the phases of the job in which it counts. CLOCK_NEVER: it is not set. */
    const struct {
        unsigned phases;
        int64_t at;
    } deadlines[] = {
        {JOINING | RUNNING | RESTARTING | STOPPING, chief->next_loss_at},
        {JOINING | RUNNING | RESTARTING | STOPPING, chief->next_spare_at},
        {JOINING, chief_join_until(chief)},
        {JOINING, chief_misses_at(chief)},
        {JOINING, chief->join.at},
        {JOINING | RESTARTING, chief_measures_until(chief)},
        {JOINING | RUNNING | RESTARTING, chief_near_at(chief)},
        {JOINING | RUNNING, chief_fault_counts_at(chief)},
        {RUNNING, chief_unattached_at(chief)},
        {RUNNING, chief_first_read_at(chief)},
        {RUNNING, chief_abort_at(chief)},
        {RUNNING, chief_ask_at(chief)},
        {RUNNING, chief_final_at(chief)},
        {RUNNING, chief_first_due_at(chief)},
        {RUNNING, chief_first_step_until(chief)},
        {RUNNING, drains_until(chief)},
        {RUNNING, chief_period_until(chief)},
        {RUNNING, chief_hang_due_at(chief)},
        {RUNNING, chief_done_until(chief)},
        {RUNNING, chief_saves_until(chief)},
        {RUNNING, chief_outlives_until(chief)},
        {RESTARTING, chief_restart_due_at(chief)},
        {STOPPING, chief->gen.leave_deadline},
        {STOPPING, tells_until(chief)},
    };
    unsigned phase = job_phase(chief);
    int64_t wake = CLOCK_NEVER;
    for (size_t i = 0; i < ARRAY_LEN(deadlines); i++)
        if (deadlines[i].phases & phase && deadlines[i].at > chief->out->now)
            wake = clock_min(wake, deadlines[i].at);
    return wake;
}

void chief_forgive(struct chief *chief, int64_t away)
{
    chief->away_until = chief->out->now;
    chief->away_since = chief->out->now - away;
    /* A node that has not reported its end gets time to reconnect and report it. */
    int64_t back = chief->out->now + 2 * chief->params->reconnect_ns;
    if (chief->gen.leave_deadline < back)
        chief->gen.leave_deadline = back;
    if (chief->gen.hang.is_examined && chief->gen.hang.until < back)
        chief->gen.hang.until = back;
    for (int i = 0; i < chief->params->nnodes; i++) {
        struct peer *peer = &chief->peers[i];
        peer->last_heard = chief->out->now;
        if (peer->down_at != CLOCK_NEVER)
            peer->down_at = chief->out->now;
    }
    chief_forgive_spares(chief);
}

/* --- the status report --- */

/* The chief's decision (lost, missing) overrides the state that the node reports. */
static const char *state_of(const struct peer *peer)
{
    static const char *const lives[] = {
        [LIFE_WAITING] = "waiting",   [LIFE_RUNNING] = "running", [LIFE_ENDED] = "ended",
        [LIFE_FINISHED] = "finished", [LIFE_FAILED] = "failed",   [LIFE_GONE] = "gone",
        [LIFE_DONE] = "done",
    };
    if (peer_is(peer, FACT_LOST))
        return "lost";
    if (!peer_is(peer, FACT_JOINED))
        return "missing";
    if (peer_is(peer, FACT_CHECKS))
        return "checking";
    return peer_is(peer, FACT_HEARD) ? lives[peer->status.life] : "waiting";
}

void chief_report_peer(const struct chief *chief, int node_rank, struct core_peer_report *ret)
{
    const struct peer *peer = &chief->peers[node_rank];
    const struct peer_status *s = &peer->status;
    bool is_expected_known = peer_is(peer, FACT_HEARD) && s->expected != PEERMSG_UNKNOWN;
    *ret = (struct core_peer_report){
        .node_rank = node_rank,
        .state = state_of(peer),
        .conn = peer->at.conn,
        .is_connected = peer->at.conn != CONN_NONE,
        .has_notice = s->has_notice,
        .ranks_expected = is_expected_known ? s->expected : -1,
        .ranks_attached = s->attached,
        .highest = s->highest,
        .lowest = s->lowest,
        .heard_at = peer->last_heard,
        .moved_at = s->stepped ? peer->moved_at : 0,
        .steps_per_s = chief_steps_per_s(peer),
    };
    str_copy(ret->host, sizeof ret->host, peer->at.host);
    str_copy(ret->why, sizeof ret->why, peer_is(peer, FACT_LOST) ? peer->lost_why : "");
}
