/* SPDX-License-Identifier: Apache-2.0
 * How the time that a notice leaves is used: what a save takes, and the last moment for one. See
 * chief_parts.h.
 */
#include "core/chief_parts.h"

#include "base/clock.h"
#include "base/str.h"
#include "core/grace.h"

/* The pace of the ranks is looked at that often, and not at every message. */
#define REPLAN_NS (250 * NS_PER_MS)

/* What an agreement takes where none was made yet, beside the messages' way. */
#define AGREEMENT_NS (20 * NS_PER_MS)

/* A machine is busy in its last minute, and what takes next to nothing may then take this. */
#define SPARE_NS (NS_PER_S / 2)

/* --- what was measured --- */

void chief_note_proposed(struct chief *chief)
{
    chief->proposed_at = chief->out->now;
    chief->begun_at = 0;
}

void chief_note_decided(struct chief *chief)
{
    chief->agreement_ns = chief->out->now - chief->proposed_at;
}

void chief_note_begun(struct chief *chief)
{
    if (!chief->begun_at && any_is(chief, FACT_SOME_BEGUN))
        chief->begun_at = chief->out->now;
}

/* One that takes longer counts at once, one that takes less by and by. */
int64_t chief_save_time(const struct chief *chief, bool is_round)
{
    int64_t took = chief->out->now - chief->begun_at;
    if (!is_round || !chief->begun_at || took <= 0)
        return chief->save_ns;
    return took >= chief->save_ns ? took : (chief->save_ns + took) / 2;
}

/* Whoever has waited for it begins a step now, and did not train slowly meanwhile. */
static void begin_pace(struct chief *chief, struct peer *peer)
{
    peer->moved_at = peer->paced_at = chief->out->now;
    peer->paced_step = peer->status.highest;
}

void chief_note_saved(struct chief *chief)
{
    chief->save_ns = chief_save_time(chief, true);
    for (int i = 0; i < chief->params->nnodes; i++)
        if (peer_is(&chief->peers[i], FACT_WAITS))
            begin_pace(chief, &chief->peers[i]);
}

/* --- the plan --- */

int64_t chief_abort_at(const struct chief *chief)
{
    if (!chief->notice.is_live || chief->is_trained)
        return CLOCK_NEVER;
    return chief->notice.deadline - grace_margin(chief->notice.deadline - chief->notice.at);
}

/* Nobody has seen a save yet: so many would fit into the grace. */
static int64_t expected_save(const struct chief *chief)
{
    enum { FIT = 4 };
    return chief->save_ns ? chief->save_ns : (chief->notice.deadline - chief->notice.at) / FIT;
}

/* How much longer the last save may take: by half, but of a short one that would be nothing. */
static int64_t spare_for(const struct chief *chief, int64_t save)
{
    int64_t least = clock_min(SPARE_NS, (chief->notice.deadline - chief->notice.at) / 20);
    return save / 2 > least ? save / 2 : least;
}

/* A step that a node has told, where it will be by now: of nodes that are heard at different times
 * one would seem to be behind the other, or not to be. */
static double by_now(const struct chief *chief, const struct peer *peer, uint64_t step)
{
    return (double)step + chief_steps_in(peer, chief->out->now - peer->moved_at);
}

static double furthest_by_now(const struct chief *chief)
{
    double furthest = 0;
    for (int i = 0; i < chief->params->nnodes; i++) {
        const struct peer *peer = &chief->peers[i];
        double step = by_now(chief, peer, peer->status.highest);
        furthest = step > furthest ? step : furthest;
    }
    return furthest;
}

/* From now to the save: up to the fastest rank, a step that has just begun, and on to where all
 * ranks can stop. Of the slowest node: on average, or by the step that it is in, if that takes
 * longer. */
static int64_t time_to_save_step(const struct chief *chief)
{
    double furthest = furthest_by_now(chief);
    int64_t longest = 0;
    for (int i = 0; i < chief->params->nnodes; i++) {
        const struct peer *peer = &chief->peers[i];
        if (peer->status.expected == 0)
            continue;
        double behind = furthest - by_now(chief, peer, peer->status.lowest);
        double steps = 1 + (double)chief->stride.period + (behind > 0 ? behind : 0);
        double ns = peer->rate > 0 ? steps / peer->rate : 0;
        int64_t takes = ns < (double)GRACE_MAX_NS ? (int64_t)ns : GRACE_MAX_NS;
        /* It was heard of its steps a heartbeat ago at the most. */
        int64_t known_at = chief->out->now - chief->params->heartbeat_interval_ns;
        int64_t since = peer->is_paced ? 2 * (known_at - peer->moved_at) : 0;
        takes = since > takes ? since : takes;
        longest = takes > longest ? takes : longest;
    }
    return longest;
}

static int64_t expected_agreement(const struct chief *chief)
{
    int64_t longest = chief->agreement_ns;
    for (int i = 0; i < chief->params->nnodes; i++) {
        int64_t takes = 4 * (int64_t)chief->peers[i].status.rtt_ns + AGREEMENT_NS;
        longest = takes > longest ? takes : longest;
    }
    return longest;
}

void chief_plan(struct chief *chief)
{
    bool is_old = chief->is_plan_old || chief->out->now >= chief->replan_at;
    if (!chief->notice.is_live || chief->is_trained || !is_old)
        return;
    chief->is_plan_old = false;
    chief->replan_at = chief->out->now + REPLAN_NS;
    int64_t save = expected_save(chief), steps = time_to_save_step(chief);
    int64_t last = save + spare_for(chief, save) + steps + expected_agreement(chief);
    if (chief->saves_itself) /* it may just have begun one */
        last += save;
    chief->notice.final_at = chief_abort_at(chief) - last;
    chief->notice.least_ns = chief->save_ns + steps;
}

bool chief_trains_on(const struct chief *chief)
{
    return chief->params->trains_on && chief->notice.hurry < (uint32_t)HURRY_SAVE &&
           chief->notice.final_at - chief->out->now > chief->notice.least_ns;
}

bool chief_is_final(const struct chief *chief)
{
    int64_t first = chief->notice.has_saved ? 0 : chief->save_ns;
    return !chief->params->trains_on || chief->notice.hurry >= (uint32_t)HURRY_SAVE ||
           chief->out->now + first >= chief->notice.final_at;
}

void chief_go_on(struct chief *chief)
{
    enum { TIMES = 10 }; /* a notice that comes and goes costs a tenth of the time at most */
    char left[32];
    bool is_live = chief->notice.is_live && !chief->is_trained;
    if (is_live || chief->is_first_save)
        chief->spared_until = chief->out->now + TIMES * chief->save_ns;
    if (!is_live)
        return;
    out_log(chief->out, LOG_NOTICE, "notice",
            "the training goes on for %s, and saves once more before the deadline",
            str_about(chief->notice.final_at - chief->out->now, left, sizeof left));
}

int64_t chief_ask_at(const struct chief *chief)
{
    bool waits = chief->params->trains_on && chief->notice.hurry < (uint32_t)HURRY_SAVE;
    return waits ? chief->notice.deadline - chief->notice.lead : chief->notice.at;
}

int64_t chief_plan_wake_at(const struct chief *chief)
{
    int64_t wake = CLOCK_NEVER;
    if (!chief->notice.is_live || chief->is_trained)
        return CLOCK_NEVER;
    if (chief_ask_at(chief) > chief->out->now)
        wake = chief_ask_at(chief);
    if (chief->params->save_mode == SAVE_ATTACH && chief->notice.final_at > chief->out->now)
        wake = clock_min(wake, chief->notice.final_at);
    return wake;
}
