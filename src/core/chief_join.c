/* SPDX-License-Identifier: Apache-2.0
 * Who belongs to the job: the join of the nodes, and the ranks that they bring. See chief.h.
 */
#include "core/chief.h"

#include "base/clock.h"
#include "base/str.h"
#include "core/verdict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- HELLO --- */

static void refuse(struct chief *chief, int conn, const char *fmt, ...) PRINTF_LIKE(3, 4);

static void refuse(struct chief *chief, int conn, const char *fmt, ...)
{
    struct peermsg msg = {
        .type = PEERMSG_REFUSED,
        .stamp = {.attempt = chief->params->attempt, .generation = chief->params->generation}};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg.refused.why, sizeof msg.refused.why, fmt, ap);
    va_end(ap);
    out_log(chief->out, LOG_WARN, "join", "refused: %s", msg.refused.why);
    out_send(chief->out, conn, &msg);
    out_act(chief->out, &(struct action){.type = ACT_CLOSE, .peer = {.conn = conn}});
}

/* The first line in which two lists of settings differ, "a=1" against "a=2". False if none does. */
static bool first_difference(const char *a, const char *b, char *ret_a, char *ret_b, size_t size)
{
    while (*a || *b) {
        size_t na = strcspn(a, "\n"), nb = strcspn(b, "\n");
        if (na != nb || memcmp(a, b, na) != 0) {
            snprintf(ret_a, size, "%.*s", (int)na, a);
            snprintf(ret_b, size, "%.*s", (int)nb, b);
            return true;
        }
        a += na + (a[na] != '\0');
        b += nb + (b[nb] != '\0');
    }
    return false;
}

/* Is it one of this job, set up like us? */
static bool is_compatible(struct chief *chief, int conn, const struct peermsg *msg)
{
    const struct core_params *p = chief->params;
    const struct peer_hello *h = &msg->hello;
    char ours[96], theirs[96];
    if (!h->job[0])
        refuse(chief, conn, "a supervisor of another version of the protocol; ours is %d",
               PEERMSG_VERSION);
    else if (!str_is(h->job, p->job))
        refuse(chief, conn, "node %u (%s) belongs to job \"%s\"; this is \"%s\"", h->node_rank,
               h->host, h->job, p->job);
    else if (h->nnodes != (uint32_t)p->nnodes)
        refuse(chief, conn, "node %u (%s) says the job has %u nodes; node 0 says %d", h->node_rank,
               h->host, h->nnodes, p->nnodes);
    else if (h->node_rank >= (uint32_t)p->nnodes)
        refuse(chief, conn, "node rank %u (%s) does not lie in a job of %d nodes", h->node_rank,
               h->host, p->nnodes);
    else if (first_difference(p->settings, h->settings, ours, theirs, sizeof ours))
        refuse(chief, conn, "node %u (%s) is set up with %s; node 0 with %s", h->node_rank, h->host,
               theirs[0] ? theirs : "nothing", ours[0] ? ours : "nothing");
    else if (msg->stamp.attempt && msg->stamp.attempt != p->attempt)
        refuse(chief, conn, "node %u (%s) is of attempt %u; this is attempt %u", h->node_rank,
               h->host, msg->stamp.attempt, p->attempt);
    else
        return true;
    return false;
}

/* Another supervisor with this rank is there, or was. */
static bool may_replace(struct chief *chief, int conn, struct peer *peer,
                        const struct peer_hello *h)
{
    if (!peer->incarnation || peer->incarnation == h->incarnation)
        return true;
    if (!chief->order.start && peer->conn == CONN_NONE)
        return true;
    refuse(chief, conn, "two nodes with rank %u: %s and %s", h->node_rank, peer->host, h->host);
    if (chief->order.start && !peer_is(peer, FACT_LOST) && !peer_is(peer, FACT_GONE)) {
        str_copy(peer->lost_why, sizeof peer->lost_why, "its supervisor was started anew");
        chief_set_fact(chief, peer, FACT_LOST, true);
    }
    return false;
}

static void welcome(struct chief *chief, struct peer *peer)
{
    struct peermsg msg = {
        .type = PEERMSG_WELCOME,
        .stamp = {.attempt = chief->params->attempt, .generation = chief->params->generation},
        .welcome = {.incarnation = chief->params->incarnation,
                    .resume_step = chief->params->resume_step}};
    out_send(chief->out, peer->conn, &msg);
}

void chief_hello(struct chief *chief, int conn, const struct peermsg *msg)
{
    const struct peer_hello *h = &msg->hello;
    if (!is_compatible(chief, conn, msg))
        return;
    struct peer *peer = &chief->peers[h->node_rank];
    if (!may_replace(chief, conn, peer, h))
        return;
    if (peer_is(peer, FACT_LOST)) {
        refuse(chief, conn, "node %u (%s) was given up as lost", h->node_rank, h->host);
        return;
    }
    if (peer->conn != CONN_NONE && peer->conn != conn)
        out_act(chief->out, &(struct action){.type = ACT_CLOSE, .peer = {.conn = peer->conn}});
    bool is_new = peer->incarnation != h->incarnation;
    if (is_new)
        chief_reset(chief, peer);
    chief_set_conn(chief, peer, conn);
    peer->incarnation = h->incarnation;
    peer->commit_step = h->commit_step;
    peer->last_heard = peer->status_at = chief->out->now;
    peer->down_at = CLOCK_NEVER;
    str_copy(peer->host, sizeof peer->host, h->host);
    if (conn != CONN_SELF)
        chief->next_loss_at =
            clock_min(chief->next_loss_at, chief->out->now + chief->params->heartbeat_timeout_ns);
    chief_set_fact(chief, peer, FACT_JOINED, true);
    chief_note(chief, peer);
    welcome(chief, peer);
    chief_send_order(chief, peer, 0);
    if (conn != CONN_SELF)
        out_log(chief->out, LOG_INFO, "join", "node %u (%s) %s, %d of %d", h->node_rank, h->host,
                is_new ? "joined" : "is back", chief->count[FACT_JOINED], chief->params->nnodes);
    if (h->commit_step > chief->params->resume_step)
        out_log(chief->out, LOG_WARN, "join",
                "node %u knows of a commit at step %llu, node 0 only of step %llu; is "
                "checkpoint.dir the same?",
                h->node_rank, (unsigned long long)h->commit_step,
                (unsigned long long)chief->params->resume_step);
}

/* --- the start --- */

static void list_missing(const struct chief *chief, char *text, size_t size)
{
    int n = chief->params->nnodes;
    snprintf(text, size, "%d of %d nodes did not join: ", n - chief->count[FACT_JOINED], n);
    bool is_first = true;
    for (int i = 0; i < n; i++) {
        if (peer_is(&chief->peers[i], FACT_JOINED))
            continue;
        if (!str_addf(text, size, "%s%d", is_first ? "" : ", ", i))
            break;
        is_first = false;
    }
}

void chief_decide_join(struct chief *chief)
{
    const struct core_params *p = chief->params;
    char text[160];
    if (any_is(chief, FACT_FAULT)) {
        const struct peer *peer = chief_first(chief, FACT_FAULT);
        chief_end(chief, &(struct chief_end){.outcome = OUTCOME_FAILED,
                                             .code = peer->status.fault_code,
                                             .manner = MANNER_STOP,
                                             .why = peer->status.fault_text});
    } else if (chief->notice.is_live) {
        chief_end(chief, &(struct chief_end){.outcome = OUTCOME_PREEMPTED,
                                             .manner = MANNER_STOP,
                                             .why = "the notice came before the start: nothing was "
                                                    "started"});
    } else if (all_are(chief, FACT_JOINED)) {
        chief->order.start = true;
        chief->is_changed = true;
        if (p->nnodes > 1)
            out_log(chief->out, LOG_NOTICE, "join", "all %d nodes are there: starting", p->nnodes);
    } else if (chief->out->now >= chief->started_at + p->join_timeout_ns) {
        list_missing(chief, text, sizeof text);
        chief_end(chief, &(struct chief_end){.outcome = OUTCOME_NOT_STARTED,
                                             .code = EXIT_OWN_ERROR,
                                             .manner = MANNER_STOP,
                                             .why = text});
    }
}

/* --- the ranks --- */

struct roster {
    uint8_t seen[CORE_WORLD_MAX / 8];
    char text[192];
    bool is_bad;
};

static void complain(struct roster *roster, const char *fmt, ...) PRINTF_LIKE(2, 3);

static void complain(struct roster *roster, const char *fmt, ...)
{
    char text[96];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    str_addf(roster->text, sizeof roster->text, "%s%s", roster->is_bad ? "; " : "", text);
    roster->is_bad = true;
}

static void see(struct roster *roster, long rank, int node)
{
    if (roster->seen[rank / 8] & (1U << (rank % 8)))
        complain(roster, "rank %ld is there twice, on node %d, too", rank, node);
    else
        roster->seen[rank / 8] |= (uint8_t)(1U << (rank % 8));
}

/* "0-3,8" */
static void see_list(struct roster *roster, const char *list, uint32_t world, int node)
{
    while (*list) {
        char *end;
        long from = strtol(list, &end, 10), to = from;
        if (end == list) {
            complain(roster, "node %d tells its ranks as \"%s\"", node, list);
            return;
        }
        if (*end == '-')
            to = strtol(end + 1, &end, 10);
        if (from < 0 || to < from || to >= (long)world) {
            complain(roster, "node %d has ranks %ld to %ld", node, from, to);
            return;
        }
        for (long rank = from; rank <= to; rank++)
            see(roster, rank, node);
        list = *end == ',' ? end + 1 : end;
        if (list == end && *end)
            return;
    }
}

static void see_holes(struct roster *roster, uint32_t world)
{
    for (uint32_t rank = 0; rank < world; rank++)
        if (!(roster->seen[rank / 8] & (1U << (rank % 8))))
            complain(roster, "rank %u is missing", rank);
}

/* Every rank of the world is there once, and all can stop at a common step. */
static void check_world(struct chief *chief, struct roster *roster)
{
    uint32_t world = 0;
    int first = 0;
    chief->stride = stride_make(0, 1);
    for (int i = 0; i < chief->params->nnodes; i++) {
        const struct peer_status *s = &chief->peers[i].status;
        if (s->expected == 0)
            continue;
        if (!world)
            first = i;
        if (world && s->world_size != world)
            complain(roster, "node %d says that the world has %u ranks, node %d says %u", i,
                     s->world_size, first, world);
        world = world ? world : s->world_size;
        if (!stride_join(&chief->stride, stride_make(s->first_step, s->stride)))
            complain(roster, "node %d and node %d stop at no common step", first, i);
    }
    if (world > CORE_WORLD_MAX)
        complain(roster, "node %d says that the world has %u ranks", first, world);
    if (roster->is_bad)
        return;
    for (int i = 0; i < chief->params->nnodes; i++)
        see_list(roster, chief->peers[i].status.roster, world, i);
    see_holes(roster, world);
}

bool chief_check_roster(struct chief *chief)
{
    if (chief->order.roster || !all_are(chief, FACT_COMPLETE) || !all_are(chief, FACT_LISTED))
        return true;
    struct roster roster = {0};
    check_world(chief, &roster);
    if (!roster.is_bad) {
        chief->order.roster = true;
        chief->is_changed = true;
        return true;
    }
    char why[224];
    snprintf(why, sizeof why, "the ranks do not fit together: %s", roster.text);
    chief_end(chief, &(struct chief_end){.outcome = OUTCOME_FAILED,
                                         .code = EXIT_OWN_ERROR,
                                         .manner = MANNER_STOP,
                                         .why = why});
    return false;
}
