/* SPDX-License-Identifier: Apache-2.0
 * Two supervisors for one node. See chief_parts.h.
 *
 * Either the first one has died and its scheduler started it anew, or the second one is a mistake:
 * a copied command line, another job's leftover. What tells them apart is only whether the first is
 * still heard. So the second one, the claim, waits, and hears no more than that node 0 is there. It
 * is refused as soon as the node itself says anything. If the node stays away, then before the
 * start the claim takes its place; after it the node is lost, as it would be without any claim, and
 * the claim is told the end of the job as all others are: it ends with their code. A save that the
 * lost node had its part in may take its time until then. So a claim can bring down no job.
 */
#include "core/chief_parts.h"

static void refuse_as_twin(struct chief *chief, struct peer *peer, const struct caller *twin)
{
    char first[128], second[128];
    chief_refuse(chief, twin->conn,
                 "two nodes with rank %d: %s; and %s, which came later. Give each its own "
                 "--node-rank",
                 chief_rank_of(chief, peer), chief_caller_text(&peer->at, first, sizeof first),
                 chief_caller_text(twin, second, sizeof second));
}

void chief_tell_claim(struct chief *chief, struct peer *peer)
{
    bool ends = chief->order.end != END_NONE && !chief->order.restart;
    if (!ends || peer->claim.conn == CONN_NONE)
        return;
    if (!peer->has_told_claim)
        chief_welcome(chief, peer->claim.conn);
    peer->has_told_claim = true;
    chief_send_order(chief, peer->claim.conn, 0);
}

/* An order that orders nothing: its number is below all others. */
void chief_hold_claims(struct chief *chief)
{
    struct peermsg msg = {
        .type = PEERMSG_ORDER,
        .stamp = {.attempt = chief->params->attempt, .generation = chief->generation},
        .order = {.end_left_ms = -1}};
    for (int i = 1; i < chief->params->nnodes; i++)
        if (chief->peers[i].claim.conn != CONN_NONE)
            out_send(chief->out, chief->peers[i].claim.conn, &msg);
}

void chief_claim(struct chief *chief, struct peer *peer, const struct caller *caller)
{
    char text[128];
    if (peer->claim.conn != CONN_NONE && peer->claim.incarnation != caller->incarnation) {
        refuse_as_twin(chief, peer, caller); /* whoever is the node, it is not the third */
        return;
    }
    if (peer->claim.conn != CONN_NONE && peer->claim.conn != caller->conn)
        out_act(chief->out,
                &(struct action){.type = ACT_CLOSE, .peer = {.conn = peer->claim.conn}});
    peer->claim = *caller;
    peer->has_told_claim = false;
    chief_tell_claim(chief, peer);
    out_log(chief->out, LOG_INFO, "join", "node %d: %s says that it is this node, too",
            chief_rank_of(chief, peer), chief_caller_text(caller, text, sizeof text));
}

void chief_refuse_claim(struct chief *chief, struct peer *peer)
{
    if (peer->claim.conn == CONN_NONE || peer->has_told_claim)
        return;
    refuse_as_twin(chief, peer, &peer->claim);
    peer->claim = (struct caller){0};
}

static void admit_claim(struct chief *chief, struct peer *peer)
{
    struct caller claim = peer->claim;
    if (claim.conn == CONN_NONE)
        return;
    peer->claim = (struct caller){0};
    chief_admit(chief, peer, &claim);
}

void chief_unjoin(struct chief *chief, struct peer *peer)
{
    chief_set_fact(chief, peer, FACT_JOINED, false);
    admit_claim(chief, peer);
}

void chief_forget_claim(struct chief *chief, int conn)
{
    for (int i = 0; i < chief->params->nnodes; i++)
        if (chief->peers[i].claim.conn == conn)
            chief->peers[i].claim = (struct caller){0};
}
