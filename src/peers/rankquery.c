/* SPDX-License-Identifier: Apache-2.0
 * See rankquery.h.
 */
#include "peers/rankquery.h"

#include "base/clock.h"
#include "base/str.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A running node answers at once, from its loop. */
#define WAIT_NS (2 * NS_PER_S)

/* --- asking --- */

static void rankquery_on_clock(void *ctx)
{
    struct rankquery *call = ctx;
    struct peermsg msg = {.type = PEERMSG_LOOK, .look = {.number = call->number}};
    if (call->waits == 0 || (call->has_asked && clock_now_ns() >= call->until)) {
        call->is_open = false;
        call->on_over(call->ctx);
        return;
    }
    for (int i = 0; i < call->nnodes && !call->has_asked; i++)
        if (call->nodes[i].conn != CONN_NONE)
            peers_send(call->cluster->peers, call->nodes[i].conn, &msg);
    call->has_asked = true;
    watch_at(&call->clock, call->until); /* again, if the clock was a moment early */
}

/* Node 0 need not ask itself. */
static bool find_nodes(struct rankquery *call)
{
    struct core_peer_report *peers = calloc((size_t)call->nnodes, sizeof *peers);
    call->nodes = calloc((size_t)call->nnodes, sizeof call->nodes[0]);
    bool ok = peers && call->nodes;
    int n = ok ? core_peers(call->core, peers, call->nnodes) : 0;
    for (int i = 1; i < n; i++) {
        call->nodes[i].conn = peers[i].conn;
        call->waits += peers[i].conn != CONN_NONE;
    }
    free(peers);
    return ok;
}

bool rankquery_begin(struct rankquery *call)
{
    assert(!call->is_open);
    rankquery_forget(call);
    if (!find_nodes(call)) {
        rankquery_forget(call);
        return false;
    }
    call->is_open = true;
    call->number++;
    call->until = clock_now_ns() + WAIT_NS;
    watch_at(&call->clock, clock_now_ns());
    return true;
}

void rankquery_end(struct rankquery *call)
{
    call->is_open = false;
    watch_at(&call->clock, CLOCK_NEVER);
}

/* --- the answers --- */

static bool is_possible(const struct rankquery *call, const struct rankquery_node *node,
                        const struct peer_ranks *told)
{
    bool is_first = !node->list;
    return told->first == node->n && (is_first || told->total == node->total) &&
           (told->count > 0 || told->total == 0) && told->total <= CORE_SLOTS_MAX &&
           (!is_first || call->ranks + told->total <= CORE_WORLD_MAX);
}

/* One entry more, so that the list of a node without ranks is not NULL. */
static bool make_room(struct rankquery *call, struct rankquery_node *node, int total)
{
    if (node->list)
        return true;
    node->list = calloc((size_t)total + 1, sizeof node->list[0]);
    node->total = total;
    call->ranks += node->list ? total : 0;
    return node->list;
}

void rankquery_take(struct rankquery *call, int conn, const struct peermsg *msg)
{
    const struct peer_ranks *told = &msg->ranks;
    if (!call->is_open || told->number != call->number || told->node_rank >= (uint32_t)call->nnodes)
        return;
    struct rankquery_node *node = &call->nodes[told->node_rank];
    if (conn == CONN_NONE || node->conn != conn || node->is_over)
        return;
    node->is_bad = !is_possible(call, node, told) || !make_room(call, node, told->total);
    if (!node->is_bad) {
        memcpy(node->list + node->n, told->list, told->count * sizeof told->list[0]);
        node->n += told->count;
        node->told_at = clock_now_ns();
    }
    node->is_over = node->is_bad || node->n == node->total;
    call->waits -= node->is_over;
    if (call->waits == 0)
        watch_at(&call->clock, clock_now_ns());
}

const struct rankquery_node *rankquery_told(const struct rankquery *call, int node_rank,
                                            char *ret_why, size_t size)
{
    const struct rankquery_node *node = &call->nodes[node_rank];
    char about[24];
    if (node->is_over && !node->is_bad)
        return node;
    if (node->is_bad)
        str_copy(ret_why, size, "its answer is invalid");
    else if (node->conn == CONN_NONE)
        str_copy(ret_why, size, "it has no connection to node 0");
    else if (clock_now_ns() >= call->until)
        snprintf(ret_why, size, "no answer for %s", str_about(WAIT_NS, about, sizeof about));
    else
        str_copy(ret_why, size, "the job ended before this node answered");
    return NULL;
}

/* --- the other side --- */

void rankquery_answer(struct cluster *cluster, int conn, const struct peer_ranks *head,
                      const struct peer_rank *list)
{
    struct peermsg msg = {.type = PEERMSG_RANKS, .ranks = *head};
    struct peer_ranks *part = &msg.ranks;
    do {
        int left = part->total - part->first;
        part->count = (uint8_t)(left < PEERMSG_RANKS_MAX ? left : PEERMSG_RANKS_MAX);
        memcpy(part->list, list + part->first, part->count * sizeof list[0]);
        peers_send(cluster->peers, conn, &msg);
        part->first += part->count;
    } while (part->first < part->total);
}

/* --- begin and end --- */

void rankquery_open(struct rankquery *call, struct event_base *base)
{
    watch_init(&call->clock, base, rankquery_on_clock, call);
}

void rankquery_forget(struct rankquery *call)
{
    for (int i = 0; call->nodes && i < call->nnodes; i++)
        free(call->nodes[i].list);
    free(call->nodes);
    call->nodes = NULL;
    call->has_asked = false;
    call->waits = call->ranks = 0;
}

void rankquery_free(struct rankquery *call)
{
    watch_end(&call->clock);
    rankquery_forget(call);
}
