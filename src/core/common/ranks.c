/* SPDX-License-Identifier: Apache-2.0
 * See ranks.h.
 */
#include "core/common/ranks.h"

#include "base/str.h"

#include <string.h>

void ranks_init(struct ranks *ranks, int expected)
{
    ranks->expected = expected;
    ranks->stride = stride_make(0, 1);
}

struct member *ranks_at(const struct ranks *ranks, int number)
{
    int counter = number - ranks->n;
    if (counter >= ranks->ncounters)
        return NULL;
    return (struct member *)(counter < 0 ? &ranks->members[number] : &ranks->counters[counter]);
}

int ranks_count_gave_up(const struct ranks *ranks)
{
    const struct member *m;
    int n = 0;
    for (int i = 0; (m = ranks_at(ranks, i)); i++)
        n += m->gave_up;
    return n;
}

struct member *ranks_of_slot(const struct ranks *ranks, int slot)
{
    struct member *m;
    for (int i = 0; slot >= 0 && (m = ranks_at(ranks, i)); i++)
        if (m->slot == slot)
            return m;
    return NULL;
}

struct member *ranks_of_rank(const struct ranks *ranks, int rank)
{
    for (int i = 0; i < ranks->n; i++)
        if (ranks->members[i].rank == rank)
            return ranks_at(ranks, i);
    return NULL;
}

struct member *ranks_after(const struct ranks *ranks, const struct member *member)
{
    int rank = member ? member->rank : -1;
    const struct member *next = NULL;
    for (int i = 0; i < ranks->n; i++)
        if (ranks->members[i].rank > rank && (!next || ranks->members[i].rank < next->rank))
            next = &ranks->members[i];
    return next ? ranks_at(ranks, (int)(next - ranks->members)) : NULL;
}

struct member *ranks_of_pid(const struct ranks *ranks, int pid, bool is_counter)
{
    struct member *m;
    for (int i = 0; pid > 0 && (m = ranks_at(ranks, i)); i++)
        if (m->pid == pid && m->is_counter == is_counter)
            return m;
    return NULL;
}

static bool has_local_rank(const struct ranks *ranks, int local_rank)
{
    for (int i = 0; i < ranks->n; i++)
        if (ranks->members[i].local_rank == local_rank && ranks->members[i].slot >= 0)
            return true;
    return false;
}

/* The ranks on this node, if all nodes have the same number. */
static int part_of(int world_size, const struct core_params *params)
{
    bool is_even = world_size > 0 && world_size % params->nnodes == 0;
    return is_even ? world_size / params->nnodes : 1;
}

/* Derives the numbers that a process did not state: nodes are of equal size, ranks in order. */
static void resolve(const struct ranks *ranks, const struct core_params *params,
                    const struct procmsg *msg, struct procmsg *ret)
{
    *ret = *msg;
    if (ret->step < ret->first_step)
        ret->step = ret->first_step;
    if (ret->local_world_size == PROCMSG_UNKNOWN)
        ret->local_world_size =
            ranks->expected != RANKS_UNKNOWN ? ranks->expected : part_of(msg->world_size, params);
    int first = params->node_rank * ret->local_world_size;
    if (ret->local_rank == PROCMSG_UNKNOWN && ret->rank != PROCMSG_UNKNOWN)
        ret->local_rank = ret->rank >= first ? ret->rank - first : ret->rank;
    for (int i = 0; ret->local_rank == PROCMSG_UNKNOWN; i++)
        if (!has_local_rank(ranks, i))
            ret->local_rank = i;
    if (ret->rank == PROCMSG_UNKNOWN)
        ret->rank = first + ret->local_rank;
    if (ret->world_size == PROCMSG_UNKNOWN)
        ret->world_size =
            ranks->world_size ? ranks->world_size : ret->local_world_size * params->nnodes;
}

/* Both flags contradict each other, and count as neither. */
static enum save_needs needs_of(uint32_t flags)
{
    bool is_rank0 = flags & PROCMSG_FLAG_NEEDS_RANK0, is_any = flags & PROCMSG_FLAG_NEEDS_ANY;
    if (is_rank0 == is_any)
        return NEEDS_ALL;
    return is_rank0 ? NEEDS_RANK0 : NEEDS_ANY;
}

static bool check_counts(const struct ranks *ranks, const struct procmsg *who, struct err *err)
{
    if (who->world_size < 1 || who->world_size > CORE_WORLD_MAX)
        return err_set(err, ERR_PROTOCOL, 0, "world size %d: must be from 1 to %d", who->world_size,
                       CORE_WORLD_MAX);
    if (who->rank < 0 || who->rank >= who->world_size)
        return err_set(err, ERR_PROTOCOL, 0,
                       "rank %d is out of range: the world has %d ranks, counted from 0", who->rank,
                       who->world_size);
    if (ranks->world_size && who->world_size != ranks->world_size)
        return err_set(err, ERR_PROTOCOL, 0,
                       "rank %d says that the world has %d ranks; earlier ranks said %d", who->rank,
                       who->world_size, ranks->world_size);
    if (ranks->expected != RANKS_UNKNOWN && who->local_world_size != ranks->expected)
        return err_set(err, ERR_PROTOCOL, 0,
                       "rank %d says that this node has %d ranks; %d are expected, by "
                       "procs.per_node, by -n, or by the first rank that attached",
                       who->rank, who->local_world_size, ranks->expected);
    if (who->step > RANKS_STEP_MAX)
        return err_set(err, ERR_PROTOCOL, 0,
                       "rank %d says that it starts from step %llu, which is too high", who->rank,
                       ull(who->step));
    if (who->local_world_size < 1 || who->local_world_size > CORE_SLOTS_MAX)
        return err_set(err, ERR_PROTOCOL, 0, "%d ranks on one node: must be from 1 to %d",
                       who->local_world_size, CORE_SLOTS_MAX);
    return true;
}

/* A program may start its other ranks itself, after its first process has attached as the only
 * rank. Such ranks have a local rank, but no rank. */
static bool check_launch(const struct ranks *ranks, const struct core_params *params,
                         const struct procmsg *msg, int pid, struct err *err)
{
    bool has_launcher = msg->rank == PROCMSG_UNKNOWN && msg->local_rank != PROCMSG_UNKNOWN;
    bool is_known = ranks->world_size && msg->world_size != PROCMSG_UNKNOWN;
    if (!has_launcher || !is_known || msg->world_size == ranks->world_size)
        return true;
    return err_set(err, ERR_PROTOCOL, 0,
                   "the program starts its ranks itself: process %d is local rank %d of a world of "
                   "%d, but the world had %d when the first process attached; let pchrun start the "
                   "ranks: pchrun -n %d -- command",
                   pid, msg->local_rank, msg->world_size, ranks->world_size,
                   part_of(msg->world_size, params));
}

static bool check_place(struct ranks *ranks, const struct procmsg *who, int pid, struct err *err)
{
    const struct member *same = ranks_of_rank(ranks, who->rank);
    if (same && same->slot >= 0)
        return err_set(
            err, ERR_TAKEN, 0,
            "rank %d is attached already, by process %d; process %d has the same rank (if "
            "torchrun or another launcher starts the ranks, give no -n)",
            who->rank, same->pid, pid);
    if (!same && ranks->n >= who->local_world_size)
        return err_set(err, ERR_TAKEN, 0,
                       "rank %d is one too many: this node has %d ranks, and all have attached",
                       who->rank, who->local_world_size);
    return true;
}

/* All processes so far were visitors: they attached, trained no step, and detached. A program may
 * open the job only to learn its resume step, and then start its ranks. */
static bool were_visitors(const struct ranks *ranks)
{
    for (int i = 0; i < ranks->n; i++) {
        const struct member *m = &ranks->members[i];
        if (m->slot >= 0 || !m->is_closed || m->is_done || m->step > m->first_step ||
            m->served_round)
            return false;
    }
    return ranks->n > 0 && !ranks->have_stepped;
}

/* The world that visitors stated does not bind the ranks that train. */
static void forget_visitors(struct ranks *ranks, const struct core_params *params,
                            const struct procmsg *msg, struct procmsg *who)
{
    bool fits = who->world_size == ranks->world_size && who->local_world_size == ranks->expected;
    if (fits || !were_visitors(ranks))
        return;
    ranks->n = ranks->world_size = 0;
    ranks->expected = params->expected_procs;
    ranks->stride = stride_make(0, 1);
    resolve(ranks, params, msg, who);
}

struct member *ranks_attach(struct ranks *ranks, const struct core_params *params,
                            const struct event *event, struct err *err)
{
    int pid = event->proc.pid;
    const struct procmsg *msg = event->proc.msg;
    struct procmsg who;
    resolve(ranks, params, msg, &who);
    forget_visitors(ranks, params, msg, &who);
    if (!check_launch(ranks, params, msg, pid, err) || !check_counts(ranks, &who, err) ||
        !check_place(ranks, &who, pid, err))
        return NULL;
    struct stride common = ranks->stride;
    if (!stride_join(&common, stride_make(msg->first_step, msg->stride))) {
        err_set(err, ERR_PROTOCOL, 0,
                "rank %d can save only every %llu steps from step %llu: the other ranks of this "
                "node can save at none of these",
                who.rank, ull(msg->stride), ull(msg->first_step));
        return NULL;
    }
    struct member *member = ranks_of_rank(ranks, who.rank);
    if (!member)
        member = &ranks->members[ranks->n++];
    struct member before = *member; /* the rank's part in the open round stays */
    *member = (struct member){.slot = event->proc.slot,
                              .pid = pid,
                              .rank = who.rank,
                              .local_rank = who.local_rank,
                              .step = msg->step,
                              .stand.step = msg->step,
                              .first_step = msg->first_step,
                              .last_step = msg->last_step <= RANKS_STEP_MAX ? msg->last_step : 0,
                              .is_shielded = msg->flags & PROCMSG_FLAG_SHIELD,
                              .needs = needs_of(msg->flags),
                              .loaded_ns = ranks_loading(&before),
                              .served_round = before.served_round,
                              .saved_round = before.saved_round,
                              .failed_round = before.failed_round,
                              .saved_step = before.saved_step};
    ranks->nconnected++;
    ranks->stride = common;
    ranks->world_size = who.world_size;
    ranks->expected = who.local_world_size;
    return member;
}

uint64_t ranks_loading(const struct member *member)
{
    uint64_t sum = member->loaded_ns + member->pace.loading_ns;
    return sum < INT64_MAX ? sum : INT64_MAX;
}

uint64_t ranks_longest_loading(const struct ranks *ranks)
{
    uint64_t longest = 0;
    for (int i = 0; i < ranks->n; i++)
        if (ranks_loading(&ranks->members[i]) > longest)
            longest = ranks_loading(&ranks->members[i]);
    return longest;
}

void ranks_gone(struct ranks *ranks, struct member *member, uint64_t step)
{
    if (step > member->step && step <= RANKS_STEP_MAX)
        member->step = step;
    member->slot = -1;
    member->is_ended = true;
    member->wait = WAIT_NONE;
    if (member->is_counter) {
        ranks->ncounting--;
        return;
    }
    ranks->have_stepped = ranks->have_stepped || member->step > member->first_step;
    ranks->nconnected--;
}

/* --- counters --- */

/* The gone counter of this rank, any gone counter, or a new one. There is always room: a counter
 * that is not gone holds a slot, and there are as many counters as slots. */
static struct member *place_for(struct ranks *ranks, int rank)
{
    struct member *ret = NULL;
    for (int i = 0; i < ranks->ncounters; i++)
        if (ranks->counters[i].slot < 0 && (!ret || ranks->counters[i].rank == rank))
            ret = &ranks->counters[i];
    return ret ? ret : &ranks->counters[ranks->ncounters++];
}

static int lowest_not_counting(const struct ranks *ranks, int first)
{
    int rank = first;
    for (int i = 0; i < ranks->ncounters; i++)
        if (ranks->counters[i].slot >= 0 && ranks->counters[i].rank == rank) {
            rank++;
            i = -1;
        }
    return rank;
}

struct member *ranks_count(struct ranks *ranks, const struct core_params *params,
                           const struct event *event, struct err *err)
{
    const struct procmsg *msg = event->proc.msg;
    int here = msg->local_world_size, rank = msg->rank;
    if (rank >= CORE_WORLD_MAX || here > CORE_SLOTS_MAX || msg->step > RANKS_STEP_MAX) {
        err_set(
            err, ERR_PROTOCOL, 0,
            "rank %d, one of %d on this node, says step %llu: one of these numbers is above its "
            "limit; does the program pass them to libpch?",
            rank, here, ull(msg->step));
        return NULL;
    }
    if (here == PROCMSG_UNKNOWN)
        here = ranks->expected != RANKS_UNKNOWN ? ranks->expected : 1;
    if (rank == PROCMSG_UNKNOWN)
        rank = lowest_not_counting(ranks, params->node_rank * here);
    struct member *counter = place_for(ranks, rank);
    int local =
        msg->local_rank != PROCMSG_UNKNOWN ? msg->local_rank : rank - params->node_rank * here;
    *counter = (struct member){.slot = event->proc.slot,
                               .pid = event->proc.pid,
                               .is_counter = true,
                               .rank = rank,
                               .local_rank = local >= 0 ? local : rank,
                               .step = msg->step,
                               .stand.step = msg->step,
                               .first_step = msg->step};
    ranks->ncounting++;
    /* The process trains again, so its earlier pch_done does not count. */
    for (int i = 0; i < ranks->n; i++)
        if (event->proc.pid > 0 && ranks->members[i].pid == event->proc.pid)
            ranks->members[i].is_done = ranks->members[i].has_returned = false;
    return counter;
}

/* --- the state of all ranks --- */

bool ranks_is_silent(const struct member *m)
{
    return m->slot < 0 && !m->is_done && !m->is_closed;
}

bool ranks_are_complete(const struct ranks *ranks)
{
    return ranks->expected != RANKS_UNKNOWN && ranks->n == ranks->expected;
}

bool ranks_read_steps(struct ranks *ranks, const uint64_t *by_slot, struct err *err)
{
    bool ok = true;
    struct member *m;
    for (int i = 0; (m = ranks_at(ranks, i)); i++) {
        uint64_t step = m->slot >= 0 ? by_slot[m->slot] : m->step;
        if (step <= RANKS_STEP_MAX)
            m->step = step;
        else if (!m->is_counter)
            ok = err_set(err, ERR_PROTOCOL, 0,
                         "rank %d (process %d) shows the impossible step %llu: the program has "
                         "overwritten the memory that it shares with pchrun",
                         m->rank, m->pid, ull(step));
    }
    return ok;
}

struct ranks_steps ranks_steps_of(const struct ranks *ranks)
{
    struct ranks_steps ret = {.lowest = ranks->n ? ranks->members[0].step : 0,
                              .have_stepped = ranks->have_stepped};
    for (int i = 0; i < ranks->n; i++) {
        const struct member *m = &ranks->members[i];
        ret.highest = m->step > ret.highest ? m->step : ret.highest;
        ret.lowest = m->step < ret.lowest ? m->step : ret.lowest;
        ret.have_stepped = ret.have_stepped || m->step > m->first_step;
        if (m->last_step && (!ret.last || m->last_step < ret.last))
            ret.last = m->last_step;
    }
    return ret;
}

bool ranks_has_own(const struct member *m, uint64_t step)
{
    for (int i = 0; i < m->nown; i++)
        if (m->own[i] == step)
            return true;
    return false;
}

static void forget_own(struct member *m, int at)
{
    m->nown--;
    memmove(&m->own[at], &m->own[at + 1], (size_t)(m->nown - at) * sizeof m->own[0]);
}

void ranks_add_own(struct member *m, uint64_t step, uint64_t over)
{
    for (int i = m->nown - 1; i >= 0; i--)
        if (m->own[i] <= over)
            forget_own(m, i);
    if (step <= over || ranks_has_own(m, step))
        return;
    if (m->nown == OWN_KEPT)
        forget_own(m, 0);
    m->own[m->nown++] = step;
}

static bool all_have_own(const struct ranks *ranks, uint64_t step)
{
    for (int i = 0; i < ranks->n; i++)
        if (!ranks_has_own(&ranks->members[i], step))
            return false;
    return true;
}

uint64_t ranks_own_step(const struct ranks *ranks, uint64_t above)
{
    if (!ranks_are_complete(ranks) || ranks->n == 0)
        return 0;
    uint64_t oldest = 0;
    for (int k = 0; k < ranks->members[0].nown; k++) {
        uint64_t step = ranks->members[0].own[k];
        if (step > above && (!oldest || step < oldest) && all_have_own(ranks, step))
            oldest = step;
    }
    return oldest;
}

void ranks_add_name(const struct member *member, char *text, size_t size)
{
    static const char more[] = ", ...";
    if (strlen(text) + sizeof ", 2147483647" + sizeof more < size)
        str_addf(text, size, "%s%d", text[0] ? ", " : "", member->rank);
    else if (!strstr(text, more))
        str_addf(text, size, "%s", more);
}

bool ranks_roster(const struct ranks *ranks, char *text, size_t size)
{
    bool fits = true;
    const struct member *from = ranks_after(ranks, NULL), *next;
    text[0] = '\0';
    for (const struct member *to = from; from && fits; to = from = next) {
        while ((next = ranks_after(ranks, to)) && next->rank == to->rank + 1)
            to = next;
        fits = str_addf(text, size, to != from ? "%s%d-%d" : "%s%d", text[0] ? "," : "", from->rank,
                        to->rank);
    }
    return fits;
}
