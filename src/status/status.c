/* SPDX-License-Identifier: Apache-2.0
 * See status.h.
 */
#include "status/status.h"

#include "base/clock.h"
#include "core/common/ranks.h"
#include "core/common/watchdog.h"
#include "os/proc.h"

#include <math.h>
#include <stdlib.h>

/* In steps per million seconds. A rank's page may hold any number, so a limit is needed. */
#define PACE_MAX 1e18

/* By rank number: the core keeps the ranks in the order in which they attached. */
static int status_compare(const void *a, const void *b)
{
    const struct core_rank_report *x = a, *y = b;
    return x->rank - y->rank;
}

/* The highest of the page's step, the last known step, and the saved step. The page may be closed
 * already. A saved step was also finished. */
static void take_step(struct core_rank_report *rank, uint64_t now)
{
    rank->step = now > rank->step ? now : rank->step;
    rank->step = rank->saved_step > rank->step ? rank->saved_step : rank->step;
}

void status_look(struct status_ranks *ret, struct attach *attach)
{
    ret->n = core_ranks(attach->loop->core, ret->list, CORE_SLOTS_MAX);
    ret->now = clock_now_ns();
    qsort(ret->list, (size_t)ret->n, sizeof ret->list[0], status_compare);
    procs_look(attach->procs, ret->steps, ret->phases);
    for (int i = 0; i < CORE_SLOTS_MAX; i++)
        if (ret->steps[i] > RANKS_STEP_MAX) /* an invalid page */
            ret->steps[i] = 0;
    for (int i = 0; i < ret->n; i++) {
        struct core_rank_report *rank = &ret->list[i];
        uint64_t step = rank->slot >= 0 ? ret->steps[rank->slot] : 0;
        take_step(rank, step);
        ret->rates[i] = steprate_look(&attach->steprate, rank, step, ret->now);
    }
}

/* A number that is unknown is null. */
static void add_age(struct writer *w, const char *key, int64_t age_ns)
{
    int64_t ms = age_ns / NS_PER_MS;
    writer_real(w, key, age_ns < 0 ? NAN : (double)ms / 1000);
}

static void add_steprate(struct writer *w, double steps_per_s)
{
    writer_real(w, "steps_per_second", steps_per_s > 0 ? steps_per_s : NAN);
}

/* True if the rank's process runs. If this pid is no descendant, it is another process. */
static bool lives(pid_t pid)
{
    struct proc proc;
    return pid > 0 && proc_read(pid, &proc) && !proc_is_dead(&proc) && proc_is_descendant(pid);
}

static enum peer_rank_life status_life_of(const struct core_rank_report *rank, int64_t now)
{
    if (rank->is_attached || rank->is_done || !lives(rank->pid))
        return RANK_GONE;
    return now < rank->start_until ? RANK_STARTING : RANK_UNATTACHED;
}

static uint64_t steprate_on_wire(double steps_per_s)
{
    double steprate = steps_per_s * 1e6;
    return steprate < PACE_MAX ? (uint64_t)steprate : (uint64_t)PACE_MAX;
}

struct peer_rank status_rank(const struct status_ranks *ranks, int i)
{
    const struct core_rank_report *rank = &ranks->list[i];
    struct steprate_view view = ranks->rates[i];
    return (struct peer_rank){.rank = rank->rank,
                              .local_rank = rank->local_rank,
                              .pid = rank->pid,
                              .attached = rank->is_attached,
                              .done = rank->is_done,
                              .phase = rank->slot >= 0 ? ranks->phases[rank->slot] : 0,
                              .step = rank->step,
                              .saved_step = rank->saved_step,
                              .pace = steprate_on_wire(view.steps_per_s),
                              .age_ns = view.age_ns,
                              .is_least = view.is_least,
                              .counts = rank->is_counting,
                              .life = status_life_of(rank, ranks->now)};
}

static const char *status_state_of(const struct peer_rank *rank)
{
    static const char *const names[] = {
        [RANK_GONE] = "gone", [RANK_STARTING] = "starting", [RANK_UNATTACHED] = "not attached"};
    if (rank->attached)
        return "attached";
    return rank->done ? "done" : names[rank->life];
}

void status_write_rank(struct writer *w, int node_rank, const struct peer_rank *rank,
                       int64_t ago_ns)
{
    writer_object(w, NULL);
    writer_int(w, "rank", rank->rank);
    writer_int(w, "node_rank", node_rank);
    writer_int(w, "local_rank", rank->local_rank);
    writer_int(w, "pid", rank->pid);
    writer_text(w, "state", status_state_of(rank));
    writer_bool(w, "attached", rank->attached);
    writer_bool(w, "done", rank->done);
    writer_int(w, "step", (int64_t)rank->step);
    add_steprate(w, (double)rank->pace / 1e6);
    add_age(w, "step_age", rank->age_ns < 0 ? -1 : rank->age_ns + ago_ns);
    writer_bool(w, "step_age_is_least", rank->is_least);
    writer_text(w, "phase", rank->attached ? watchdog_phase_name(rank->phase) : NULL);
    writer_int(w, "saved_step", (int64_t)rank->saved_step);
    writer_bool(w, "counts_only", rank->counts);
    writer_end(w);
}

void status_write_node(struct writer *w, const struct core_peer_report *node, int64_t now,
                       const char *unknown)
{
    writer_object(w, NULL);
    writer_int(w, "node_rank", node->node_rank);
    writer_text(w, "host", node->host[0] ? node->host : NULL);
    writer_text(w, "state", node->state);
    writer_bool(w, "connected", node->is_connected);
    writer_bool(w, "notice", node->has_notice);
    writer_int(w, "ranks_attached", node->ranks_attached);
    writer_int_if(w, "ranks_expected", node->ranks_expected, node->ranks_expected >= 0);
    writer_int(w, "lowest_step", (int64_t)node->lowest);
    writer_int(w, "highest_step", (int64_t)node->highest);
    add_steprate(w, node->steps_per_s);
    add_age(w, "step_age", node->moved_at ? now - node->moved_at : -1);
    add_age(w, "heard_age", node->heard_at ? now - node->heard_at : -1);
    writer_text(w, "why", node->why[0] ? node->why : NULL);
    writer_bool(w, "ranks_known", !unknown);
    writer_text(w, "ranks_unknown_why", unknown);
    writer_end(w);
}

/* Node 0's last STATUS about itself may be old: take the snapshot instead. */
static void look_at_own(struct core_peer_report *own, const struct status_ranks *ranks)
{
    bool is_first = true;
    int64_t youngest = -1;
    for (int i = 0; i < ranks->n; i++) {
        const struct core_rank_report *rank = &ranks->list[i];
        uint64_t step = rank->slot >= 0 ? ranks->steps[rank->slot] : rank->step;
        struct steprate_view view = ranks->rates[i];
        if (is_first || step < own->lowest)
            own->lowest = step;
        if (is_first || step > own->highest)
            own->highest = step;
        is_first = false;
        if (view.steps_per_s > 0)
            own->steps_per_s = view.steps_per_s;
        if (view.age_ns >= 0 && (youngest < 0 || view.age_ns < youngest))
            youngest = view.age_ns;
    }
    own->heard_at = ranks->now;
    own->moved_at = youngest >= 0 ? ranks->now - youngest : 0;
}

int status_nodes(const struct report *report, const struct status_ranks *ranks,
                 struct core_peer_report **ret)
{
    int nnodes = report->params->nnodes;
    *ret = calloc((size_t)nnodes, sizeof **ret);
    int n = *ret ? core_peers(report->core, *ret, nnodes) : 0;
    if (n > 0)
        look_at_own(&(*ret)[0], ranks);
    return n;
}
