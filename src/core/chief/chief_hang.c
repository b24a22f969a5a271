/* SPDX-License-Identifier: Apache-2.0
 * Finds the hang of the whole job. See chief_parts.h.
 *
 * Ranks wait for each other, so one rank without progress is no proof of a hang. As long as one
 * rank moves or is within its time limit, the others may be waiting for it. The message names the
 * rank at the lowest step: the ranks that wait for it are at that step or further.
 */
#include "core/chief/chief.h"
#include "core/chief/chief_parts.h"

#include "base/str.h"
#include "core/common/watchdog.h"
#include "wire/page.h"

#include <stdio.h>

/* Of two ranks that wait for the same rank, one may give up later than the other by this much. It
 * still writes then what it keeps of its failure. */
#define OTHERS_NS (3 * NS_PER_S)
/* So much later than the first of them the last may give up. */
#define OTHERS_MOST_NS (30 * NS_PER_S)

/* --- the rank that is furthest behind --- */

/* The order in which nodes are named: first those whose ranks have not attached, last those that
 * were only silent. Among ranks at the same step, a rank that a signal has stopped comes first. */
static bool is_further_behind(const struct peer *peer, const struct peer *other)
{
    const struct peer_watch *a = &peer->status.watch, *b = &other->status.watch;
    if ((a->absent > 0) != (b->absent > 0))
        return a->absent > 0;
    if ((a->behind_rank >= 0) != (b->behind_rank >= 0))
        return a->behind_rank >= 0;
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

/* A rank has given up its wait for another rank. That may be any of the ranks that have not given
 * up, and that train. */
static bool may_be_behind(const struct chief *chief, const struct peer *peer)
{
    bool has_one = peer->status.watch.behind_rank >= 0 && peer->status.life != LIFE_DONE;
    return chief->gen.hang.gave_up ? has_one : is_stuck(peer);
}

/* The commands of the node have printed no step (watchdog.log). A limit is for all output. */
static bool has_no_line(const struct peer *peer)
{
    return peer->status.watch.motion == MOTION_SILENT && peer->status.watch.limit_ns == 0;
}

/* If no node may be behind, any node. */
static const struct peer *furthest_behind(const struct chief *chief)
{
    const struct peer *last = &chief->peers[0];
    for (int i = 1; i < chief->params->nnodes; i++) {
        const struct peer *peer = &chief->peers[i];
        if (may_be_behind(chief, peer) &&
            (!may_be_behind(chief, last) || is_further_behind(peer, last)))
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
        if (may_be_behind(chief, peer) && !is_further_behind(peer, last) &&
            !is_further_behind(last, peer))
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
    if (!may_be_behind(chief, last)) {
        str_copy(
            text, size,
            "ranks gave up their wait for other ranks and have not ended; no rank is known to be "
            "behind");
        return;
    }
    if (s->motion == MOTION_SILENT) {
        snprintf(text, size, "node %d (%.40s): its commands have printed no%s for %s", node,
                 last->at.host, has_no_line(last) ? " step (watchdog.log)" : "thing", since);
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
             page_phase_name(s->behind_phase));
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
 * once. */
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

void chief_examine(struct chief *chief)
{
    chief->gen.hang.is_examined = true;
    chief->gen.hang.until =
        chief->out->now + chief->params->watchdog.evidence_ns + WATCHDOG_WORD_NS;
    chief->order.examine++;
    chief->is_changed = true;
}

bool chief_has_examined(const struct chief *chief)
{
    return all_have_examined(chief) || chief->out->now >= chief->gen.hang.until;
}

static void examine(struct chief *chief)
{
    char text[256];
    tell(chief, text, sizeof text);
    chief->gen.hang.is_news = is_news(chief);
    chief->gen.hang.is_one = count_beside(chief, furthest_behind(chief)) == 1;
    out_log(chief->out, chief->gen.hang.is_news ? LOG_WARN : LOG_DEBUG, "watchdog",
            "no rank makes progress: %s", text);
    chief_examine(chief);
}

/* The journal names the rank. If ranks have not attached, or only print, no rank is known. */
static void hang_note_end(struct chief *chief, const char *why)
{
    const struct peer *last = furthest_behind(chief);
    const struct peer_watch *s = &last->status.watch;
    bool is_known = s->motion != MOTION_SILENT && !s->absent;
    struct core_hang *end = &chief->gen.hang.end;
    *end = (struct core_hang){.node = chief_rank_of(chief, last),
                              .rank = is_known ? s->behind_rank : -1,
                              .pid = is_known ? s->behind_pid : 0};
    str_copy(end->text, sizeof end->text, why);
}

static void conclude(struct chief *chief)
{
    char why[sizeof chief->order.why];
    chief->gen.hang.is_examined = false;
    chief->gen.hang.is_told = true;
    tell(chief, why, sizeof why);
    if (chief->params->watchdog.mode == WATCHDOG_ON) {
        hang_note_end(chief, why);
        chief_restart_or_end(chief, &(struct chief_end){.outcome = OUTCOME_HANG,
                                                        .code = chief->params->exit.hang,
                                                        .manner = MANNER_STOP,
                                                        .why = why});
    } else {
        out_log(chief->out, LOG_ERROR, "watchdog",
                "hang: %s; the job is left as it is (watchdog.mode is log)", why);
    }
}

/* --- ranks that give up --- */

static void look_who_is_behind(struct chief *chief)
{
    chief->gen.hang.who[0] = '\0';
    if (may_be_behind(chief, furthest_behind(chief)))
        tell(chief, chief->gen.hang.who, sizeof chief->gen.hang.who);
}

static int count_gave_up(const struct chief *chief)
{
    int n = 0;
    for (int i = 0; i < chief->params->nnodes; i++)
        n += chief->peers[i].status.watch.gave_up;
    return n;
}

/* Ranks that wait for the same rank give up one after the other. Whenever one has, the others get
 * some time for it. */
static void await_others(struct chief *chief)
{
    int n = count_gave_up(chief);
    if (n <= chief->gen.hang.ngave_up)
        return;
    chief->gen.hang.ngave_up = n;
    chief->gen.hang.others_until =
        clock_min(chief->out->now + OTHERS_NS, chief->gen.hang.gave_up_at + OTHERS_MOST_NS);
}

static void begin_to_look(struct chief *chief)
{
    chief->gen.hang.gave_up = true;
    chief->gen.hang.ngave_up = 0;
    chief->gen.hang.gave_up_at = chief->out->now;
    chief->gen.hang.others_until = chief->out->now + OTHERS_NS;
    look_who_is_behind(chief);
    out_log(chief->out, LOG_WARN, "watchdog", "a rank gave up its wait for other ranks%s%s",
            chief->gen.hang.who[0] ? ": " : "", chief->gen.hang.who);
    if (!chief->gen.hang.is_examined)
        chief_examine(chief);
}

bool chief_has_looked(struct chief *chief)
{
    if (chief->params->watchdog.mode == WATCHDOG_OFF)
        return true;
    if (!chief->gen.hang.gave_up)
        begin_to_look(chief);
    await_others(chief);
    look_who_is_behind(chief);
    /* One rank gave up, and has failed. If only the rank that it waited for is left, none follows.
     */
    bool is_pair =
        chief->gen.hang.ngave_up <= 1 && count_beside(chief, furthest_behind(chief)) == 1;
    bool may_more = !is_pair && chief->out->now < chief->gen.hang.others_until;
    return !may_more && chief_has_examined(chief);
}

const char *chief_who_is_behind(const struct chief *chief)
{
    return chief->gen.hang.who;
}

const struct core_hang *chief_hang(const struct chief *chief)
{
    return &chief->gen.hang.end;
}

/* --- the decision --- */

int64_t chief_moved_at(const struct chief *chief)
{
    int64_t moved_at = 0;
    for (int i = 0; i < chief->params->nnodes; i++) {
        const struct peer *peer = &chief->peers[i];
        if (peer->status_at - peer->status.watch.still_ns > moved_at)
            moved_at = peer->status_at - peer->status.watch.still_ns;
    }
    return moved_at;
}

/* No limit runs for a rank that has given up, since its failure is to follow. If no failure
 * follows, and no other rank is left, the job has hung. */
static bool only_wait_to_fail(const struct chief *chief)
{
    return any_is(chief, FACT_GAVE_UP) && !any_is(chief, FACT_MOVES) && !any_is(chief, FACT_STANDS);
}

/* The hang is due when no rank of the job has moved for the longest limit of any stuck node. Ranks
 * that have given up get the limit of a step; CLOCK_NEVER: there is none.
 * *ret_patience: when the last rank that waits for others would have given up; 0: unknown. */
static int64_t due_at(const struct chief *chief, int64_t *ret_patience)
{
    int64_t moved_at = chief_moved_at(chief), limit = 0, patience = 0;
    *ret_patience = 0;
    if (only_wait_to_fail(chief)) {
        limit = chief->params->watchdog.limit_ns[PAGE_TRAIN];
        return limit ? moved_at + limit : CLOCK_NEVER;
    }
    for (int i = 0; i < chief->params->nnodes; i++) {
        const struct peer *peer = &chief->peers[i];
        const struct peer_watch *s = &peer->status.watch;
        if (is_stuck(peer) && s->limit_ns > limit)
            limit = s->limit_ns;
        if (is_stuck(peer) && s->patience_ns > patience)
            patience = s->patience_ns;
    }
    *ret_patience = patience ? moved_at + patience : 0;
    return moved_at + limit;
}

/* Ranks that train together stand at one step, whichever of them is stuck. The ranks that wait for
 * the stuck rank will give up their wait. So the stuck rank is the one that does not give up. */
static int64_t concludes_at(const struct chief *chief)
{
    int64_t patience;
    due_at(chief, &patience);
    return chief->gen.hang.is_one ? 0 : patience;
}

/* One rank often prints the steps of all. When its node has ended, the others may still have to
 * end. */
static bool any_stands(const struct chief *chief)
{
    for (int i = 0; i < chief->params->nnodes; i++) {
        const struct peer *peer = &chief->peers[i];
        if (peer_is(peer, FACT_STANDS) && !(chief->gen.hang.has_lines && has_no_line(peer)))
            return true;
    }
    return false;
}

void chief_note_lines(struct chief *chief, const struct peer *peer)
{
    if (chief->params->watchdog.reads_steps && peer->status.watch.behind_rank >= 0)
        chief->gen.hang.has_lines = true;
}

/* Near a notice there is no hang: the notice's own deadline ends the job as preempted. */
static bool hangs(struct chief *chief)
{
    bool stands = !any_is(chief, FACT_MOVES) && any_is(chief, FACT_STANDS) && any_stands(chief);
    if (!(stands || only_wait_to_fail(chief)) || chief_notice_is_near(chief)) {
        chief->gen.hang.look_at = CLOCK_NEVER;
        return false;
    }
    if (chief->gen.hang.is_told)
        return true;
    int64_t patience;
    bool is_known =
        chief->gen.hang.look_at != CLOCK_NEVER && chief->out->now < chief->gen.hang.look_at;
    if (!is_known)
        chief->gen.hang.look_at = due_at(chief, &patience);
    return chief->out->now >= chief->gen.hang.look_at;
}

void chief_decide_hang(struct chief *chief)
{
    bool gave_up = any_is(chief, FACT_GAVE_UP) && !chief_notice_is_near(chief);
    if (chief_is_over(chief))
        return; /* chief_decide_done() has a limit for the end */
    if (chief->gen.hurt_at && chief_outlives(chief))
        return; /* what was lost ends the job, at chief_outlives_until() at the latest */
    /* A rank that has given up is about to fail, and its failure names the cause. */
    if (gave_up && !chief->gen.hang.is_told &&
        (!chief_has_looked(chief) || chief->out->now < chief->gen.hang.others_until))
        return;
    if (!hangs(chief)) {
        if (gave_up)
            return;
        if ((chief->gen.hang.is_examined || chief->gen.hang.is_told) &&
            !chief_notice_is_near(chief))
            out_log(chief->out, chief->gen.hang.is_news ? LOG_NOTICE : LOG_DEBUG, "watchdog",
                    "the job is not stuck: it goes on");
        chief->gen.hang.is_examined = chief->gen.hang.is_told = chief->gen.hang.gave_up = false;
        chief->gen.hang.who[0] = '\0';
    } else if (chief->gen.hang.is_told) {
        return;
    } else if (!chief->gen.hang.is_examined) {
        examine(chief);
    } else if (chief_has_examined(chief) && chief->out->now >= concludes_at(chief)) {
        conclude(chief);
    }
}

int64_t chief_hang_due_at(const struct chief *chief)
{
    bool is_to_come = chief->gen.hang.look_at > chief->out->now;
    if (chief->gen.hang.gave_up && chief->gen.hang.others_until > chief->out->now)
        return chief->gen.hang.others_until;
    if (chief->gen.hang.gave_up && chief->gen.hang.until > chief->out->now)
        return chief->gen.hang.until;
    if (!chief->gen.hang.is_examined || is_to_come)
        return chief->gen.hang.look_at;
    int64_t concludes = concludes_at(chief);
    return concludes > chief->out->now ? concludes : chief->gen.hang.until;
}
