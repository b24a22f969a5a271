/* SPDX-License-Identifier: Apache-2.0
 * The chief's knowledge of a node, for the status report. See chief.h.
 */
#include "base/str.h"
#include "core/chief/chief.h"
#include "core/chief/chief_parts.h"

/* The chief's decision (lost, missing) overrides the state that the node tells. */
static const char *state_of(const struct peer *peer)
{
    static const char *const lives[] = {
        [LIFE_WAITING] = "waiting",   [LIFE_RUNNING] = "running", [LIFE_ENDED] = "ended",
        [LIFE_FINISHED] = "finished", [LIFE_FAILED] = "failed",   [LIFE_GONE] = "gone",
    };
    if (peer_is(peer, FACT_LOST))
        return "lost";
    if (!peer_is(peer, FACT_JOINED))
        return "missing";
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
        .steps_per_s = peer->rate > 0 ? peer->rate * (double)NS_PER_S : 0,
    };
    str_copy(ret->host, sizeof ret->host, peer->at.host);
    str_copy(ret->why, sizeof ret->why, peer_is(peer, FACT_LOST) ? peer->lost_why : "");
}
