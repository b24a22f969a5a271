/* SPDX-License-Identifier: Apache-2.0
 * Slow ranks: the median of the job, by which the nodes judge their ranks, and their names in the
 * log. See chief_parts.h and common/slowness.h.
 *
 * A node reports the median of its ranks. The chief takes the median of these, each weighted with
 * the number of its ranks. With one rank on each node, and with one node, that is the median of all
 * ranks. Else at least a quarter of all ranks are not above it, and a quarter not below it.
 */
#include "core/chief/chief_parts.h"

#include "base/str.h"
#include "core/common/slowness.h"

/* The nodes learn of a new median if it differs by more than 1/NEWS: each order goes to all. */
#define NEWS 32

static uint64_t count_of_nodes(const void *of, uint64_t most)
{
    const struct chief *chief = of;
    uint64_t n = 0;
    for (int i = 0; i < chief->params->nnodes; i++) {
        const struct peer_own *own = &chief->peers[i].status.own;
        n += own->median_ns > 0 && own->median_ns <= most ? own->known : 0;
    }
    return n;
}

void chief_decide_slow(struct chief *chief)
{
    if (chief->out->now < chief->gen.median_at)
        return;
    chief->gen.median_at = chief->out->now + chief->params->heartbeat_interval_ns;
    uint64_t median = slowness_median(count_of_nodes, chief), told = chief->order.own_ns;
    uint64_t change = median > told ? median - told : told - median;
    if (change <= told / NEWS)
        return;
    chief->order.own_ns = median;
    chief->is_changed = true;
}

static void tell_slow(const struct chief *chief, const struct peer *peer)
{
    char others[64] = "", about[24], median[24];
    const struct peer_own *own = &peer->status.own;
    uint64_t known = chief->order.own_ns ? chief->order.own_ns : 1;
    uint64_t tenths = (10 * own->rank_ns + known / 2) / known;
    if (own->slow > 1)
        str_addf(others, sizeof others, "; %d other rank%s there %s slow, too", own->slow - 1,
                 own->slow > 2 ? "s" : "", own->slow > 2 ? "are" : "is");
    out_log(chief->out, LOG_WARN, "slow",
            "rank %d (node %d, %s, local rank %d) is slow: its own part of a step takes %llu.%llu "
            "x the median of "
            "all ranks (%s, not %s)%s",
            own->rank, chief_rank_of(chief, peer), peer->at.host, own->local_rank, ull(tenths / 10),
            ull(tenths % 10), str_about((int64_t)own->rank_ns, about, sizeof about),
            str_about((int64_t)chief->order.own_ns, median, sizeof median), others);
}

void chief_note_slow(const struct chief *chief, const struct peer *peer,
                     const struct peer_own *before)
{
    const struct peer_own *now = &peer->status.own;
    bool is_same = now->slow > 0 && now->rank == before->rank;
    if (before->slow > 0 && !is_same && now->known > 0)
        out_log(chief->out, LOG_NOTICE, "slow",
                "rank %d (node %d, %s, local rank %d) is no longer slow", before->rank,
                chief_rank_of(chief, peer), peer->at.host, before->local_rank);
    if (now->slow > 0 && !(before->slow > 0 && is_same))
        tell_slow(chief, peer);
}
