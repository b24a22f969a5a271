/* SPDX-License-Identifier: Apache-2.0
 * The health checks of the nodes: what they say, and that no node starts its processes before each
 * node has been checked, or after one must not train. See sim.h.
 */
#include "sim.h"

#include "core/common/verdict.h"

#define MS NS_PER_MS
#define S  NS_PER_S

/* From a chance of its own, so that all else of the seeds stays as it is. Where a rule expects a
 * certain end of the job, all nodes stay healthy, and the checks are quick. */
void health_draw(struct schedule *s)
{
    struct rng r = {s->seed * UINT64_C(0xd6e8feb86659fd93) + 31};
    bool has_rule = schedule_has_rule(s);
    for (int i = 0; i < MAX_NODES; i++)
        s->unfit_at[i] = -1;
    if (!rng_chance(&r, 100))
        return;
    s->checks_health = true;
    s->has_unfit = !has_rule && rng_chance(&r, 600);
    s->is_unfit_alone = s->has_unfit && s->nfaults == 0 && !s->has_loss && !s->is_replaced;
    /* A fatal code, and what is left, forbid any new start. */
    s->is_unfit_alone = s->is_unfit_alone && !s->restart.is_fatal[137] && !s->kill_round;
    for (int i = 0; i < s->nnodes * s->nprocs; i++)
        s->is_unfit_alone = s->is_unfit_alone && !s->is_unkillable[i] && !s->stays_attached[i];
    for (int i = 0; i < s->nnodes; i++) {
        bool is_slow = s->has_unfit && s->nnodes > 1 && rng_chance(&r, 300);
        s->check_time[i] = rng_time(&r, MS, is_slow ? 40 * S : 50 * MS);
        if (s->has_unfit && rng_chance(&r, 400))
            s->unfit_at[i] = rng_chance(&r, 500) ? 0 : 1;
    }
    if (s->has_unfit) /* a job that ends for it may end while anything else goes on */
        s->has_loss = true;
}

void health_print(const struct schedule *s, FILE *out)
{
    for (int i = 0; i < s->nnodes && s->checks_health; i++)
        fprintf(out, "  node %d is checked for %.3f s%s%s\n", i, (double)s->check_time[i] / S,
                s->unfit_at[i] < 0 ? "" : ", and must not train in generation ",
                s->unfit_at[i] < 0    ? ""
                : s->unfit_at[i] == 0 ? "0"
                                      : "1");
}

void health_check(struct world *w, int node)
{
    struct host *host = &w->hosts[node];
    bool is_extra = node >= w->s.nnodes;
    int64_t took = is_extra ? MS : w->s.check_time[node];
    uint32_t coming = host->is_started ? host->generation + 1 : 0;
    if (!w->s.checks_health)
        fail(w, "node %d checks its health, and has no check", node);
    if (host->is_checking)
        fail(w, "node %d checks its health, and its last check is not over", node);
    host->is_checking = true;
    trace(w, "node %d: checks its health", node);
    world_at(w, (struct happening){.at = w->now + took,
                                   .what = H_CHECKED,
                                   .node = node,
                                   .arg = is_extra
                                              ? host->is_claimant && w->s.unfit_at[host->node] == 1
                                              : w->s.unfit_at[node] == (int)coming});
}

void health_checked(struct world *w, const struct happening *h)
{
    struct host *host = &w->hosts[h->node];
    struct core_report report;
    core_report(host->core, &report);
    /* If the job ends already, the answer comes too late. */
    bool counts = report.state == NODE_WAITING || report.state == NODE_RESTARTING;
    host->is_checking = false;
    host->is_unfit = host->is_unfit || (h->arg && counts);
    trace(w, "node %d: is %s", h->node, h->arg ? "not healthy" : "healthy");
    world_event(w, h->node,
                (struct event){.type = EV_CHECKED, .illness = h->arg ? "gpu3: Xid 79" : NULL});
}

/* The node has not begun the generation yet, or begins it now. A node that is ahead has failed
 * there, and is checked for the next one. So is a supervisor that began after node 0's start. */
static bool takes_part(const struct world *w, const struct host *host, uint32_t generation)
{
    struct core_report report;
    bool is_late =
        w->start_lives && generation <= w->start_generation && host->life >= w->start_lives;
    if (!host->is_alive || host->has_exited || is_late)
        return false;
    core_report(host->core, &report);
    bool restarts = report.state == NODE_RESTARTING;
    return report.state <= NODE_RESTARTING && report.generation + restarts == generation;
}

void health_check_start(struct world *w, int node, uint32_t generation)
{
    if (node == 0) {
        w->start_generation = generation;
        w->start_lives = w->lives;
    }
    for (int i = 0; i < w->s.nnodes; i++) {
        const struct host *host = &w->hosts[i];
        if (!takes_part(w, host, generation))
            continue;
        if (host->is_checking)
            fail(w, "node %d starts its processes, and node %d is still being checked", node, i);
        if (host->is_unfit)
            fail(w, "node %d starts its processes, and node %d must not train", node, i);
    }
}

static int count_unfit(const struct world *w)
{
    int n = 0;
    for (int i = 0; i < w->nhosts; i++) /* it may have been replaced */
        n += w->hosts[i].is_unfit;
    return n;
}

void health_struck(struct world *w, int node)
{
    trace(w, "node %d: records a host that is not healthy", node);
    if (node != 0 || ++w->nstrikes > count_unfit(w))
        fail(w, "node %d records a host as not healthy, %d so far, and %d are", node, w->nstrikes,
             count_unfit(w));
}

void health_lost(struct world *w)
{
    if (++w->nunfit_lost > w->nstrikes)
        fail(w, "node 0 goes on without a node that must not train, and does not record its host");
}

void health_check_exit(struct world *w, int node)
{
    const struct host *host = &w->hosts[node];
    if (host->outcome == OUTCOME_UNHEALTHY && count_unfit(w) == 0)
        fail(w, "node %d says that a node must not train, and each may: %s", node, host->why);
    if (host->outcome == OUTCOME_UNHEALTHY && (host->code == 45) != host->is_unfit)
        fail(w, "node %d, which is %s, exits with %d", node,
             host->is_unfit ? "not healthy" : "healthy", host->code);
    if (node == 0 && host->outcome == OUTCOME_UNHEALTHY && w->nstrikes == 0)
        fail(w, "node 0 says that a host is not healthy, and records none");
    /* A supervisor may come when the other nodes have completed the job: it ends as they do. */
    if (host->is_unfit && host->is_started && host->outcome == OUTCOME_COMPLETED)
        fail(w, "node %d must not train, and says completed", node);
    /* It may be the last of several starts in a row without a new commit. */
    bool is_last = host->outcome == OUTCOME_NO_PROGRESS;
    if (host->is_unfit && host->outcome != OUTCOME_UNHEALTHY && !is_last && w->s.is_unfit_alone)
        fail(w, "node %d must not train, and says %s: %s", node, verdict_name(host->outcome),
             host->why);
}
