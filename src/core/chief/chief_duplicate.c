/* SPDX-License-Identifier: Apache-2.0
 * Two supervisors for one node. See chief_parts.h.
 *
 * Either the first supervisor died and its scheduler started it again, or the second one is a
 * mistake, such as a copied command line. Only one thing tells them apart: node 0 still hears the
 * first, or does not. So the second supervisor, the claim, waits; node 0 sends it empty orders.
 *
 * Node 0 refuses the claim as soon as it hears the first supervisor. If the first stays silent
 * before the start, the claim becomes the node. After the start the node is lost, as without a
 * claim. The claim is then told the end of the job, and ends with the same code as all nodes. An
 * open save that has the lost node's part may finish first. So a claim cannot end a healthy job.
 */
#include "core/chief/chief_parts.h"

static void refuse_as_twin(struct chief *chief, struct peer *peer, const struct caller *twin)
{
    char first[128], second[128];
    chief_refuse(chief, twin->conn,
                 "two nodes with rank %d: %s; and %s, which came later. Give each its own "
                 "--node-rank",
                 chief_rank_of(chief, peer), chief_caller_text(&peer->at, first, sizeof first),
                 chief_caller_text(twin, second, sizeof second));
}

void chief_tell_duplicate(struct chief *chief, struct peer *peer)
{
    bool ends = chief->order.end != END_NONE && !chief->order.restart;
    if (!ends || peer->duplicate.conn == CONN_NONE)
        return;
    if (!peer->has_told_duplicate)
        chief_welcome(chief, peer->duplicate.conn);
    peer->has_told_duplicate = true;
    chief_send_order(chief, peer->duplicate.conn, 0);
}

/* The order number 0 is below all others, so this order changes nothing. */
void chief_hold_duplicates(struct chief *chief)
{
    struct peermsg msg = {
        .type = PEERMSG_ORDER,
        .stamp = {.attempt = chief->params->attempt, .generation = chief->generation},
        .order = {.end_left_ms = -1}};
    for (int i = 1; i < chief->params->nnodes; i++)
        if (chief->peers[i].duplicate.conn != CONN_NONE)
            out_send(chief->out, chief->peers[i].duplicate.conn, &msg);
}

void chief_hold_duplicate(struct chief *chief, struct peer *peer, const struct caller *caller)
{
    char text[128];
    if (peer->duplicate.conn != CONN_NONE && peer->duplicate.incarnation != caller->incarnation) {
        refuse_as_twin(chief, peer, caller); /* a third supervisor is always a mistake */
        return;
    }
    if (peer->duplicate.conn != CONN_NONE && peer->duplicate.conn != caller->conn)
        out_act(chief->out,
                &(struct action){.type = ACT_CLOSE, .peer = {.conn = peer->duplicate.conn}});
    peer->duplicate = *caller;
    peer->has_told_duplicate = false;
    chief_tell_duplicate(chief, peer);
    out_log(chief->out, LOG_INFO, "join", "node %d: %s says that it is this node, too",
            chief_rank_of(chief, peer), chief_caller_text(caller, text, sizeof text));
}

void chief_refuse_duplicate(struct chief *chief, struct peer *peer)
{
    if (peer->duplicate.conn == CONN_NONE || peer->has_told_duplicate)
        return;
    refuse_as_twin(chief, peer, &peer->duplicate);
    peer->duplicate = (struct caller){0};
}

static void admit_duplicate(struct chief *chief, struct peer *peer)
{
    struct caller duplicate = peer->duplicate;
    if (duplicate.conn == CONN_NONE)
        return;
    peer->duplicate = (struct caller){0};
    chief_admit(chief, peer, &duplicate);
}

void chief_unjoin(struct chief *chief, struct peer *peer)
{
    chief_set_fact(chief, peer, FACT_JOINED, false);
    admit_duplicate(chief, peer);
}

void chief_forget_duplicate(struct chief *chief, int conn)
{
    for (int i = 0; i < chief->params->nnodes; i++)
        if (chief->peers[i].duplicate.conn == conn)
            chief->peers[i].duplicate = (struct caller){0};
}
