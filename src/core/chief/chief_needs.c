/* SPDX-License-Identifier: Apache-2.0
 * Which ranks' saves make a step a checkpoint (save.needs), and a round that some ranks or nodes do
 * not outlive. See chief_parts.h.
 *
 * With `all` a round needs every save. With `rank0` and `any` one save is the whole checkpoint: the
 * round commits when that save is durable, and each other rank has come to the step or is gone.
 * Gone means that its process died, or that its node was lost. A rank that is only late is waited
 * for. If one node is lost, the others must see the checkpoint. So several nodes need every save
 * unless they share checkpoint.dir, and the path lies in it.
 */
#include "core/chief/chief_parts.h"

#include "base/clock.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>

/* A round that has lost a rank or a node waits this long for the other ranks to come to the step,
 * beside the time of their steps; and at most so long. Most often they wait for what is lost. */
#define COME_NS      (5 * NS_PER_S)
#define COME_MOST_NS (10 * NS_PER_S)
/* It waits this long for a save while no save was measured, and beside two measured ones. */
#define SAVE_NS (20 * NS_PER_S)
#define MORE_NS (5 * NS_PER_S)

/* A message names at most this many nodes. */
enum { TOLD_MAX = 4 };

/* --- the setting --- */

/* The one thing that all ranks declare. *ret_differs: they declare several, so none counts. */
static enum save_needs declared(const struct chief *chief, bool *ret_differs)
{
    enum save_needs found = NEEDS_ALL;
    int n = 0;
    for (int k = 0; k < PEERMSG_NEEDS; k++)
        for (int i = 0; i < chief->params->nnodes; i++)
            if (chief->peers[i].status.need.declares[k]) {
                found = (enum save_needs)k;
                n++;
                break;
            }
    *ret_differs = n > 1;
    return n == 1 ? found : NEEDS_ALL;
}

static enum save_needs wanted(const struct chief *chief, bool *ret_differs)
{
    *ret_differs = false;
    return chief->params->needs == NEEDS_AUTO ? declared(chief, ret_differs) : chief->params->needs;
}

/* Each node can load the saves of the others. */
static bool shares_saves(const struct chief *chief)
{
    return chief->params->nnodes == 1 ||
           (chief->params->shares_saves && all_are(chief, FACT_SAME_DIR));
}

enum save_needs chief_needs(const struct chief *chief)
{
    bool differs;
    return shares_saves(chief) ? wanted(chief, &differs) : NEEDS_ALL;
}

/* "rank 4 of node 1 declares any, rank 0 of node 0 declares rank0: ..." */
static void tell_difference(const struct chief *chief)
{
    static const char *const words[] = {
        [NEEDS_ALL] = "nothing", [NEEDS_RANK0] = "rank0", [NEEDS_ANY] = "any"};
    char text[160] = "";
    for (int k = PEERMSG_NEEDS - 1; k >= 0; k--)
        for (int i = 0; i < chief->params->nnodes; i++) {
            uint32_t rank = chief->peers[i].status.need.declares[k];
            if (!rank)
                continue;
            str_addf(text, sizeof text, "%srank %u of node %d declares %s", text[0] ? ", " : "",
                     rank - 1, i, words[k]);
            break;
        }
    out_log(chief->out, LOG_WARN, "save",
            "%s: so every rank's save is needed (save.needs sets what counts instead)", text);
}

static void tell_unshared(const struct chief *chief, enum save_needs needs)
{
    out_log(chief->out, LOG_WARN, "save",
            "%s makes a checkpoint (%s), but %s: so every rank's save is needed",
            needs == NEEDS_RANK0 ? "rank 0's save" : "any rank's save",
            chief->params->needs == NEEDS_AUTO ? "as the program declares" : "save.needs",
            chief->params->shares_saves
                ? "a node has another checkpoint.dir than node 0"
                : "checkpoint.dir is not known to be one directory of all nodes");
}

void chief_tell_needs(struct chief *chief)
{
    bool differs;
    if (chief->gen.has_judged_needs || chief->has_told_needs || !chief->order.roster ||
        any_is(chief, FACT_LOOKS))
        return;
    chief->gen.has_judged_needs = true;
    enum save_needs needs = wanted(chief, &differs);
    chief->has_told_needs = differs || (needs != NEEDS_ALL && !shares_saves(chief));
    if (differs)
        tell_difference(chief);
    else if (chief->has_told_needs)
        tell_unshared(chief, needs);
}

/* --- the round --- */

static bool needs_some(const struct chief *chief)
{
    return chief_is_deciding(chief) && chief->order.needs != NEEDS_ALL;
}

bool chief_has_hope(const struct chief *chief)
{
    return any_is(chief, FACT_WHOLE) || any_is(chief, FACT_HOPES);
}

bool chief_is_enough(const struct chief *chief)
{
    return needs_some(chief) && any_is(chief, FACT_WHOLE) && all_are(chief, FACT_CAME);
}

void chief_note_hurt(struct chief *chief)
{
    bool is_hurt = any_is(chief, FACT_LOST) || chief->gen.causes.n > 0;
    if (needs_some(chief) && is_hurt && !chief->gen.hurt_at)
        chief->gen.hurt_at = chief->out->now;
}

/* The last save before a deadline may use all of the time that is left. */
int64_t chief_outlives_until(const struct chief *chief)
{
    if (!needs_some(chief) || !chief->gen.hurt_at)
        return CLOCK_NEVER;
    if (chief->gen.wants_to_end && chief->notice.is_live)
        return chief_abort_at(chief);
    int64_t save = chief_save_time(chief, false);
    int64_t come = COME_NS + 2 * (chief_time_of_step(chief) + chief_lag(chief));
    int64_t until = chief->gen.hurt_at + clock_min(come, COME_MOST_NS);
    if (all_are(chief, FACT_CAME))
        until += save ? 2 * save + MORE_NS : SAVE_NS;
    return clock_min(until, chief_abort_at(chief));
}

bool chief_outlives(const struct chief *chief)
{
    if (!needs_some(chief))
        return false;
    bool is_in_time =
        chief->writing == COMMIT_ROUND || chief->out->now < chief_outlives_until(chief);
    return is_in_time && chief_has_hope(chief);
}

uint32_t chief_whole(const struct chief *chief)
{
    const struct peer *peer =
        chief->order.needs != NEEDS_ALL ? chief_first(chief, FACT_WHOLE) : NULL;
    return peer ? peer->status.need.whole : 0;
}

static bool says_come(const struct chief *chief, const struct peer *peer)
{
    const struct peer_status *s = &peer->status;
    return peer_is(peer, FACT_LOST) ||
           (peer->stamp.round == chief->gen.round && s->need.came == s->expected);
}

/* Does not trust the facts: a promise depends on it. */
bool chief_proves_enough(const struct chief *chief)
{
    bool has_whole = false;
    for (int i = 0; i < chief->params->nnodes; i++) {
        const struct peer *peer = &chief->peers[i];
        const struct peer_status *s = &peer->status;
        bool is_seen = chief->params->nnodes == 1 || s->paths == PATHS_SHARED;
        has_whole =
            has_whole || (peer->stamp.round == chief->gen.round && s->need.whole && is_seen &&
                          (chief->order.needs == NEEDS_ANY || s->need.whole == 1) &&
                          s->saved_step == chief->order.save_step);
    }
    return needs_some(chief) && has_whole && chief_all_say(chief, says_come);
}

/* --- what it did without --- */

enum absence { IS_LOST, IS_GONE, IS_UNSAVED };

/* "rank 3 of node 1: its node was lost"; `ranks` "": they are not known. */
static void add_without(struct chief *chief, int node, const char *ranks, enum absence absence)
{
    static const char *const whys[][2] = {
        [IS_LOST] = {"its node was lost", "their node was lost"},
        [IS_GONE] = {"its process has ended", "their processes have ended"},
        [IS_UNSAVED] = {"it could not save", "they could not save"}};
    bool are_many = !ranks[0] || strpbrk(ranks, ",-");
    const char *what = !ranks[0] ? "the ranks" : are_many ? "ranks " : "rank ";
    str_addf(chief->without, sizeof chief->without, "%s%s%s of node %d: %s",
             chief->without[0] ? "; " : "", what, ranks, node, whys[absence][are_many]);
}

void chief_note_without(struct chief *chief, bool is_round)
{
    int told = 0;
    chief->without[0] = '\0';
    for (int i = 0; is_round && needs_some(chief) && i < chief->params->nnodes; i++) {
        const struct peer *peer = &chief->peers[i];
        const struct peer_status *s = &peer->status;
        bool is_lost = peer_is(peer, FACT_LOST) && !peer_is(peer, FACT_SAVED) && s->expected > 0;
        if (!(is_lost || s->need.gone[0] || s->need.unsaved[0]) || ++told > TOLD_MAX)
            continue;
        if (is_lost)
            add_without(chief, i, peer->roster, IS_LOST);
        if (!is_lost && s->need.gone[0])
            add_without(chief, i, s->need.gone, IS_GONE);
        if (!is_lost && s->need.unsaved[0])
            add_without(chief, i, s->need.unsaved, IS_UNSAVED);
    }
    if (told > TOLD_MAX)
        str_addf(chief->without, sizeof chief->without, "; and ranks of %d other nodes",
                 told - TOLD_MAX);
}
