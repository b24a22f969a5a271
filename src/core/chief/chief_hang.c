/* SPDX-License-Identifier: Apache-2.0
 * Finds the hang of the whole job. See chief_parts.h.
 *
 * Ranks wait for each other, so one rank without progress is no proof of a hang. As long as one
 * rank moves or is within its time limit, the others may be waiting for it. The message names the
 * rank at the lowest step: the ranks that wait for it are at that step or further.
 */
#include "core/chief/chief_parts.h"

#include "base/str.h"
#include "core/common/watchdog.h"

#include <stdio.h>

/* How long the message with the end of an examination may take. */
#define WORD_NS (5 * NS_PER_S)

/* --- the rank that is furthest behind --- */

/* A node whose ranks have not attached is named first. Then the order is that of enum peer_motion.
 * Of ranks at one step, a rank that a signal has stopped comes first. */
static bool is_further_behind(const struct peer *peer, const struct peer *other)
{
    const struct peer_watch *a = &peer->status.watch, *b = &other->status.watch;
    if ((a->absent > 0) != (b->absent > 0))
        return a->absent > 0;
    if (a->motion != b->motion)
        return a->motion < b->motion;
    if (a->behind_step != b->behind_step)
        return a->behind_step < b->behind_step;
    if (a->behind_stopped != b->behind_stopped)
        return a->behind_stopped;
    return b->behind_phase == PAGE_TRAIN && a->behind_phase != PAGE_TRAIN;
}

static bool is_stuck(const struct peer *peer)
{
    return peer->status.watch.motion >= MOTION_ABSENT;
}

/* Only if at least one node is stuck. */
static const struct peer *furthest_behind(const struct chief *chief)
{
    const struct peer *last = &chief->peers[0];
    for (int i = 1; i < chief->params->nnodes; i++) {
        const struct peer *peer = &chief->peers[i];
        if (is_stuck(peer) && (!is_stuck(last) || is_further_behind(peer, last)))
            last = peer;
    }
    return last;
}

/* The number of ranks in the same step and phase as the rank that is furthest behind. */
static int count_beside(const struct chief *chief, const struct peer *last)
{
    int n = 0;
    for (int i = 0; i < chief->params->nnodes; i++) {
        const struct peer *peer = &chief->peers[i];
        if (is_stuck(peer) && !is_further_behind(peer, last) && !is_further_behind(last, peer))
            n += peer->status.watch.behind_count;
    }
    return n;
}

/* --- the message --- */

static bool has_others(const struct chief *chief)
{
    int n = 0;
    for (int i = 0; i < chief->params->nnodes; i++)
        n += chief->peers[i].status.attached;
    return n > 1;
}

static void add_others(const struct chief *chief, const struct peer *last, char *text, size_t size)
{
    uint64_t highest = chief->highest;
    int beside = count_beside(chief, last);
    if (beside > 1)
        str_addf(text, size, ", as %s", beside == 2 ? "another rank does" : "");
    if (beside > 2)
        str_addf(text, size, "%d other ranks do", beside - 1);
    if (highest > last->status.watch.behind_step)
        str_addf(text, size, "; the others have come to step %llu", ull(highest));
    else if (beside == 1 && last->status.watch.behind_phase != PAGE_TRAIN && has_others(chief))
        str_addf(text, size, "; the others wait at that step");
}

static void tell(const struct chief *chief, char *text, size_t size)
{
    char since[32];
    const struct peer *last = furthest_behind(chief);
    const struct peer_watch *s = &last->status.watch;
    int64_t ago = s->behind_ago_ns + chief->out->now - last->status_at;
    int node = chief_rank_of(chief, last);
    int64_t unit = ago < NS_PER_S ? NS_PER_MS : NS_PER_S;
    str_duration(ago / unit * unit, since, sizeof since);
    if (s->motion == MOTION_SILENT) {
        snprintf(text, size, "node %d (%.40s): its commands have printed nothing for %s", node,
                 last->at.host, since);
        return;
    }
    if (s->absent) {
        str_duration(chief->params->watchdog.limit_ns[PAGE_START], since, sizeof since);
        snprintf(text, size,
                 "node %d (%.40s): %d rank%s not attached within %s of the start, and the others "
                 "wait",
                 node, last->at.host, s->absent, s->absent == 1 ? " has" : "s have", since);
        return;
    }
    snprintf(text, size,
             "rank %d (process %d on node %d, %.40s) is behind: it has stood at step %llu for %s, "
             "phase %s",
             s->behind_rank, s->behind_pid, node, last->at.host, ull(s->behind_step), since,
             watchdog_phase_name(s->behind_phase));
    if (s->behind_stopped)
        str_addf(text, size, "; a signal has stopped it, and no debugger is attached");
    else
        add_others(chief, last, text, size);
}

/* --- the examination --- */

static bool all_have_examined(const struct chief *chief)
{
    for (int i = 0; i < chief->params->nnodes; i++)
        if (peer_is(&chief->peers[i], FACT_THERE) &&
            chief->peers[i].status.watch.examined != chief->order.examine)
            return false;
    return true;
}

/* A rank that stays stopped, for example by a debugger, is examined again and again. The log warns
 * of it once. */
static bool is_news(struct chief *chief)
{
    const struct peer *last = furthest_behind(chief);
    const struct peer_watch *s = &last->status.watch;
    bool is_known = last == chief->gen.hang.whom && s->behind_rank == chief->gen.hang.rank &&
                    s->behind_step == chief->gen.hang.step &&
                    s->behind_phase == chief->gen.hang.phase;
    chief->gen.hang.whom = last;
    chief->gen.hang.rank = s->behind_rank;
    chief->gen.hang.step = s->behind_step;
    chief->gen.hang.phase = s->behind_phase;
    return !is_known;
}

static void examine(struct chief *chief)
{
    char text[256];
    tell(chief, text, sizeof text);
    chief->gen.hang.is_news = is_news(chief);
    out_log(chief->out, chief->gen.hang.is_news ? LOG_WARN : LOG_DEBUG, "watchdog",
            "no rank makes progress: %s", text);
    chief->gen.hang.is_examined = true;
    chief->gen.hang.until = chief->out->now + chief->params->watchdog.evidence_ns + WORD_NS;
    chief->order.examine++;
    chief->is_changed = true;
}

static void conclude(struct chief *chief)
{
    char why[sizeof chief->order.why];
    chief->gen.hang.is_examined = false;
    chief->gen.hang.is_told = true;
    tell(chief, why, sizeof why);
    if (chief->params->watchdog.mode == WATCHDOG_ON)
        chief_restart_or_end(chief, &(struct chief_end){.outcome = OUTCOME_HANG,
                                                        .code = chief->params->exit.hang,
                                                        .manner = MANNER_STOP,
                                                        .why = why});
    else
        out_log(chief->out, LOG_ERROR, "watchdog",
                "hang: %s; the job is left as it is (watchdog.mode is log)", why);
}

/* The hang is due when no rank of the job has moved for the longest limit of any stuck node. */
static int64_t due_at(const struct chief *chief)
{
    int64_t moved_at = 0, limit = 0;
    for (int i = 0; i < chief->params->nnodes; i++) {
        const struct peer *peer = &chief->peers[i];
        if (peer->status_at - peer->status.watch.still_ns > moved_at)
            moved_at = peer->status_at - peer->status.watch.still_ns;
        if (is_stuck(peer) && peer->status.watch.limit_ns > limit)
            limit = peer->status.watch.limit_ns;
    }
    return moved_at + limit;
}

/* Near a notice there is no hang: the notice's own deadline ends the job as preempted. */
static bool hangs(struct chief *chief)
{
    bool stands = !any_is(chief, FACT_MOVES) && any_is(chief, FACT_STANDS);
    if (!stands || chief_notice_is_near(chief)) {
        chief->gen.hang.look_at = CLOCK_NEVER;
        return false;
    }
    if (chief->gen.hang.is_told)
        return true;
    bool is_known =
        chief->gen.hang.look_at != CLOCK_NEVER && chief->out->now < chief->gen.hang.look_at;
    if (!is_known)
        chief->gen.hang.look_at = due_at(chief);
    return chief->out->now >= chief->gen.hang.look_at;
}

void chief_decide_hang(struct chief *chief)
{
    if (!hangs(chief)) {
        if ((chief->gen.hang.is_examined || chief->gen.hang.is_told) &&
            !chief_notice_is_near(chief))
            out_log(chief->out, chief->gen.hang.is_news ? LOG_NOTICE : LOG_DEBUG, "watchdog",
                    "the job is not stuck: it goes on");
        chief->gen.hang.is_examined = chief->gen.hang.is_told = false;
    } else if (chief->gen.hang.is_told) {
        return;
    } else if (!chief->gen.hang.is_examined) {
        examine(chief);
    } else if (all_have_examined(chief) || chief->out->now >= chief->gen.hang.until) {
        conclude(chief);
    }
}

int64_t chief_hang_due_at(const struct chief *chief)
{
    bool is_to_come = chief->gen.hang.look_at > chief->out->now;
    return chief->gen.hang.is_examined && !is_to_come ? chief->gen.hang.until
                                                      : chief->gen.hang.look_at;
}
