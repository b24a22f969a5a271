/* SPDX-License-Identifier: Apache-2.0
 * The wait for the replacement of a lost node (cluster.replace_wait). See chief_parts.h.
 *
 * The generation ends as for a restart in place. The lost node is vacant until another supervisor
 * takes its place. A supervisor that joins meanwhile has no processes, so it is gone like the other
 * nodes, and the next generation begins with it.
 *
 * The lost supervisor may be cut off, and not know that it was given up. It kills its processes
 * when its lease ends, see uplink.h. So nothing of the next generation starts before the fence:
 * when that is over for certain. A supervisor that says that its processes have ended lowers it.
 *
 * The time of the wait counts from the first loss, and no other loss moves it.
 *
 * Before the first start a node that is not healthy is lost in the same way. A node that has not
 * joined becomes vacant only when a spare is there for it.
 */
#include "core/chief/chief.h"
#include "core/chief/chief_parts.h"

#include "base/clock.h"
#include "base/str.h"

#include <stdio.h>

#define WINDOW_NS (3600 * NS_PER_S)

/* --- whether the job waits --- */

static void drop_notice(struct chief *chief, struct peer *peer)
{
    peer->notice_deadline = CLOCK_NEVER;
    peer->notice_hurry = 0;
    peer->notice_is_guess = peer->notice_has_signal = false;
    chief->notice_changed = true;
}

static bool is_noticed(const struct peer *peer)
{
    return peer->notice_deadline != CLOCK_NEVER;
}

/* Node 0 stays, so a notice to other nodes does not end the job. */
static bool outlives_notice(const struct chief *chief)
{
    return chief->params->replace_wait_ns > 0 && !is_noticed(&chief->peers[0]);
}

/* Of the last replace_max losses, the first is an hour ago. */
static bool has_replacements_left(const struct chief *chief)
{
    int n = chief->replaced.n, max = chief->params->replace_max;
    return max > 0 && (n < max || chief->replaced.times[(n - max) % REPLACES_MAX] <=
                                      chief->out->now - WINDOW_NS);
}

/* A user or a signal has told the job to end. */
static bool is_told_to_end(const struct chief *chief)
{
    return any_is(chief, FACT_STOPS) || any_is(chief, FACT_INTERRUPTED);
}

bool chief_may_outlive_notice(const struct chief *chief)
{
    return outlives_notice(chief) && !is_told_to_end(chief) && has_replacements_left(chief);
}

static bool ends_anyway(const struct chief *chief)
{
    return (chief_notice_is_near(chief) && !outlives_notice(chief)) || is_told_to_end(chief);
}

void chief_release_noticed(struct chief *chief)
{
    for (int i = 1; i < chief->params->nnodes; i++) {
        struct peer *peer = &chief->peers[i];
        if (!is_noticed(peer) || !peer_is(peer, FACT_GONE) || peer_is(peer, FACT_LOST))
            continue;
        out_log(chief->out, LOG_NOTICE, "replace", "node %d (%.40s) leaves for its notice", i,
                peer->at.host);
        str_copy(peer->lost_why, sizeof peer->lost_why, "it has left for its notice");
        chief_set_fact(chief, peer, FACT_LOST, true);
        chief_note(chief, peer);
    }
}

/* The generation that ends now has a commit, or writes one, or could have none. */
static bool has_commit(const struct chief *chief)
{
    return chief->order.commit_step > chief->gen.first_step || chief->writing != COMMIT_NOTHING ||
           !any_is(chief, FACT_ATTACHED);
}

/* Generations in a row without a commit, and earlier attempts. */
static int fruitless(const struct chief *chief)
{
    const struct core_params *p = chief->params;
    int n = restart_stale(&chief->restart, has_commit(chief));
    return n == 0 || chief->has_committed || !p->has_record ? n : n + p->attempts_without_commit;
}

/* False: how->why says what forbids the wait. */
static bool may_wait(struct chief *chief, struct chief_end *how, char *text, size_t size)
{
    const struct core_params *p = chief->params;
    int limit = p->no_progress_limit, n = fruitless(chief);
    how->outcome = OUTCOME_NODE_LOST;
    how->why = text;
    text[0] = '\0';
    if (p->replace_wait_ns == 0 || ends_anyway(chief))
        return false;
    if (!has_replacements_left(chief)) {
        snprintf(text, size, "; not replaced: cluster.replace_max (%d an hour) is spent",
                 p->replace_max);
        return false;
    }
    if (chief_is_restarting(chief) || limit <= 0 || n < limit)
        return true;
    snprintf(text, size, "; not replaced: %d times in a row no new commit was made", n);
    how->outcome = OUTCOME_NO_PROGRESS;
    return false;
}

/* --- the fence --- */

static void find_fence(struct chief *chief)
{
    chief->gen.replace.fence_at = 0;
    for (int i = 0; i < chief->params->nnodes; i++)
        chief->gen.replace.fence_at =
            clock_max(chief->gen.replace.fence_at, chief->peers[i].fence_at);
}

static int64_t fence_of(const struct chief *chief, const struct peer *peer)
{
    const struct core_params *p = chief->params;
    int64_t most = policy_fence_ns(p->heartbeat_timeout_ns, p->kill_wait_ns);
    bool is_gone = peer->stamp.seq > 0 && peer->status.life == LIFE_GONE;
    return peer->may_run && !is_gone ? peer->answered_at + most : 0;
}

void chief_lower_fence(struct chief *chief, struct peer *peer)
{
    if (!peer->may_run) /* a fence that is up is of a supervisor before it */
        return;
    peer->may_run = false;
    if (peer->fence_at == 0)
        return;
    peer->fence_at = 0;
    find_fence(chief);
    chief->is_changed = true;
}

/* It has stopped its processes, because it got the order. It is not needed any more. */
void chief_hear_vacant(struct chief *chief, struct peer *peer, const struct peermsg *msg)
{
    if (msg->stamp.generation != chief->generation || msg->status.life != LIFE_GONE)
        return;
    if (msg->status.left)
        chief_set_fact(chief, peer, FACT_LEFT, true);
    else
        chief_lower_fence(chief, peer);
    chief_dismiss(chief, peer);
}

/* --- the wait --- */

/* The words of the lost node no longer count. */
static void vacate(struct chief *chief, struct peer *peer)
{
    peer->fence_at = clock_max(peer->fence_at, fence_of(chief, peer));
    peer->vacant_at = chief->out->now;
    drop_notice(chief, peer);
    chief->replaced.times[chief->replaced.n++ % REPLACES_MAX] = chief->out->now;
    chief_vacate(chief, peer);
    if (peer->status.life == LIFE_GONE)
        chief_dismiss(chief, peer);
}

/* A restart after a failure may be under way: it goes on, and waits. */
static void begin_wait(struct chief *chief, const struct peer *first)
{
    if (chief->gen.replace.until == 0)
        chief->gen.replace.until = chief->out->now + chief->params->replace_wait_ns;
    if (chief_is_restarting(chief))
        return;
    chief->gen.restart_at = chief->out->now;
    chief->gen.had_stepped = chief->has_stepped;
    chief->failures += any_is(chief, FACT_STEPPED);
    chief->restart.stale = restart_stale(&chief->restart, has_commit(chief));
    chief_end_by_loss(
        chief, first,
        &(struct chief_end){.outcome = OUTCOME_NODE_LOST, .restarts = true, .why = ""});
}

static int64_t all_join_until(const struct chief *chief)
{
    return clock_max(chief->started_at + chief->params->join_timeout_ns, chief->rejoin_until);
}

int64_t chief_join_until(const struct chief *chief)
{
    int64_t until = all_join_until(chief);
    return chief->gen.replace.first ? clock_max(chief->gen.replace.until, until) : until;
}

const char *chief_limit_name(const struct chief *chief)
{
    bool is_of_join = chief_is_joining(chief) && chief_join_until(chief) <= all_join_until(chief);
    return is_of_join ? "cluster.join_timeout" : "cluster.replace_wait";
}

static void log_wait(const struct chief *chief, const struct peer *peer)
{
    char wait[32];
    reminder_left(chief->gen.replace.until - chief->out->now, wait, sizeof wait);
    out_log(chief->out, LOG_WARN, "replace",
            "node %d (%.40s) is lost: the job waits up to %s for its replacement (%s)",
            chief_rank_of(chief, peer), peer->at.host, wait, chief_limit_name(chief));
}

/* The node has run no rank, so no fence follows. Node 0 tells it that it is lost, and it ends. */
static void vacate_unable(struct chief *chief, struct peer *peer, bool is_unfit)
{
    const struct core_params *p = chief->params;
    peer->is_unfit = is_unfit;
    chief_set_fact(chief, peer, FACT_JOINED, false);
    if (chief->gen.replace.until == 0)
        chief->gen.replace.until =
            clock_max(chief->started_at + p->join_timeout_ns, chief->out->now + p->replace_wait_ns);
    vacate(chief, peer);
    chief->gen.replace.first = chief_first(chief, FACT_VACANT);
    log_wait(chief, peer);
    chief_dismiss(chief, peer);
    out_simple(chief->out, ACT_STATE);
}

bool chief_lose_unable(struct chief *chief, struct peer *peer, const struct peer_cause *told)
{
    char illness[CAUSE_ILLNESS_MAX], why[sizeof peer->lost_why];
    bool joins = chief_is_joining(chief) && !ends_anyway(chief) && has_replacements_left(chief);
    bool waits = chief_is_restarting(chief) || joins;
    bool may_be_replaced = chief->params->replace_wait_ns > 0 && peer->at.conn != CONN_SELF;
    bool is_first = chief->generation == 0 && !peer->was_replaced;
    bool has_begun = chief->order.start && chief->order.end == END_NONE;
    bool cannot_start = told->fault == FAULT_START && !is_first && (waits || has_begun);
    bool is_unfit = told->fault == FAULT_UNFIT;
    if (!may_be_replaced || !(cannot_start || (is_unfit && waits)))
        return false;
    if (is_unfit)
        snprintf(why, sizeof why, CHIEF_IS_UNFIT "%.100s", cause_illness(told, illness));
    else
        snprintf(why, sizeof why, "it cannot start: %.100s", told->text);
    chief_lose(chief, peer, why);
    if (joins)
        vacate_unable(chief, peer, is_unfit);
    return true;
}

void chief_wait_or_end(struct chief *chief)
{
    char text[128];
    struct chief_end how = {0};
    struct peer *peer = NULL;
    for (int i = 0; i < chief->params->nnodes; i++) {
        peer = &chief->peers[i];
        if (!peer_is(peer, FACT_LOST) || peer_is(peer, FACT_VACANT))
            continue;
        if (!may_wait(chief, &how, text, sizeof text)) {
            chief_end_by_loss(chief, peer, &how);
            return;
        }
        begin_wait(chief, peer);
        vacate(chief, peer);
        log_wait(chief, peer);
    }
    find_fence(chief);
    chief->gen.replace.first = chief_first(chief, FACT_VACANT);
    chief->is_changed = true;
    out_simple(chief->out, ACT_STATE);
}

int64_t chief_waits_until(const struct chief *chief)
{
    return chief->gen.replace.first ? chief->gen.replace.until : CLOCK_NEVER;
}

bool chief_wait_is_over(const struct chief *chief)
{
    return chief->out->now >= chief_waits_until(chief);
}

/* "node 3", "nodes 3, 5-7" */
static char *list_vacant(const struct chief *chief, char *text, size_t size)
{
    char list[56];
    chief_list_with(chief, FACT_VACANT, list, sizeof list);
    snprintf(text, size, "node%s %s", chief->count[FACT_VACANT] == 1 ? "" : "s", list);
    return text;
}

void chief_end_wait(struct chief *chief)
{
    char within[32], vacant[64], text[128];
    bool is_one = chief->count[FACT_VACANT] == 1;
    str_duration(chief->params->replace_wait_ns, within, sizeof within);
    snprintf(text, sizeof text, "; %s %s not replaced within %s",
             is_one ? "it" : list_vacant(chief, vacant, sizeof vacant), is_one ? "was" : "were",
             within);
    chief_end_by_loss(chief, chief->gen.replace.first,
                      &(struct chief_end){.outcome = OUTCOME_NODE_LOST, .why = text});
}

/* --- the status --- */

void chief_report_wait(const struct chief *chief, struct core_wait *ret)
{
    int n = 0;
    bool joins = chief_is_joining(chief);
    if (!chief_is_restarting(chief))
        ret->since = 0; /* node 0 writes it here: no ORDER has the wait before the first start */
    if (joins ? !any_is(chief, FACT_LOST) : !chief_is_waiting(chief) || ret->since == 0)
        return;
    ret->since = joins ? CLOCK_NEVER : chief->gen.replace.until - chief->params->replace_wait_ns;
    ret->until = joins ? chief_join_until(chief) : chief->gen.replace.until;
    for (int i = 0; n < chief->count[FACT_VACANT] && i < chief->params->nnodes; i++) {
        const struct peer *peer = &chief->peers[i];
        if (!peer_is(peer, FACT_VACANT) || !peer_is(peer, FACT_LOST))
            continue;
        if (n < CORE_VACANCIES) {
            ret->vacant[n] = (struct core_vacancy){.node = i, .since = peer->vacant_at};
            str_copy(ret->vacant[n].host, sizeof ret->vacant[n].host, peer->at.host);
        }
        if (joins)
            ret->since = clock_min(ret->since, peer->vacant_at);
        n++;
    }
    ret->nvacant = n;
}

/* --- nodes that have not joined --- */

/* A tenth of the time in which all nodes have to join. A node that comes later stands by. A node
 * that has gone again has that time, too. */
static bool is_overdue(const struct chief *chief, const struct peer *peer)
{
    int64_t since = clock_max(chief->started_at, clock_max(peer->went_at, peer->last_heard));
    return !peer_is(peer, FACT_JOINED) && !peer_is(peer, FACT_VACANT) &&
           chief->out->now >= since + chief->params->join_timeout_ns / 10;
}

void chief_vacate_missing(struct chief *chief)
{
    if (chief->out->now < chief_misses_at(chief))
        return;
    chief->misses_at = chief->out->now + chief->params->heartbeat_interval_ns;
    int left = chief_spares_left(chief);
    for (int i = 1; i < chief->params->nnodes && left > 0 && has_replacements_left(chief); i++) {
        if (!is_overdue(chief, &chief->peers[i]))
            continue;
        vacate(chief, &chief->peers[i]);
        left--;
    }
}

int64_t chief_misses_at(const struct chief *chief)
{
    return chief->spares && !all_are(chief, FACT_JOINED) ? chief->misses_at : CLOCK_NEVER;
}
