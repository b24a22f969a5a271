/* SPDX-License-Identifier: Apache-2.0
 * How fast the job trains: how long a step takes, and how much time the ranks need to come
 * together; and the ranks that are slow. See chief_parts.h.
 *
 * The last save before a deadline begins by these times, and it cannot be called off. So no single
 * sample counts. A line may be silent for seconds and then deliver old steps, a supervisor may have
 * stood still, or one rank may have paused once. Only what two samples show is believed.
 */
#include "core/chief/chief_parts.h"

#include "base/str.h"
#include "core/common/grace.h"
#include "core/common/slowness.h"

#include <string.h>

/* A pace is measured over at least this time: nearly a heartbeat. */
#define PACE_NS (900 * NS_PER_MS)

/* --- how long a step takes --- */

void chief_pace_again(const struct chief *chief, struct peer *peer)
{
    peer->is_paced = true;
    peer->moved_at = chief->out->now;
}

static uint64_t count_paces(const void *of, uint64_t most)
{
    const struct peer *peer = of;
    uint64_t n = 0;
    for (int i = 0; i < CHIEF_PACES; i++)
        n += peer->paces[i] > 0 && peer->paces[i] <= most;
    return n;
}

/* Not every STATUS carries freshly read steps, so the time runs between two changes of the step.
 * Only training counts: no attach, no wait for other ranks, no compilation before the first step,
 * no save. */
static void note_pace(const struct chief *chief, struct peer *peer, uint64_t before)
{
    uint64_t highest = peer->status.highest;
    bool is_training = peer->is_paced && peer_is(peer, FACT_STEPPED) && highest > before;
    if (highest == before)
        return;
    if (is_training && all_are(chief, FACT_COMPLETE)) {
        peer->trained_ns += chief->out->now - peer->moved_at;
        peer->trained_steps += highest - before;
    }
    if (peer->trained_ns >= PACE_NS) {
        if (peer->is_warm)
            peer->paces[peer->npaces++ % CHIEF_PACES] =
                (uint64_t)peer->trained_ns / peer->trained_steps;
        peer->is_warm = true;
        peer->step_ns = slowness_median(count_paces, peer);
        peer->trained_ns = 0;
        peer->trained_steps = 0;
    }
    peer->is_paced = all_are(chief, FACT_COMPLETE);
    peer->moved_at = chief->out->now;
}

/* How long the ranks have trained in their present step, as far as is known. While a node is slow
 * to vote, they stand at the gate, or wait for ranks there. At the save step they wait for the
 * ranks that have not come to it. */
static int64_t in_this_step(const struct chief *chief, const struct peer *peer)
{
    bool awaits_others = chief_is_deciding(chief) && !chief->gen.begun_at &&
                         peer->status.highest >= chief->order.save_step;
    bool is_held = chief->order.phase == PHASE_PROPOSED || awaits_others;
    int64_t until = is_held ? clock_min(peer->read_at, chief->gen.proposed_at) : peer->read_at;
    return peer->is_paced && until > peer->moved_at ? until - peer->moved_at : 0;
}

/* The median of the last paces: a rank that pauses once makes two of them slow. Before two paces
 * are known, a step is assumed to take as long as the present step has taken so far. */
static double time_of_a_step(const struct chief *chief, const struct peer *peer)
{
    double known = (double)peer->step_ns;
    if (peer->npaces > 1)
        return known;
    double since = (double)in_this_step(chief, peer);
    double late = since / (double)chief->gen.stride.period;
    return known > 0 && known < late ? known : late;
}

static int64_t limited(double ns)
{
    return ns < (double)GRACE_MAX_NS ? (int64_t)ns : GRACE_MAX_NS;
}

int64_t chief_time_of_step(const struct chief *chief)
{
    double longest = 0;
    for (int i = 0; i < chief->params->nnodes; i++) {
        const struct peer *peer = &chief->peers[i];
        double takes = peer->status.expected > 0 ? time_of_a_step(chief, peer) : 0;
        longest = takes > longest ? takes : longest;
    }
    return limited((double)chief->gen.stride.period * longest);
}

double chief_steps_per_s(const struct peer *peer)
{
    uint64_t newest = peer->paces[(peer->npaces + CHIEF_PACES - 1) % CHIEF_PACES];
    return newest > 0 ? (double)NS_PER_S / (double)newest : 0;
}

/* --- how far the ranks are apart --- */

/* If readings come close together, only the last one counts: after a silence the connection
 * delivers old readings first. */
static void note_reading(const struct chief *chief, struct peer *peer)
{
    const struct peer_status *now = &peer->status;
    if (!now->wants_reply || !all_are(chief, FACT_COMPLETE))
        return;
    if (chief->out->now - peer->stretch_at >= PACE_NS / 2) {
        peer->readings[0] = peer->readings[1];
        peer->readings[1] = peer->readings[2];
        peer->stretch_at = chief->out->now;
    }
    peer->readings[2] = (struct reading){
        .at = chief->out->now, .lowest = (double)now->lowest, .highest = (double)now->highest};
}

/* Where the node's ranks were at a time between its last two readings. */
static struct reading steps_at(const struct peer *peer, int64_t at)
{
    const struct reading *from = &peer->readings[1], *to = &peer->readings[2];
    double part = (double)(at - from->at) / (double)(to->at - from->at);
    return (struct reading){.at = at,
                            .lowest = from->lowest + part * (to->lowest - from->lowest),
                            .highest = from->highest + part * (to->highest - from->highest)};
}

/* The time for which every node has two readings around it, and each has a new one. 0: there is
 * none. */
static int64_t common_time(const struct chief *chief)
{
    int64_t from = 0, at = CLOCK_NEVER;
    for (int i = 0; i < chief->params->nnodes; i++) {
        const struct peer *peer = &chief->peers[i];
        if (peer->status.expected == 0)
            continue;
        if (!peer->readings[1].at || peer->stretch_at <= chief->gen.lag_at)
            return 0;
        from = peer->readings[1].at > from ? peer->readings[1].at : from;
        at = clock_min(at, peer->readings[2].at);
    }
    return at != CLOCK_NEVER && at > from ? at : 0;
}

/* How long a step of the node's last rank took between two readings; 0: it did not move. */
static double time_between(const struct reading *from, const struct reading *to)
{
    double steps = to->lowest - from->lowest;
    return from->at && steps > 0 ? (double)(to->at - from->at) / steps : 0;
}

/* Paces of different times cannot be compared. So a step takes no longer than between the last
 * readings: the pace may just have risen. That must show twice, too: a rank that saves now and then
 * is quick between two saves. But where no two paces are known, one reading tells more than none.
 */
static double time_of_a_step_now(const struct chief *chief, const struct peer *peer)
{
    const struct reading *r = peer->readings;
    double takes = time_of_a_step(chief, peer);
    double before = time_between(&r[0], &r[1]), now = time_between(&r[1], &r[2]);
    double shown = now > before ? now : before;
    bool is_shown = now > 0 && (before > 0 || !r[0].at || peer->npaces < 2);
    return is_shown && (shown < takes || takes <= 0) ? shown : takes;
}

void chief_look_at_lag(struct chief *chief)
{
    int64_t at = common_time(chief);
    double furthest = 0, lag = 0;
    if (!at)
        return;
    chief->gen.lag_at = chief->out->now;
    for (int i = 0; i < chief->params->nnodes; i++) {
        const struct peer *peer = &chief->peers[i];
        double step = peer->status.expected > 0 ? steps_at(peer, at).highest : 0;
        furthest = step > furthest ? step : furthest;
    }
    for (int i = 0; i < chief->params->nnodes; i++) {
        const struct peer *peer = &chief->peers[i];
        if (peer->status.expected == 0)
            continue;
        double behind = furthest - steps_at(peer, at).lowest;
        double takes = behind * time_of_a_step_now(chief, peer);
        lag = takes > lag ? takes : lag;
    }
    twice_note(&chief->gen.lag, limited(lag));
}

int64_t chief_lag(const struct chief *chief)
{
    return twice_shown(&chief->gen.lag);
}

void chief_note_steps(const struct chief *chief, struct peer *peer, uint64_t before)
{
    note_pace(chief, peer, before);
    note_reading(chief, peer);
}

void chief_reset_pace(struct peer *peer)
{
    memset(peer->paces, 0, sizeof peer->paces);
    peer->npaces = 0;
    peer->step_ns = 0;
    peer->is_paced = peer->is_warm = false;
    peer->trained_ns = 0;
    peer->trained_steps = 0;
    memset(peer->readings, 0, sizeof peer->readings);
}

/* --- slow ranks: common/slowness.h ---
 *
 * A node reports the median of its ranks. The chief takes the median of these, each weighted with
 * the number of its ranks. With one rank on each node, and with one node, that is the median of all
 * ranks. Else at least a quarter of all ranks are not above it, and a quarter not below it.
 */

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
