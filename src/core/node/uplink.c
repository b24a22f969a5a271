/* SPDX-License-Identifier: Apache-2.0
 * See uplink.h.
 */
#include "core/node/uplink.h"

#include "base/clock.h"
#include "base/str.h"

#include <stdio.h>

#define BACKOFF_FIRST_NS (50 * NS_PER_MS)
#define BACKOFF_LAST_NS  NS_PER_S

/* Two clocks drift apart by less than 1/DRIFT: quartz is better, and NTP corrects most clocks. */
#define DRIFT 10000

/* No kernel clock shows more, and no sum of two such times overflows. */
#define TIME_MAX (INT64_MAX / 4)

/* --- the clocks --- */

static int64_t error_at(const struct clockoff_sample *sample, int64_t now)
{
    return sample->error + (now - sample->at) / DRIFT;
}

static const struct clockoff_sample *best(const struct clockoff *off, int64_t now)
{
    const struct clockoff_sample *best = NULL;
    for (int i = 0; i < off->n; i++)
        if (!best || error_at(&off->samples[i], now) < error_at(best, now))
            best = &off->samples[i];
    return best;
}

static bool contradicts(const struct clockoff_sample *a, const struct clockoff_sample *b)
{
    int64_t between = a->offset > b->offset ? a->offset - b->offset : b->offset - a->offset;
    return between > a->error + error_at(b, a->at);
}

void clockoff_take(struct clockoff *off, int64_t sent, int64_t answered, int64_t theirs)
{
    if (theirs < 0 || theirs > TIME_MAX || answered < sent)
        return;
    int64_t half = (answered - sent) / 2;
    /* One more, because the division rounds down. */
    struct clockoff_sample sample = {
        .at = answered, .offset = theirs - (sent + half), .error = half + 1};
    const struct clockoff_sample *old = best(off, answered);
    if (old && contradicts(&sample, old))
        off->n = off->next = 0;
    off->samples[off->next] = sample;
    off->next = (off->next + 1) % CLOCKOFF_SAMPLES;
    off->n += off->n < CLOCKOFF_SAMPLES;
}

bool clockoff_theirs(const struct clockoff *off, int64_t now, int64_t ours, int64_t *ret_theirs,
                     int64_t *ret_error)
{
    const struct clockoff_sample *sample = best(off, now);
    if (!sample)
        return false;
    *ret_theirs = ours + sample->offset;
    *ret_error = error_at(sample, now);
    return true;
}

/* --- the connection --- */

void uplink_init(struct uplink *u, struct out *out)
{
    const struct core_params *p = out->params;
    *u = (struct uplink){.out = out,
                         .conn = CONN_NONE,
                         .is_member = p->node_rank > 0,
                         .attempt = p->node_rank > 0 ? 0 : p->attempt,
                         .down_at = CLOCK_NEVER,
                         .retry_at = CLOCK_NEVER,
                         .heartbeat_at = CLOCK_NEVER,
                         .join = {.at = CLOCK_NEVER},
                         .backoff = BACKOFF_FIRST_NS};
    str_copy(u->why, sizeof u->why, "there is no connection to node 0 yet; is node 0 running?");
}

static void say_hello(struct uplink *u)
{
    const struct core_params *p = u->out->params;
    u->hello_at = u->out->now;
    struct peermsg msg = {.stamp = {.attempt = u->attempt, .generation = u->generation},
                          .hello.commit_step = p->saved_step ? p->saved_step : p->resume_step};
    out_hello(u->out, u->conn, &msg);
}

void uplink_start(struct uplink *u)
{
    u->started_at = u->last_heard = u->out->now;
    if (u->is_member) {
        reminder_begin(&u->join, u->out->now);
        out_simple(u->out, ACT_CONNECT);
        return;
    }
    u->conn = CONN_SELF;
    say_hello(u);
}

void uplink_up(struct uplink *u)
{
    u->conn = CONN_CHIEF;
    u->retry_at = CLOCK_NEVER;
    u->down_at = CLOCK_NEVER;
    u->is_welcome = u->has_ended = false;
    /* Also before the WELCOME: only a timer that comes late shows that this machine stood still. */
    u->heartbeat_at = u->out->now + u->out->params->heartbeat_interval_ns;
    say_hello(u);
}

void uplink_down(struct uplink *u, const char *why, bool has_ended)
{
    u->has_ended = has_ended && u->was_welcome;
    if (u->conn != CONN_NONE || u->down_at == CLOCK_NEVER)
        u->down_at = u->out->now;
    u->conn = CONN_NONE;
    if (!u->is_given_up) /* after a WELCOME retry at once: usually only the connection broke */
        u->retry_at = u->out->now + (u->is_welcome ? 0 : u->backoff);
    if (!u->is_welcome)
        u->backoff = clock_min(2 * u->backoff, BACKOFF_LAST_NS);
    u->is_welcome = false;
    u->heartbeat_at = CLOCK_NEVER;
    str_copy(u->why, sizeof u->why, why);
}

static enum uplink_event give_up(struct uplink *u, enum uplink_event event)
{
    u->is_given_up = true;
    u->retry_at = u->heartbeat_at = u->join.at = CLOCK_NEVER;
    return event;
}

/* A chief that came back with another incarnation has forgotten the job. */
static enum uplink_event on_welcome(struct uplink *u, const struct peermsg *msg)
{
    if (u->chief && u->chief != msg->welcome.incarnation) {
        str_copy(u->why, sizeof u->why, "its supervisor was started again while the job ran");
        return give_up(u, UPLINK_LOST);
    }
    u->chief = msg->welcome.incarnation;
    u->attempt = msg->stamp.attempt;
    /* After a reconnect this node and its messages may still be of the last generation. Only an
     * order brings the node into the next one. */
    if (!u->was_welcome)
        u->generation = msg->stamp.generation;
    /* A first WELCOME may come long after its HELLO, and then nothing runs yet. But with a
     * replacement to come, an order to start may come as late. */
    bool answers_hello = u->was_welcome || u->out->params->replace_wait_ns > 0;
    u->lease_from = clock_max(u->lease_from, answers_hello ? u->hello_at : u->out->now);
    u->is_welcome = u->was_welcome = true;
    u->down_at = u->join.at = CLOCK_NEVER;
    u->backoff = BACKOFF_FIRST_NS;
    u->last_heard = u->out->now;
    /* Node 0 also sends heartbeats: its steps must be as fresh as those of other nodes. */
    if (u->out->params->nnodes > 1)
        u->heartbeat_at = u->out->now;
    return UPLINK_WELCOME;
}

/* Only the first answer to the newest heartbeat measures the way. */
static void take_answer(struct uplink *u, const struct peermsg *msg)
{
    int64_t sent = msg->order.echo_ns, now = u->out->now;
    if (sent > now) /* we have not sent that */
        return;
    u->lease_from = clock_max(u->lease_from, sent);
    if (sent != u->beat_sent_at)
        return;
    twice_note(&u->rtt, now - sent);
    clockoff_take(&u->clock, sent, now, msg->order.clock_ns);
    u->beat_sent_at = 0;
}

static enum uplink_event on_order(struct uplink *u, const struct peermsg *msg)
{
    bool is_next = u->may_renew && msg->stamp.generation == u->generation + 1;
    if (!u->was_welcome) /* an empty order: node 0 still decides whether to admit us */
        u->started_at = u->out->now;
    if (!u->is_welcome || msg->stamp.attempt != u->attempt ||
        (msg->stamp.generation != u->generation && !is_next))
        return UPLINK_NOTHING;
    if (is_next)
        u->may_renew = false, u->generation++;
    u->last_heard = u->out->now;
    if (msg->order.echo_ns)
        take_answer(u, msg);
    if (msg->stamp.seq <= u->seen)
        return UPLINK_NOTHING;
    u->seen = msg->stamp.seq;
    return UPLINK_ORDER;
}

enum uplink_event uplink_message(struct uplink *u, const struct peermsg *msg)
{
    if (u->is_given_up || msg->stamp.epoch != u->out->params->epoch)
        return UPLINK_NOTHING;
    switch (msg->type) {
    case PEERMSG_WELCOME:
        return on_welcome(u, msg);
    case PEERMSG_ORDER:
        return on_order(u, msg);
    case PEERMSG_REFUSED:
        str_copy(u->why, sizeof u->why, msg->refused.why);
        return give_up(u, UPLINK_REFUSED);
    case PEERMSG_BYE:
        str_copy(u->why, sizeof u->why, "its supervisor has reported its own end");
        return give_up(u, UPLINK_LOST);
    default:
        return UPLINK_NOTHING;
    }
}

static int64_t lease_until(const struct uplink *u)
{
    return u->lease_from + u->out->params->heartbeat_timeout_ns;
}

int64_t uplink_kill_by(const struct uplink *u)
{
    bool may_be_replaced = u->is_member && u->was_welcome && u->out->params->replace_wait_ns > 0;
    return may_be_replaced ? clock_max(lease_until(u), u->out->now) : CLOCK_NEVER;
}

bool uplink_has_lease(const struct uplink *u)
{
    return uplink_kill_by(u) > u->out->now;
}

int64_t uplink_lost_at(const struct uplink *u)
{
    const struct core_params *p = u->out->params;
    if (!u->is_member || u->is_given_up)
        return CLOCK_NEVER;
    if (!u->was_welcome)
        return u->started_at + p->join_timeout_ns;
    if (u->has_ended)
        return u->down_at;
    return u->down_at == CLOCK_NEVER ? lease_until(u)
                                     : clock_min(lease_until(u), u->down_at + p->reconnect_ns);
}

/* "Mute" means that the chief has not answered two heartbeats. */
int64_t uplink_mute_at(const struct uplink *u)
{
    bool is_there = u->is_member && u->was_welcome && !u->is_given_up;
    return is_there ? u->last_heard + 2 * u->out->params->heartbeat_interval_ns : CLOCK_NEVER;
}

/* The connection is open, but no message arrives, or only late ones. */
static void say_silence(struct uplink *u)
{
    char text[64];
    const struct core_params *p = u->out->params;
    int64_t silence = u->out->now - u->last_heard;
    if (!u->was_welcome) {
        snprintf(u->why, sizeof u->why,
                 "node 0's address was reached, but nothing there accepted this node within %s; "
                 "does the pchrun of this job listen there?",
                 str_duration(p->join_timeout_ns, text, sizeof text));
    } else if (u->out->now < uplink_lost_at(u)) {
        snprintf(u->why, sizeof u->why,
                 "no message from it for %s, and the notice leaves no time to wait longer",
                 str_about(silence, text, sizeof text));
    } else if (u->forgiven_at >= lease_until(u)) {
        u->stood_still = true;
        str_copy(u->why, sizeof u->why,
                 "this machine or its pchrun stood still, so node 0 may have given this node up");
    } else {
        snprintf(u->why, sizeof u->why,
                 silence < p->heartbeat_timeout_ns / 2
                     ? "its messages come, but answer nothing that this node sent in the last %s; "
                       "is the network slow?"
                     : "no message from it for %s",
                 str_duration(p->heartbeat_timeout_ns, text, sizeof text));
    }
}

void uplink_lose(struct uplink *u)
{
    if (u->conn != CONN_NONE)
        say_silence(u);
    (void)give_up(u, UPLINK_LOST);
}

/* `why` may have changed since the log said it. */
static void say_wait(struct uplink *u)
{
    char so_far[32], in[32];
    str_about(u->out->now - u->join.since, so_far, sizeof so_far);
    reminder_left(uplink_lost_at(u) - u->out->now, in, sizeof in);
    out_log(u->out, LOG_NOTICE, "join",
            "still waiting for node 0, %s so far (cluster.join_timeout in %s): %s", so_far, in,
            u->conn == CONN_NONE ? u->why
                                 : "its address was reached, but nothing there has accepted this "
                                   "node yet");
    reminder_next(&u->join, u->out->now);
}

int64_t uplink_calls_at(const struct uplink *u)
{
    return clock_min(u->join.at, clock_min(u->retry_at, u->heartbeat_at));
}

void uplink_call(struct uplink *u)
{
    if (u->join.at <= u->out->now)
        say_wait(u);
    if (u->retry_at <= u->out->now) {
        u->retry_at = CLOCK_NEVER;
        out_simple(u->out, ACT_CONNECT);
    }
    if (u->heartbeat_at <= u->out->now) {
        u->heartbeat_at = u->out->now + u->out->params->heartbeat_interval_ns;
        u->beat = u->is_welcome ? BEAT_AWAITS_STEPS : BEAT_NONE;
        if (u->is_welcome)
            out_simple(u->out, ACT_READ_STEPS);
    }
}

bool uplink_steps_read(struct uplink *u)
{
    if (u->beat == BEAT_AWAITS_STEPS)
        u->beat = BEAT_READY;
    return u->beat == BEAT_READY;
}

void uplink_beat_alone(struct uplink *u, bool is_noticed)
{
    if (u->out->params->nnodes > 1)
        return;
    if (!is_noticed)
        u->heartbeat_at = CLOCK_NEVER;
    else if (u->heartbeat_at == CLOCK_NEVER)
        u->heartbeat_at = u->out->now + u->out->params->heartbeat_interval_ns;
}

void uplink_forgive(struct uplink *u)
{
    u->last_heard = u->out->now;
    if (u->out->params->replace_wait_ns == 0)
        u->lease_from = u->out->now;
    u->forgiven_at = u->out->now;
    if (u->down_at != CLOCK_NEVER)
        u->down_at = u->out->now;
}

void uplink_clock(const struct uplink *u, int64_t ours, int64_t *ret_theirs, int64_t *ret_error)
{
    if (!u->is_member) {
        *ret_theirs = ours;
        *ret_error = 0;
    } else if (!clockoff_theirs(&u->clock, u->out->now, ours, ret_theirs, ret_error) ||
               *ret_theirs < 0) {
        *ret_theirs = 0;
        *ret_error = -1;
    }
}

void uplink_send_status(struct uplink *u, struct peermsg *msg)
{
    if (!u->is_welcome)
        return;
    msg->stamp.attempt = u->attempt;
    msg->stamp.generation = u->generation;
    msg->stamp.epoch = u->out->params->epoch;
    msg->stamp.seq = ++u->seq;
    msg->status.seen = u->seen;
    msg->status.rtt_ns = (uint64_t)twice_shown(&u->rtt);
    if (u->beat == BEAT_READY) {
        msg->status.wants_reply = true;
        u->beat = BEAT_NONE;
        msg->status.sent_ns = u->beat_sent_at = u->out->now;
    }
    out_send(u->out, u->conn, msg);
}

void uplink_bye(struct uplink *u)
{
    if (u->conn != CONN_CHIEF)
        return;
    struct peermsg msg = {.type = PEERMSG_BYE,
                          .stamp = {.attempt = u->attempt,
                                    .generation = u->generation,
                                    .epoch = u->out->params->epoch}};
    out_send(u->out, u->conn, &msg);
}
