/* SPDX-License-Identifier: Apache-2.0
 * The measurement of the network: how the nodes answer, that none starts its processes while it
 * takes part in one, and that node 0 counts only what the nodes say of the present one. See sim.h.
 */
#include "sim.h"

#define MS NS_PER_MS
#define S  NS_PER_S

/* The rate of each transfer of a measurement, so that a rate tells of which it is. */
#define RATE_OF(number) (UINT64_C(1000000) * (number))

/* Node 0 waits no longer for answers, with some time for its own timers. */
#define LONGEST_NS (10 * S)

/* From a chance of its own, so that all else of the seeds stays as it is. Where a rule expects a
 * certain end of the job, every node answers soon. */
void network_draw(struct schedule *s)
{
    struct rng r = {s->seed * UINT64_C(0xa24baed4963ee407) + 37};
    bool has_rule = schedule_has_rule(s);
    s->checks_net = rng_chance(&r, 150);
    for (int i = 0; i < MAX_NODES && s->checks_net; i++) {
        bool is_slow = !has_rule && rng_chance(&r, 200);
        s->listen_time[i] = rng_time(&r, 0, is_slow ? 4 * S : 20 * MS);
        s->transfer_time[i] = rng_time(&r, MS, is_slow ? 10 * S : 50 * MS);
        s->stays_mute[i] = !has_rule && rng_chance(&r, 100);
    }
}

void network_print(const struct schedule *s, FILE *out)
{
    for (int i = 0; i < s->nnodes && s->checks_net; i++)
        fprintf(out, "  node %d listens after %.3f s, sends for %.3f s%s\n", i,
                (double)s->listen_time[i] / S, (double)s->transfer_time[i] / S,
                s->stays_mute[i] ? ", and does not answer" : "");
}

void network_measure(struct world *w, int node, const struct action *a)
{
    struct host *host = &w->hosts[node];
    const struct peer_measure *measure = a->measure;
    int drawn = node % w->s.nnodes;
    int64_t took = measure->begins ? w->s.transfer_time[drawn] : w->s.listen_time[drawn];
    if (!w->s.checks_net)
        fail(w, "node %d measures the network, and is not to", node);
    host->measure = measure->number;
    if (node == 0 && measure->number > 0 && !measure->begins)
        world_at(w, (struct happening){.at = w->now + LONGEST_NS,
                                       .what = H_MEASURED_LATE,
                                       .arg = measure->number});
    trace(w, "node %d: measurement %u%s", node, measure->number, measure->begins ? ", sends" : "");
    if (measure->number > 0 && !w->s.stays_mute[drawn])
        world_at(w, (struct happening){.at = w->now + took,
                                       .what = H_MEASURED,
                                       .node = node,
                                       .arg = measure->number,
                                       .arg2 = measure->begins});
}

/* It may come when another measurement goes on. */
void network_measured(struct world *w, const struct happening *h)
{
    struct peer_link link = {.number = (uint32_t)h->arg, .is_over = h->arg2 > 0};
    snprintf(link.here.at, sizeof link.here.at, "10.0.0.%d:1", h->node);
    link.rate = link.is_over ? RATE_OF(link.number) : 0;
    world_event(w, h->node, (struct event){.type = EV_MEASURED, .link = &link});
}

/* A node 0 that stood still meanwhile has timers to catch up with. */
void network_check_late(struct world *w, const struct happening *h)
{
    const struct host *host = &w->hosts[0];
    struct happening again = *h;
    again.at = w->now + S;
    if (!host->is_alive || host->has_exited || host->measure != h->arg)
        return;
    if (w->now < host->paused_until + LONGEST_NS)
        world_at(w, again);
    else
        fail(w, "node 0 still waits for measurement %u", host->measure);
}

void network_check_start(struct world *w, int node)
{
    if (w->hosts[node].measure > 0)
        fail(w, "node %d starts its processes, and measures the network", node);
}

/* Node 0 has logged a result. */
void network_check_result(struct world *w)
{
    struct core_report report;
    core_report(w->hosts[0].core, &report);
    const struct core_network *network = &report.job.network;
    uint64_t rate = RATE_OF(w->hosts[0].measure);
    if (network->known > 0 && (network->least != rate || network->median != rate))
        fail(w, "node 0 counts a rate that is not of measurement %u", w->hosts[0].measure);
}
