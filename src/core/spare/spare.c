/* SPDX-License-Identifier: Apache-2.0
 * See spare.h.
 */
#include "core/spare/spare.h"

#include "base/clock.h"
#include "base/sigtext.h"
#include "base/str.h"
#include "core/common/out.h"
#include "core/common/reminder.h"
#include "core/common/verdict.h"

#include <stdio.h>
#include <stdlib.h>

#define BACKOFF_FIRST_NS (50 * NS_PER_MS)
#define BACKOFF_LAST_NS  NS_PER_S

struct spare {
    struct core_params params;
    struct out out;
    bool is_connected;
    bool is_admitted; /* node 0 has answered, on this connection or an earlier one */
    bool is_standing; /* on this one */
    bool is_over;     /* after ACT_TAKE or ACT_EXIT */
    uint32_t attempt; /* as node 0 has told; 0: it has told nothing */
    uint64_t seq;     /* of the last heartbeat */
    int64_t started_at, last_heard, backoff;
    int64_t down_at, retry_at, beat_at; /* CLOCK_NEVER: not set */
    struct reminder join;
    char why[PEERMSG_WHY_SIZE]; /* why there is no connection; after the end: why it ended */
    enum outcome outcome;
    int exit_code;
    int64_t wake_at;
};

struct spare *spare_new(const struct core_params *params, core_act_fn *act, void *shell)
{
    struct spare *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->params = *params;
    s->out = (struct out){.params = &s->params, .act = act, .shell = shell};
    s->backoff = BACKOFF_FIRST_NS;
    s->down_at = s->retry_at = s->beat_at = s->join.at = s->wake_at = CLOCK_NEVER;
    str_copy(s->why, sizeof s->why, "there is no connection to node 0 yet; is node 0 running?");
    return s;
}

void spare_free(struct spare *s)
{
    free(s);
}

/* --- messages to node 0 --- */

static void send(struct spare *s, struct peermsg *msg)
{
    msg->stamp.attempt = s->attempt;
    msg->stamp.epoch = s->params.epoch;
    if (s->is_connected)
        out_send(&s->out, CONN_CHIEF, msg);
}

static void say_that_it_stands_by(struct spare *s)
{
    struct peermsg msg = {.stamp.attempt = s->attempt, .hello.stands_by = 1};
    out_hello(&s->out, CONN_CHIEF, &msg);
}

static void beat(struct spare *s)
{
    struct peermsg msg = {.type = PEERMSG_STATUS, .stamp.seq = ++s->seq};
    msg.status.wants_reply = 1;
    msg.status.sent_ns = s->out.now;
    s->beat_at = s->out.now + s->params.heartbeat_interval_ns;
    if (s->is_admitted)
        send(s, &msg);
}

static void say_bye(struct spare *s)
{
    send(s, &(struct peermsg){.type = PEERMSG_BYE});
    if (s->is_connected)
        out_act(&s->out, &(struct action){.type = ACT_CLOSE, .peer = {.conn = CONN_CHIEF}});
    s->is_connected = false;
    s->is_over = true;
}

/* --- its end --- */

static void spare_end(struct spare *s, enum outcome outcome, int code, const char *why)
{
    if (s->is_over)
        return;
    say_bye(s);
    s->outcome = outcome;
    s->exit_code = code;
    str_copy(s->why, sizeof s->why, why);
    out_simple(&s->out, ACT_STATE);
    out_act(&s->out, &(struct action){.type = ACT_EXIT,
                                      .exit = {.outcome = outcome, .code = code, .text = s->why}});
}

/* `code`: only for outcomes whose code the user has not set. */
static void end_alone(struct spare *s, enum outcome outcome, int code, const char *why)
{
    spare_end(s, outcome, verdict_code(&s->params.exit, outcome, code), why);
}

PRINTF_LIKE(2, 3)
static void lose_node_0(struct spare *s, const char *fmt, ...)
{
    char detail[512], why[PEERMSG_WHY_SIZE];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(detail, sizeof detail, fmt, ap);
    va_end(ap);
    snprintf(why, sizeof why, s->is_admitted ? "node 0 is lost: %s" : "could not join the job: %s",
             detail);
    if (s->is_admitted)
        end_alone(s, OUTCOME_NODE_LOST, 0, why);
    else
        end_alone(s, OUTCOME_NOT_STARTED, EXIT_OWN_ERROR, why);
}

/* --- messages of node 0 --- */

/* While a spare stands by, it is refused only because a later spare has its number. If it were
 * started again, it would be the later one: each would end the other for ever. But a new node 0 may
 * not know a spare that has stood by before. */
static void be_refused(struct spare *s, const char *refusal)
{
    char why[PEERMSG_WHY_SIZE];
    if (!s->is_admitted || s->is_standing) {
        end_alone(s, OUTCOME_NOT_STARTED, EXIT_OWN_ERROR, refusal);
        return;
    }
    snprintf(why, sizeof why, "node 0 refuses this spare: %.400s", refusal);
    end_alone(s, OUTCOME_NODE_LOST, 0, why);
}

static void take_place(struct spare *s, int place)
{
    out_log(&s->out, LOG_NOTICE, "replace",
            "node 0 calls this spare: it takes the place of node %d", place);
    say_bye(s);
    out_simple(&s->out, ACT_STATE);
    out_act(&s->out, &(struct action){.type = ACT_TAKE, .place = place});
}

static void on_standby(struct spare *s, const struct peermsg *msg)
{
    const struct peer_standby *b = &msg->standby;
    bool is_new = !s->is_admitted;
    s->last_heard = s->out.now;
    s->backoff = BACKOFF_FIRST_NS;
    s->attempt = msg->stamp.attempt;
    s->is_admitted = s->is_standing = true;
    s->join.at = CLOCK_NEVER;
    if (b->is_over) {
        spare_end(s, b->outcome < OUTCOME__COUNT ? b->outcome : OUTCOME_UNKNOWN,
                  verdict_of_order(b->outcome, b->exit_code), b->why);
    } else if (b->place > 0 && b->place < s->params.nnodes) {
        take_place(s, b->place);
    } else if (is_new) {
        out_simple(&s->out, ACT_STATE);
    }
}

static void on_message(struct spare *s, const struct peermsg *msg)
{
    if (msg->stamp.epoch != s->params.epoch)
        return;
    if (msg->type == PEERMSG_STANDBY)
        on_standby(s, msg);
    else if (msg->type == PEERMSG_REFUSED)
        be_refused(s, msg->refused.why);
    else if (msg->type == PEERMSG_BYE)
        lose_node_0(s, "its supervisor has reported its own end");
}

/* --- the connection --- */

static void chief_up(struct spare *s)
{
    s->is_connected = true;
    s->is_standing = false;
    s->down_at = s->retry_at = CLOCK_NEVER;
    say_that_it_stands_by(s);
    beat(s);
}

static void chief_down(struct spare *s, const struct event *event)
{
    if (event->peer.conn != CONN_CHIEF)
        return;
    s->is_connected = false;
    s->beat_at = CLOCK_NEVER;
    s->down_at = clock_min(s->down_at, s->out.now);
    s->retry_at = s->out.now + s->backoff;
    s->backoff = clock_min(2 * s->backoff, BACKOFF_LAST_NS);
    str_copy(s->why, sizeof s->why, event->peer.why ? event->peer.why : "closed");
    if (event->peer.has_ended && s->is_admitted)
        lose_node_0(s, "%s", s->why);
}

/* --- signals and notices --- */

/* Nothing is to be saved here, so a notice ends the spare at once. */
static void on_notice(struct spare *s, const struct notice *n)
{
    char why[192];
    if (n->type != NOTICE_TERMINATE || n->is_repeated)
        return;
    snprintf(why, sizeof why, "this spare leaves for its notice: %s%s%s", n->source,
             n->text[0] ? " " : "", n->text);
    end_alone(s, OUTCOME_PREEMPTED, 0, why);
}

static void take_signal(struct spare *s, int number)
{
    char why[96];
    enum signal_rule rule = s->params.signals[number].rule;
    snprintf(why, sizeof why, "%s came while this spare stood by", SIGTEXT(number));
    if (rule == SIGNAL_PREEMPT)
        end_alone(s, OUTCOME_PREEMPTED, 0, why);
    else if (rule == SIGNAL_FORWARD && sigends(number))
        end_alone(s, OUTCOME_INTERRUPTED, EXIT_BY_SIGNAL + number, why);
}

/* --- time --- */

static int64_t lost_at(const struct spare *s)
{
    const struct core_params *p = &s->params;
    if (!s->is_admitted)
        return s->started_at + p->join_timeout_ns;
    int64_t silent = s->last_heard + p->heartbeat_timeout_ns;
    return s->down_at == CLOCK_NEVER ? silent : clock_min(silent, s->down_at + p->reconnect_ns);
}

/* This machine, or pchrun, stood still: node 0 is not blamed for that time. */
static void forgive_pause(struct spare *s)
{
    int64_t limit = clock_min(s->params.heartbeat_timeout_ns, s->params.reconnect_ns) / 4;
    if (s->wake_at == CLOCK_NEVER || s->out.now - s->wake_at <= limit)
        return;
    s->last_heard = s->out.now;
    if (s->down_at != CLOCK_NEVER)
        s->down_at = s->out.now;
}

static void say_that_it_waits(struct spare *s)
{
    char so_far[32], left[32];
    str_about(s->out.now - s->join.since, so_far, sizeof so_far);
    reminder_left(lost_at(s) - s->out.now, left, sizeof left);
    out_log(&s->out, LOG_NOTICE, "join",
            "still waiting for node 0, %s so far (cluster.join_timeout in %s): %s", so_far, left,
            s->is_connected ? "its address was reached, but nothing there has answered yet"
                            : s->why);
    reminder_next(&s->join, s->out.now);
}

static void on_time(struct spare *s)
{
    char within[32];
    if (s->out.now >= lost_at(s)) {
        str_duration(s->is_admitted ? s->params.heartbeat_timeout_ns : s->params.join_timeout_ns,
                     within, sizeof within);
        if (s->is_connected)
            lose_node_0(s, "no message from it for %s", within);
        else
            lose_node_0(s, "%s", s->why);
        return;
    }
    if (s->join.at <= s->out.now)
        say_that_it_waits(s);
    if (s->retry_at <= s->out.now) {
        s->retry_at = CLOCK_NEVER;
        out_simple(&s->out, ACT_CONNECT);
    }
    if (s->beat_at <= s->out.now)
        beat(s);
}

static void begin_standing(struct spare *s)
{
    s->started_at = s->last_heard = s->out.now;
    reminder_begin(&s->join, s->out.now);
    out_simple(&s->out, ACT_CONNECT);
}

static void spare_dispatch(struct spare *s, const struct event *event)
{
    switch (event->type) {
    case EV_START:
        begin_standing(s);
        break;
    case EV_CHIEF_UP:
        chief_up(s);
        break;
    case EV_PEER_DOWN:
        chief_down(s, event);
        break;
    case EV_PEER_MESSAGE:
        on_message(s, event->peer.msg);
        break;
    case EV_NOTICE:
        on_notice(s, event->notice);
        break;
    case EV_SIGNAL:
        take_signal(s, event->signal.number);
        break;
    case EV_STOP_ASKED:
        end_alone(s, OUTCOME_STOPPED, 0, event->stop.why);
        break;
    default:
        break;
    }
}

void spare_handle(struct spare *s, const struct event *event)
{
    s->out.now = event->now;
    s->out.wall = event->wall;
    forgive_pause(s);
    if (!s->is_over)
        spare_dispatch(s, event);
    if (!s->is_over)
        on_time(s);
    s->wake_at = clock_min(clock_min(lost_at(s), s->join.at), clock_min(s->retry_at, s->beat_at));
    if (s->is_over)
        s->wake_at = CLOCK_NEVER;
}

int64_t spare_wake_at(const struct spare *s)
{
    return s->wake_at;
}

void spare_report(const struct spare *s, struct spare_report *ret)
{
    *ret = (struct spare_report){.stands_by = s->is_admitted && !s->is_over,
                                 .is_over = s->is_over,
                                 .outcome = s->outcome,
                                 .exit_code = s->exit_code};
    str_copy(ret->why, sizeof ret->why, s->is_over ? s->why : "");
}
