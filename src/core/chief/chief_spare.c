/* SPDX-License-Identifier: Apache-2.0
 * The spares: supervisors that stand by, and which of them is called to a vacant place
 * (cluster.spares). See chief_parts.h.
 *
 * A spare is known by the number that it says it has. One with a number of a node was started for
 * a node whose place another supervisor has taken.
 *
 * A called spare says goodbye, and comes back as the node, with a new incarnation. So nothing ties
 * its HELLO to the call: the first HELLO for a vacant place wins, of any supervisor, and ends the
 * call. If none comes in time, the next spare is called. Where the nodes do not share their saves,
 * no spare is called once a step is committed.
 */
#include "core/chief/chief.h"
#include "core/chief/chief_parts.h"

#include "base/clock.h"
#include "base/str.h"

#include <stdio.h>

static int spare_number(const struct chief *chief, const struct standby *spare)
{
    return (int)(spare - chief->spares);
}

/* The end of the table of spares; with cluster.spares 0 it is empty. */
static struct standby *spares_end(const struct chief *chief)
{
    return chief->spares ? chief->spares + chief->params->nnodes + chief->params->spares : NULL;
}

static bool is_connected(const struct standby *spare)
{
    return spare->at.conn != CONN_NONE;
}

static void close_spare(struct chief *chief, struct standby *spare)
{
    out_act(chief->out, &(struct action){.type = ACT_CLOSE, .peer = {.conn = spare->at.conn}});
}

static struct standby *spare_of_conn(const struct chief *chief, int conn)
{
    for (struct standby *s = chief->spares; s != spares_end(chief); s++)
        if (is_connected(s) && s->at.conn == conn)
            return s;
    return NULL;
}

/* --- the answer --- */

static void send_standby(struct chief *chief, int conn, int place)
{
    struct peermsg msg = {
        .type = PEERMSG_STANDBY, .stamp = chief_stamp(chief), .standby = {.place = place}};
    if (chief->order.end == END_LEAVE) {
        msg.standby.is_over = 1;
        msg.standby.outcome = chief->order.outcome;
        msg.standby.exit_code = chief->order.exit_code;
        str_copy(msg.standby.why, sizeof msg.standby.why, chief->order.why);
    }
    out_send(chief->out, conn, &msg);
}

void chief_let_stand_by(struct chief *chief, int conn)
{
    send_standby(chief, conn, -1);
    out_act(chief->out, &(struct action){.type = ACT_CLOSE, .peer = {.conn = conn}});
}

void chief_end_spares(struct chief *chief)
{
    for (struct standby *s = chief->spares; s != spares_end(chief); s++)
        if (is_connected(s))
            send_standby(chief, s->at.conn, -1);
}

/* --- the spares that are known --- */

static void wake_for(struct chief *chief, const struct standby *spare)
{
    int64_t silent = spare->last_heard + chief->params->heartbeat_timeout_ns;
    if (is_connected(spare))
        chief->next_spare_at = clock_min(chief->next_spare_at, silent);
    if (spare->place)
        chief->next_spare_at = clock_min(chief->next_spare_at, spare->called_until);
}

void chief_admit_spare(struct chief *chief, int number, const struct caller *caller)
{
    struct standby *spare = &chief->spares[number];
    if (is_connected(spare) && spare->at.conn != caller->conn)
        close_spare(chief, spare);
    *spare = (struct standby){.at = *caller, .last_heard = chief->out->now};
    wake_for(chief, spare);
    out_log(chief->out, LOG_INFO, "join", "spare %d (%s) stands by", number, caller->host);
    out_simple(chief->out, ACT_STATE);
    send_standby(chief, caller->conn, -1);
}

static void forget_spare(struct chief *chief, struct standby *spare)
{
    *spare = (struct standby){0};
    out_simple(chief->out, ACT_STATE);
}

static void lose_spare(struct chief *chief, struct standby *spare, const char *why)
{
    out_log(chief->out, LOG_WARN, "lost", "spare %d (%s): %s", spare_number(chief, spare),
            spare->at.host, why);
    forget_spare(chief, spare);
}

/* A called spare stays known, without a connection, until its call is over. */
static void hear_bye(struct chief *chief, struct standby *spare)
{
    spare->at.conn = CONN_NONE;
    if (spare->place)
        return;
    out_log(chief->out, LOG_NOTICE, "join",
            "spare %d (%s) leaves: it has a notice, or was told to end", spare_number(chief, spare),
            spare->at.host);
    forget_spare(chief, spare);
}

void chief_hear_spare(struct chief *chief, int conn, const struct peermsg *msg)
{
    struct standby *spare = spare_of_conn(chief, conn);
    if (!spare)
        return;
    spare->last_heard = chief->out->now;
    if (msg->type == PEERMSG_BYE)
        hear_bye(chief, spare);
    else if (msg->type == PEERMSG_STATUS)
        send_standby(chief, conn, (int)spare->place - 1);
}

void chief_spare_down(struct chief *chief, int conn, const char *why)
{
    struct standby *spare = spare_of_conn(chief, conn);
    char text[160];
    if (!spare)
        return;
    snprintf(text, sizeof text, "its connection is closed: %.120s", why ? why : "");
    lose_spare(chief, spare, text);
}

void chief_forgive_spares(struct chief *chief)
{
    int64_t now = chief->out->now;
    for (struct standby *s = chief->spares; s != spares_end(chief); s++) {
        s->last_heard = now;
        s->called_until = now + chief->params->heartbeat_timeout_ns;
    }
}

/* --- the call --- */

/* It stands by, and was not called in vain. */
static bool may_be_called(const struct standby *spare)
{
    return is_connected(spare) && !spare->place && !spare->was_called;
}

static struct standby *called_to(const struct chief *chief, const struct peer *peer)
{
    for (struct standby *s = chief->spares; s != spares_end(chief); s++)
        if (s->place == (uint32_t)chief_rank_of(chief, peer) + 1)
            return s;
    return NULL;
}

bool chief_is_called_to(const struct chief *chief, const struct peer *peer)
{
    return called_to(chief, peer);
}

static void release(struct chief *chief, struct standby *spare)
{
    spare->place = 0;
    if (!is_connected(spare))
        forget_spare(chief, spare);
}

void chief_end_call(struct chief *chief, const struct peer *peer)
{
    struct standby *spare = called_to(chief, peer);
    if (!spare)
        return;
    spare->was_called = false; /* another supervisor was first */
    release(chief, spare);
}

/* It did not come in time, so it is not called again before it says HELLO again. */
static void give_up_call(struct chief *chief, struct standby *spare)
{
    char within[32];
    int node = (int)spare->place - 1;
    if (peer_is(&chief->peers[node], FACT_VACANT))
        out_log(chief->out, LOG_WARN, "replace",
                "spare %d (%s) has not taken the place of node %d within %s",
                spare_number(chief, spare), spare->at.host, node,
                str_duration(chief->params->heartbeat_timeout_ns, within, sizeof within));
    release(chief, spare);
}

static void look_at_spare(struct chief *chief, struct standby *spare)
{
    char why[64], within[32];
    int64_t now = chief->out->now, timeout = chief->params->heartbeat_timeout_ns;
    if (spare->place && now >= spare->called_until)
        give_up_call(chief, spare);
    if (is_connected(spare) && now >= spare->last_heard + timeout) {
        snprintf(why, sizeof why, "no message from it for %s",
                 str_duration(timeout, within, sizeof within));
        close_spare(chief, spare);
        lose_spare(chief, spare, why);
    }
    wake_for(chief, spare);
}

static void look_at_spares(struct chief *chief)
{
    if (chief->next_spare_at > chief->out->now)
        return;
    chief->next_spare_at = CLOCK_NEVER;
    for (struct standby *s = chief->spares; s != spares_end(chief); s++)
        look_at_spare(chief, s);
}

static void call_next(struct chief *chief, const struct peer *peer)
{
    int node = chief_rank_of(chief, peer);
    for (struct standby *s = chief->spares; s != spares_end(chief); s++) {
        if (!may_be_called(s))
            continue;
        s->place = (uint32_t)node + 1;
        s->was_called = true;
        s->called_until = chief->out->now + chief->params->heartbeat_timeout_ns;
        wake_for(chief, s);
        out_log(chief->out, LOG_NOTICE, "replace",
                "spare %d (%s) is called to the place of node %d%s", spare_number(chief, s),
                s->at.host, node, peer_is(peer, FACT_LOST) ? "" : ", which has not joined");
        out_simple(chief->out, ACT_STATE);
        send_standby(chief, s->at.conn, node);
        return;
    }
}

/* Each node saves on its own disk, and no spare has that of the node. */
static bool miss_saves(const struct chief *chief)
{
    const struct core_params *p = chief->params;
    return p->has_record && !p->shares_saves && chief->order.commit_step > 0;
}

/* Once in a wait. The spares stand by on: after the next loss it may be otherwise. */
static void say_that_they_miss_saves(struct chief *chief)
{
    if (chief->gen.replace.has_told_saves)
        return;
    chief->gen.replace.has_told_saves = true;
    out_log(
        chief->out, LOG_WARN, "replace",
        "no spare is called: the nodes do not share checkpoint.dir, so no spare has the save of "
        "step %llu; only a pchrun with the disk of node %d can take its place",
        ull(chief->order.commit_step), chief_rank_of(chief, chief_first(chief, FACT_VACANT)));
}

int chief_spares_left(const struct chief *chief)
{
    if (miss_saves(chief))
        return 0;
    int n = -chief->count[FACT_VACANT];
    for (const struct standby *s = chief->spares; s != spares_end(chief); s++)
        n += may_be_called(s) || s->place;
    return n;
}

void chief_call_spares(struct chief *chief)
{
    bool awaits_any = chief_is_restarting(chief) || chief_is_joining(chief);
    look_at_spares(chief);
    if (!chief->spares || !awaits_any || !any_is(chief, FACT_VACANT))
        return;
    if (miss_saves(chief)) {
        say_that_they_miss_saves(chief);
        return;
    }
    for (int i = 1; i < chief->params->nnodes; i++) {
        const struct peer *peer = &chief->peers[i];
        if (peer_is(peer, FACT_VACANT) && !called_to(chief, peer))
            call_next(chief, peer);
    }
}

/* --- the status --- */

int chief_report_spares(const struct chief *chief, struct core_spare_report *ret, int max)
{
    int n = 0;
    for (struct standby *s = chief->spares; s != spares_end(chief); s++) {
        if (!is_connected(s) && !s->place)
            continue;
        if (n < max) {
            ret[n] = (struct core_spare_report){.number = spare_number(chief, s),
                                                .place = (int)s->place - 1,
                                                .heard_at = s->last_heard};
            str_copy(ret[n].host, sizeof ret[n].host, s->at.host);
        }
        n++;
    }
    return n < max ? n : max;
}
