/* SPDX-License-Identifier: Apache-2.0
 * The facts about the nodes with their counts, and the node of each connection. See chief_parts.h.
 */
#include "core/chief/chief_parts.h"

#include "base/str.h"

#include <string.h>

/* A message names at most this many nodes. The other nodes mostly wait for the same thing. */
enum { TOLD_MAX = 4 };

/* --- facts --- */

void chief_set_fact(struct chief *chief, struct peer *peer, enum fact fact, bool holds)
{
    uint64_t bit = UINT64_C(1) << fact;
    if (!(peer->facts & bit) == !holds)
        return;
    peer->facts ^= bit;
    chief->count[fact] += holds ? 1 : -1;
    if (fact == FACT_JOINED || fact == FACT_LOST || fact == FACT_GONE)
        chief_set_fact(chief, peer, FACT_THERE,
                       peer_is(peer, FACT_JOINED) && !peer_is(peer, FACT_GONE) &&
                           !peer_is(peer, FACT_LOST));
}

int chief_rank_of(const struct chief *chief, const struct peer *peer)
{
    return (int)(peer - chief->peers);
}

struct peer *chief_first(const struct chief *chief, enum fact fact)
{
    for (int i = 0; i < chief->params->nnodes; i++)
        if (peer_is(&chief->peers[i], fact))
            return &chief->peers[i];
    return NULL;
}

/* The nodes for which the fact holds, or does not. */
static void list_nodes(const struct chief *chief, enum fact fact, bool holds, char *text,
                       size_t size)
{
    int n = chief->params->nnodes;
    text[0] = '\0';
    for (int i = 0, last; i < n; i = last + 1) {
        last = i;
        if (peer_is(&chief->peers[i], fact) != holds)
            continue;
        while (last + 1 < n && peer_is(&chief->peers[last + 1], fact) == holds)
            last++;
        if (strlen(text) + 24 > size) {
            str_addf(text, size, ", ...");
            break;
        }
        str_addf(text, size, last > i ? "%s%d-%d" : "%s%d", text[0] ? ", " : "", i, last);
    }
}

void chief_list_with(const struct chief *chief, enum fact fact, char *text, size_t size)
{
    list_nodes(chief, fact, true, text, size);
}

void chief_list_without(const struct chief *chief, enum fact fact, char *text, size_t size)
{
    list_nodes(chief, fact, false, text, size);
}

/* " (3 of 8 ranks)" */
static void add_ranks(const struct peer_status *s, int n, char *text, size_t size)
{
    if (s->expected == PEERMSG_UNKNOWN)
        str_addf(text, size, " (%d rank%s)", n, n == 1 ? "" : "s");
    else if (n < s->expected)
        str_addf(text, size, " (%d of %d rank%s)", n, s->expected, s->expected == 1 ? "" : "s");
}

void chief_tell_without(const struct chief *chief, enum fact fact, char *text, size_t size)
{
    int told = 0;
    text[0] = '\0';
    for (int i = 0; i < chief->params->nnodes && told <= TOLD_MAX; i++) {
        const struct peer *peer = &chief->peers[i];
        if (peer_is(peer, fact) || ++told > TOLD_MAX)
            continue;
        str_addf(text, size, "%snode %d", told > 1 ? ", " : "", i);
        if (fact == FACT_COMPLETE)
            add_ranks(&peer->status, peer->status.attached, text, size);
        else if (fact == FACT_SAVED)
            add_ranks(&peer->status, peer->stamp.round == chief->gen.round ? peer->status.saved : 0,
                      text, size);
    }
    if (told > TOLD_MAX)
        str_addf(text, size, ", ...");
}

/* A save that is not every rank's part must be where all nodes see it. */
static void note_needs(struct chief *chief, struct peer *peer, bool is_round)
{
    const struct peer_status *s = &peer->status;
    bool is_lost = peer_is(peer, FACT_LOST), is_recorded = is_round && s->need.whole > 0;
    bool is_seen = chief->params->nnodes == 1 || s->paths == PATHS_SHARED;
    chief_set_fact(chief, peer, FACT_FAILED, is_round && (s->failed || s->save_error[0]));
    chief_set_fact(chief, peer, FACT_CAME, is_lost || (is_round && s->need.came == s->expected));
    chief_set_fact(chief, peer, FACT_WHOLE,
                   is_recorded && is_seen && !s->mismatch &&
                       s->saved_step == chief->order.save_step);
    chief_set_fact(chief, peer, FACT_HOPES,
                   is_round && !is_lost && !is_recorded && s->need.hopes > 0);
}

static void note_round(struct chief *chief, struct peer *peer)
{
    const struct peer_status *s = &peer->status;
    bool is_round = chief->gen.round > 0 && peer->stamp.round == chief->gen.round;
    bool is_ballot = is_round && peer->stamp.ballot == chief->gen.ballot;
    bool is_all = s->expected != PEERMSG_UNKNOWN && s->saved == s->expected;
    chief_set_fact(chief, peer, FACT_VOTED, is_ballot && s->vote != VOTE_NONE);
    chief_set_fact(chief, peer, FACT_NACK, is_ballot && s->vote == VOTE_NACK);
    chief_set_fact(chief, peer, FACT_SAVED,
                   is_round && is_all && (s->prepared || s->expected == 0) && !s->mismatch);
    chief_set_fact(chief, peer, FACT_SOME_SAVED, is_round && s->saved > 0);
    bool needs_all = chief->order.needs == NEEDS_ALL;
    chief_set_fact(chief, peer, FACT_BAD,
                   is_round && (s->mismatch || (needs_all && (s->failed || s->save_error[0]))));
    chief_set_fact(chief, peer, FACT_SOME_ENDED, is_round && s->ended > 0);
    chief_set_fact(chief, peer, FACT_SERVED, is_round && s->served >= s->attached);
    chief_set_fact(chief, peer, FACT_SETTLED,
                   (is_round && s->saved + s->ended + s->failed >= s->attached) ||
                       (!needs_all && peer_is(peer, FACT_LOST)));
    chief_set_fact(chief, peer, FACT_CLOSED, is_round && s->closed);
    chief_set_fact(chief, peer, FACT_WAITS, is_round && s->all_wait);
    note_needs(chief, peer, is_round);
}

static void note_own(struct chief *chief, struct peer *peer)
{
    const struct peer_status *s = &peer->status;
    bool is_open = s->own_step > chief->order.commit_step && s->own_step > chief->order.own_closed;
    chief_set_fact(chief, peer, FACT_OWN, s->expected == 0 || is_open);
    chief_set_fact(chief, peer, FACT_OWN_MORE, s->own_more || (s->expected > 0 && is_open));
    chief_set_fact(chief, peer, FACT_NO_OWN,
                   !peer_is(peer, FACT_LIVE) && !peer_is(peer, FACT_OWN) &&
                       !peer_is(peer, FACT_OWN_MORE));
}

/* A node may have ended its processes for a restart, or for an earlier cause. A node is gone only
 * when it has seen the end that node 0 ordered. Normal after a reconnect: the node has not seen
 * that end. */
static bool is_gone(const struct chief *chief, const struct peer *peer)
{
    return peer->stamp.seq > 0 && peer->status.life == LIFE_GONE &&
           peer->status.seen >= chief->gen.end_seq;
}

void chief_note(struct chief *chief, struct peer *peer)
{
    const struct peer_status *s = &peer->status;
    bool has = peer->stamp.seq > 0; /* at least one STATUS has come */
    bool is_known = has && s->expected != PEERMSG_UNKNOWN;
    chief_set_fact(chief, peer, FACT_HEARD, has);
    chief_set_fact(chief, peer, FACT_COMPLETE, is_known && s->attached == s->expected);
    chief_set_fact(chief, peer, FACT_LIVE, is_known && s->live == s->expected);
    chief_set_fact(chief, peer, FACT_SOME_LIVE, has && s->live > 0);
    chief_set_fact(chief, peer, FACT_ATTACHED, has && s->attached > 0);
    chief_set_fact(chief, peer, FACT_STEPPED, has && s->stepped);
    chief_set_fact(chief, peer, FACT_DONE,
                   is_known && (s->expected == 0 || s->done == s->expected));
    chief_set_fact(chief, peer, FACT_OVER,
                   peer_is(peer, FACT_DONE) &&
                       (s->life == LIFE_DONE || s->life == LIFE_ENDED || s->life == LIFE_FINISHED));
    chief_set_fact(chief, peer, FACT_RETURNED, has && s->attached == 0 && s->done > 0);
    chief_set_fact(chief, peer, FACT_ENDED,
                   has && (s->life == LIFE_ENDED || s->life == LIFE_FINISHED));
    chief_set_fact(chief, peer, FACT_FINISHED, has && s->life == LIFE_FINISHED);
    chief_set_fact(chief, peer, FACT_KNOWS, has && s->knows_notice);
    chief_set_fact(chief, peer, FACT_GONE, is_gone(chief, peer));
    chief_set_fact(chief, peer, FACT_INTERRUPTED, has && s->interrupted);
    chief_set_fact(chief, peer, FACT_LEFT, has && s->life == LIFE_GONE && s->left);
    chief_set_fact(chief, peer, FACT_LISTED, is_known && (s->expected == 0 || s->roster[0]));
    chief_set_fact(chief, peer, FACT_MOVES, !has || s->watch.motion == MOTION_MOVES);
    chief_set_fact(chief, peer, FACT_STANDS,
                   has && (s->watch.motion == MOTION_STANDS || s->watch.motion == MOTION_SILENT));
    chief_set_fact(chief, peer, FACT_STOPS, s->stop_asked != peer->stops_given_up);
    chief_set_fact(chief, peer, FACT_GAVE_UP, has && s->watch.gave_up > 0);
    chief_set_fact(chief, peer, FACT_SAME_DIR, has && s->dir == DIR_SAME);
    chief_set_fact(chief, peer, FACT_LOOKS, has && s->dir == DIR_LOOKS);
    if (!peer_is(peer, FACT_CHECKS))
        peer->checks_since = chief->out->now;
    chief_set_fact(chief, peer, FACT_CHECKS, has && s->checking);
    bool listens =
        has && chief->order.measure.number > 0 && s->link.number == chief->order.measure.number;
    if (peer == &chief->peers[0] && listens != peer_is(peer, FACT_LISTENS))
        chief->is_changed = true; /* the other nodes wait for its place */
    chief_set_fact(chief, peer, FACT_LISTENS, listens);
    chief_set_fact(chief, peer, FACT_MEASURED, listens && s->link.is_over);
    note_own(chief, peer);
    note_round(chief, peer);
}

void chief_note_all(struct chief *chief)
{
    for (int i = 0; i < chief->params->nnodes; i++)
        chief_note(chief, &chief->peers[i]);
}

void chief_note_uncommitted(struct chief *chief, uint64_t step)
{
    chief->gen.uncommitted = step > chief->gen.uncommitted ? step : chief->gen.uncommitted;
}

static void find_highest(struct chief *chief)
{
    chief->highest = 0;
    for (int i = 0; i < chief->params->nnodes; i++)
        if (chief->peers[i].status.highest > chief->highest)
            chief->highest = chief->peers[i].status.highest;
    chief->nhighest = 0;
    for (int i = 0; i < chief->params->nnodes; i++)
        chief->nhighest += chief->peers[i].status.highest == chief->highest;
}

/* The full search runs only when no node is at the highest step any more: a launcher may have
 * started the ranks of all nodes again. */
void chief_note_highest(struct chief *chief, uint64_t before, uint64_t now)
{
    if (now == before)
        return;
    if (now > chief->highest) {
        chief->highest = now;
        chief->nhighest = 1;
    } else if (now == chief->highest) {
        chief->nhighest++;
    } else if (before == chief->highest && --chief->nhighest <= 0) {
        find_highest(chief);
    }
}

void chief_reset(struct chief *chief, struct peer *peer)
{
    uint64_t highest = peer->status.highest;
    chief->checkpoints -= peer->status.checkpoint_asked;
    memset(&peer->status, 0, sizeof peer->status);
    chief_note_highest(chief, highest, 0);
    peer->status.expected = PEERMSG_UNKNOWN;
    peer->stamp = (struct peer_stamp){0};
    peer->stops_given_up = 0;
    peer->interrupted_at = CLOCK_NEVER;
    peer->has_failed = false;
}

uint32_t chief_world(const struct chief *chief)
{
    uint32_t world = 0;
    for (int i = 0; i < chief->params->nnodes; i++) {
        if (chief->peers[i].status.expected == PEERMSG_UNKNOWN)
            return 0;
        world += chief->peers[i].status.expected;
    }
    return world;
}

bool chief_is_over(const struct chief *chief)
{
    return all_are(chief, FACT_OVER) && any_is(chief, FACT_ATTACHED);
}

bool chief_is_awaited(const struct chief *chief, const struct peer *peer)
{
    return !peer_is(peer, FACT_LOST) && (!peer_is(peer, FACT_GONE) || chief->order.restart);
}

bool chief_all_say(const struct chief *chief,
                   bool (*says)(const struct chief *chief, const struct peer *peer))
{
    for (int i = 0; i < chief->params->nnodes; i++)
        if (!says(chief, &chief->peers[i]))
            return false;
    return true;
}

/* --- connections --- */

static struct peer *anchor_of(const struct chief *chief, int conn)
{
    return &chief->peers[conn % chief->params->nnodes];
}

struct peer *chief_of_conn(const struct chief *chief, int conn)
{
    struct peer *peer = anchor_of(chief, conn)->anchored;
    while (peer && peer->at.conn != conn)
        peer = peer->next;
    return peer;
}

void chief_set_conn(struct chief *chief, struct peer *peer, int conn)
{
    struct peer **at = &anchor_of(chief, peer->at.conn)->anchored;
    while (*at && *at != peer)
        at = &(*at)->next;
    if (*at)
        *at = peer->next;
    peer->at.conn = conn;
    chief_set_fact(chief, peer, FACT_CONNECTED, conn != CONN_NONE);
    if (conn == CONN_NONE)
        return;
    struct peer *anchor = anchor_of(chief, conn);
    peer->next = anchor->anchored;
    anchor->anchored = peer;
}
