/* SPDX-License-Identifier: Apache-2.0
 * See status.h.
 */
#include "status/status.h"

#include "base/clock.h"
#include "core/common/ranks.h"
#include "os/proc.h"
#include "wire/page.h"

#include <math.h>
#include <stdlib.h>

/* In steps per million seconds. A rank's page may hold any number, so a limit is needed. */
#define PACE_MAX 1e18

/* Sorts by rank number, because the core keeps the ranks in the order in which they attached. */
static int status_compare(const void *a, const void *b)
{
    const struct core_rank_report *x = a, *y = b;
    return x->rank - y->rank;
}

/* The highest of the page's step, the last known step, and the saved step. The page may be closed
 * already. A saved step was also finished. Steps that a command prints may go back. */
static void take_step(struct core_rank_report *rank, uint64_t now)
{
    if (rank->is_counting && rank->slot >= 0) {
        rank->step = now;
        return;
    }
    rank->step = now > rank->step ? now : rank->step;
    rank->step = rank->saved_step > rank->step ? rank->saved_step : rank->step;
}

/* `steps` gets the steps of the ranks' pages, in the order of the ranks. */
static void take_ranks(struct status_ranks *ret, const struct attach *attach,
                       uint64_t steps[CORE_SLOTS_MAX])
{
    uint64_t by_slot[CORE_SLOTS_MAX];
    struct page_own own[CORE_SLOTS_MAX]; /* the core's are those by which it judges */
    ret->n = core_ranks(attach->loop->core, ret->list, CORE_SLOTS_MAX);
    ret->now = clock_now_ns();
    qsort(ret->list, (size_t)ret->n, sizeof ret->list[0], status_compare);
    attach_look(attach, by_slot, ret->phases, own);
    for (int i = 0; i < ret->n; i++) {
        struct core_rank_report *rank = &ret->list[i];
        uint64_t step = rank->slot >= 0 ? by_slot[rank->slot] : 0;
        steps[i] = step > RANKS_STEP_MAX ? 0 : step; /* an invalid page */
        rank->loaded_ns += rank->slot >= 0 ? own[rank->slot].loading_ns : 0;
        take_step(rank, steps[i]);
    }
}

void status_look(struct status_ranks *ret, struct attach *attach)
{
    uint64_t steps[CORE_SLOTS_MAX];
    take_ranks(ret, attach, steps);
    for (int i = 0; i < ret->n; i++)
        ret->rates[i] = steprate_look(&attach->steprate, &ret->list[i], steps[i], ret->now);
}

uint64_t status_newest_step(struct attach *attach)
{
    static struct status_ranks ranks; /* too large for the stack */
    struct core_report report;
    core_report(attach->loop->core, &report);
    uint64_t step = report.job.last_step;
    status_look_aside(&ranks, attach);
    for (int i = 0; i < ranks.n; i++)
        if (!ranks.list[i].is_counting && ranks.list[i].step > step)
            step = ranks.list[i].step;
    return step;
}

uint64_t status_longest_loading(const struct status_ranks *ranks, const struct core_report *report)
{
    uint64_t longest = report->loading_ns;
    for (int i = 0; i < ranks->n; i++)
        if (!ranks->list[i].is_counting && ranks->list[i].loaded_ns > longest)
            longest = ranks->list[i].loaded_ns;
    return longest;
}

void status_look_aside(struct status_ranks *ret, const struct attach *attach)
{
    uint64_t steps[CORE_SLOTS_MAX];
    take_ranks(ret, attach, steps);
    for (int i = 0; i < ret->n; i++)
        ret->rates[i] = (struct steprate_view){.age_ns = -1};
}

/* True if the rank's process runs. False if the kernel has given its pid to a process that is not
 * our descendant. */
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
                              .life = status_life_of(rank, ranks->now),
                              .own_ns = rank->own_ns,
                              .slow = rank->slow};
}

/* --- as JSON --- */

void status_add_age(struct writer *w, const char *key, int64_t age_ns)
{
    int64_t ms = age_ns / NS_PER_MS;
    writer_real(w, key, age_ns < 0 ? NAN : (double)ms / 1000);
}

void status_add_steprate(struct writer *w, double steps_per_s)
{
    writer_real(w, "steps_per_second", steps_per_s > 0 ? steps_per_s : NAN);
}

static const char *rank_state(const struct peer_rank *rank)
{
    static const char *const names[] = {
        [RANK_GONE] = "gone", [RANK_STARTING] = "starting", [RANK_UNATTACHED] = "not attached"};
    if (rank->done)
        return "done";
    return rank->attached ? "attached" : names[rank->life];
}

void status_add_rank(struct writer *w, int node_rank, const struct peer_rank *rank, int64_t ago_ns)
{
    writer_int(w, "rank", rank->rank);
    writer_int(w, "node_rank", node_rank);
    writer_int(w, "local_rank", rank->local_rank);
    writer_int(w, "pid", rank->pid);
    writer_text(w, "state", rank_state(rank));
    writer_bool(w, "attached", rank->attached);
    writer_bool(w, "done", rank->done);
    writer_int(w, "step", (int64_t)rank->step);
    status_add_steprate(w, (double)rank->pace / 1e6);
    status_add_age(w, "step_age", rank->age_ns < 0 ? -1 : rank->age_ns + ago_ns);
    writer_bool(w, "step_age_is_least", rank->is_least);
    writer_text(w, "phase", rank->attached ? page_phase_name(rank->phase) : NULL);
    writer_int(w, "saved_step", (int64_t)rank->saved_step);
    writer_bool(w, "counts_only", rank->counts);
    writer_real(w, "own_seconds", rank->own_ns ? (double)rank->own_ns / 1e9 : NAN);
    writer_real(w, "slow", rank->slow ? rank->slow / 100.0 : NAN);
}
