/* SPDX-License-Identifier: Apache-2.0
 * The lease of a node: the faults that need it, and the checks. Node 0 can know when a node has
 * stopped, whatever the network does. See sim.h.
 */
#include "sim.h"

#include <string.h>

#define S NS_PER_S

/* As in fill_params(). */
#define TIMEOUT (15 * S)
#define KILLING (15 * S)

/* From a generator of its own. Messages of one way are lost, or come later and later, so that no
 * silence shows it. Ranks that do not wait for each other train on. */
void lease_draw(struct schedule *s)
{
    struct rng r = {s->seed * UINT64_C(0x9e3779b97f4a7c15) + 1359};
    if (s->nnodes == 1 || !rng_chance(&r, 20) || s->is_slowed || s->is_far || s->is_stalled ||
        s->patience || s->is_long_saved)
        return;
    int64_t step = rng_time(&r, S / 10, S / 5);
    for (int i = 0; i < s->nnodes * s->nprocs; i++) {
        s->step_time[i] = step;
        s->is_stubborn[i] = rng_chance(&r, 200);
    }
    s->is_lockstep = s->is_lockstep && rng_chance(&r, 600);
    s->slow_from = s->declared_last = 0;
    s->last_step = s->first_step + 12 * (1 + (uint64_t)(160 * S / (12 * step)));
    s->has_loss = true;
    s->nfaults = 1;
    s->faults[0] = (struct fault){
        .kind = DO_ONE_WAY,
        .at = rng_time(&r, 2 * S, 4 * S),
        .node = 1 + (int)rng_below(&r, (uint64_t)s->nnodes - 1),
        .length = rng_time(&r, 5 * S, 150 * S),
        .way = {.is_up = rng_chance(&r, 500),
                .late_tenth = rng_chance(&r, 300) ? 0 : 1 + (unsigned)rng_below(&r, 60)},
    };
}

void lease_heard(struct world *w, int node, const struct peermsg *msg)
{
    struct host *host = &w->hosts[node];
    int64_t from = host->lease_from;
    if (msg->type == PEERMSG_WELCOME) {
        from = host->was_welcome || w->s.replace_wait ? host->hello_at : w->now;
        host->was_welcome = true;
    } else if (msg->type == PEERMSG_ORDER && msg->order.echo_ns) {
        from = msg->order.echo_ns - host->clock;
    }
    host->lease_from = clock_max(host->lease_from, from);
}

void lease_answer(struct world *w, int node)
{
    struct core_peer_report peers[MAX_NODES];
    int n = core_peers(w->hosts[0].core, peers, MAX_NODES);
    if (node < n && !strcmp(peers[node].state, "lost"))
        fail(w, "node 0 answers node %d, which it has given up", node);
}

void lease_check_start(struct world *w, int node)
{
    const struct host *host = &w->hosts[node];
    int64_t over = host->lease_from + TIMEOUT;
    if (w->s.replace_wait && host->node != 0 && w->now >= over)
        fail(w, "node %d starts its processes %lld ms after its lease", host->node,
             (long long)((w->now - over) / NS_PER_MS));
}

/* It may have begun to end before: for a restart that its loss of node 0 has made the end. */
static bool is_ending(const struct host *host)
{
    struct core_report report;
    core_report(host->core, &report);
    return report.state == NODE_STOPPING || report.state == NODE_LEAVING;
}

/* Node 0 has ended the job for good, and told this node: no other supervisor takes its place. A
 * rank that ignores SIGTERM then has as long as the notice leaves. */
static bool knows_end(const struct world *w, const struct host *host)
{
    struct core_report report;
    core_report(host->core, &report);
    return w->end_at && report.outcome != OUTCOME_UNKNOWN &&
           !str_starts(report.why, "node 0 is lost");
}

void lease_check(struct world *w, const struct proc *p)
{
    const struct host *host = &w->hosts[p->node];
    if (p->node == 0 || p->node >= w->s.nnodes || w->s.is_unkillable[p->index] || !host->is_alive)
        return;
    /* A supervisor that stood still counts its lease from its return, unless it may be replaced. */
    int64_t over = clock_max(host->lease_from, host->paused_until) + TIMEOUT;
    if (w->s.replace_wait)
        over = clock_max(host->lease_from + TIMEOUT, host->paused_until);
    if (w->now <= over + S || (w->s.replace_wait && knows_end(w, host)))
        return;
    if (!is_ending(host))
        fail(w, "node %d trains on %lld ms after its lease", p->node,
             (long long)((w->now - over) / NS_PER_MS));
    if (w->s.replace_wait || w->now > over + S + KILLING)
        fail(w, "process %d trains %lld ms after the lease of its node", p->index,
             (long long)((w->now - over) / NS_PER_MS));
}
