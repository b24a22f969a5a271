/* SPDX-License-Identifier: Apache-2.0
 * Admits or refuses a supervisor that said HELLO. chief_join.c and chief_duplicate.c decide which.
 * See chief_parts.h.
 */
#include "core/chief/chief_parts.h"

#include "base/clock.h"
#include "base/str.h"

#include <stdio.h>

char *chief_caller_text(const struct caller *caller, char *text, size_t size)
{
    snprintf(text, size, "%.40s", caller->host);
    if (caller->pid)
        str_addf(text, size, ", pid %u", caller->pid);
    if (caller->from[0])
        str_addf(text, size, ", %s", caller->from);
    return text;
}

void chief_refuse(struct chief *chief, int conn, const char *fmt, ...)
{
    struct peermsg msg = {
        .type = PEERMSG_REFUSED,
        .stamp = {.attempt = chief->params->attempt, .generation = chief->generation}};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg.refused.why, sizeof msg.refused.why, fmt, ap);
    va_end(ap);
    bool is_joining = !chief->order.start && chief->order.end == END_NONE;
    out_log(chief->out, LOG_WARN, "join", "refused: %s%s", msg.refused.why,
            is_joining ? "; the job still waits for its nodes" : "");
    str_fit(chief->refusal, sizeof chief->refusal, msg.refused.why);
    out_send(chief->out, conn, &msg);
    out_act(chief->out, &(struct action){.type = ACT_CLOSE, .peer = {.conn = conn}});
}

void chief_welcome(struct chief *chief, int conn)
{
    struct peermsg msg = {
        .type = PEERMSG_WELCOME,
        .stamp = {.attempt = chief->params->attempt, .generation = chief->generation},
        .welcome = {.incarnation = chief->params->incarnation,
                    .resume_step = chief->order.commit_step}};
    out_send(chief->out, conn, &msg);
}

/* The first join of a node is logged at debug level only: a job may have a thousand nodes. */
static void log_joined(struct chief *chief, const struct peer *peer, bool is_new)
{
    char text[128];
    if (peer->at.conn != CONN_SELF)
        out_log(chief->out, is_new ? LOG_DEBUG : LOG_INFO, "join", "node %d (%s) %s, %d of %d",
                chief_rank_of(chief, peer), chief_caller_text(&peer->at, text, sizeof text),
                is_new ? "joined" : "is back", chief->count[FACT_JOINED], chief->params->nnodes);
    if (peer->at.commit_step > chief->params->resume_step)
        out_log(chief->out, LOG_WARN, "join",
                "node %d knows of a commit at step %llu, node 0 only of step %llu; is "
                "checkpoint.dir the same?",
                chief_rank_of(chief, peer), ull(peer->at.commit_step),
                ull(chief->params->resume_step));
}

void chief_admit(struct chief *chief, struct peer *peer, const struct caller *caller)
{
    int old = peer->at.conn;
    if (old != CONN_NONE && old != caller->conn)
        out_act(chief->out, &(struct action){.type = ACT_CLOSE, .peer = {.conn = old}});
    bool is_new = peer->at.incarnation != caller->incarnation;
    if (is_new)
        chief_reset(chief, peer);
    chief_set_conn(chief, peer, caller->conn);
    peer->at = *caller;
    peer->last_heard = peer->status_at = chief->out->now;
    peer->down_at = CLOCK_NEVER;
    if (caller->conn != CONN_SELF)
        chief->next_loss_at =
            clock_min(chief->next_loss_at, chief->out->now + chief->params->heartbeat_timeout_ns);
    chief_set_fact(chief, peer, FACT_JOINED, true);
    chief_note(chief, peer);
    chief_welcome(chief, caller->conn);
    chief_send_order(chief, caller->conn, 0);
    log_joined(chief, peer, is_new);
}
