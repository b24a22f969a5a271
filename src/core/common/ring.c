/* SPDX-License-Identifier: Apache-2.0
 * See ring.h.
 */
#include "core/common/ring.h"

#include "base/str.h"
#include "core/common/slowness.h"

#include <stdio.h>

/* A bad switch breaks many pairs: the log names as many of each kind, and the number of the rest.
 */
enum { TOLD_MAX = 8 };

_Static_assert(PEERMSG_RATE_MAX <= PAGE_OWN_MAX, "slowness_median() takes no larger value");

static uint64_t rate_from(const struct ring *ring, int node)
{
    const struct peer_link *link = ring->link(ring->of, node);
    return link ? link->rate : 0;
}

static const char *ring_failure(const struct ring *ring, int node)
{
    const struct peer_link *link = ring->link(ring->of, node);
    return link && link->why[0] ? link->why : NULL;
}

static uint64_t count_rates(const void *of, uint64_t most)
{
    const struct ring *ring = of;
    uint64_t n = 0;
    for (int i = 0; i < ring->n; i++)
        n += rate_from(ring, i) > 0 && rate_from(ring, i) <= most;
    return n;
}

struct core_network ring_judge(const struct ring *ring)
{
    struct core_network network = {.pairs = ring->n, .slowest = -1};
    network.median = slowness_median(count_rates, ring);
    for (int i = 0; i < ring->n; i++) {
        uint64_t rate = rate_from(ring, i);
        network.failed += ring_failure(ring, i) != NULL;
        network.known += rate > 0;
        if (rate > 0 && (network.slowest < 0 || rate < network.least)) {
            network.slowest = i;
            network.least = rate;
        }
    }
    return network;
}

static bool ring_is_slow(const struct ring *ring, const struct core_network *network, int node)
{
    uint64_t rate = rate_from(ring, node);
    return rate > 0 && rate < network->median / 2;
}

static bool ring_is_bad(const struct ring *ring, const struct core_network *network, int node)
{
    return ring_failure(ring, node) || ring_is_slow(ring, network, node);
}

/* "9.6 Gbit/s" */
static char *ring_rate(uint64_t rate, char text[32])
{
    double bits = 8.0 * (double)rate;
    if (bits >= 1e9)
        snprintf(text, 32, "%.1f Gbit/s", bits / 1e9);
    else if (bits >= 1e6)
        snprintf(text, 32, "%.1f Mbit/s", bits / 1e6);
    else
        snprintf(text, 32, "%.1f kbit/s", bits / 1e3);
    return text;
}

/* "node 3 (hosta) to node 4 (hostb)" */
static char *ring_pair(const struct ring *ring, int node, const char *to, char text[192])
{
    int next = (node + 1) % ring->n;
    snprintf(text, 192, "node %d (%s) %s node %d (%s)", node, ring->host(ring->of, node), to, next,
             ring->host(ring->of, next));
    return text;
}

static void say_all(const struct ring *ring, const struct core_network *network, struct out *out)
{
    char text[320], pair[192], rate[32];
    int unknown = network->pairs - network->known - network->failed;
    snprintf(text, sizeof text, "%d pairs", network->pairs);
    if (network->known)
        str_addf(text, sizeof text, ", median %s", ring_rate(network->median, rate));
    if (network->known)
        str_addf(text, sizeof text, "; slowest %s, %s",
                 ring_pair(ring, network->slowest, "to", pair), ring_rate(network->least, rate));
    if (network->failed)
        str_addf(text, sizeof text, "; %d not connected", network->failed);
    if (unknown)
        str_addf(text, sizeof text, "; %d unknown", unknown);
    out_log(out, LOG_NOTICE, "network", "%s", text);
}

static void ring_say_failure(const struct ring *ring, struct out *out, int node)
{
    char pair[192];
    const struct peer_link *next = ring->link(ring->of, (node + 1) % ring->n);
    bool has_place = next && next->here.at[0];
    out_log(out, LOG_WARN, "network", "%s%s%s: %s", ring_pair(ring, node, "cannot reach", pair),
            has_place ? " at " : "", has_place ? next->here.at : "", ring_failure(ring, node));
}

static void say_slow(const struct ring *ring, struct out *out, int node)
{
    char pair[192], rate[32];
    out_log(out, LOG_WARN, "network", "%s: %s, less than half of the median",
            ring_pair(ring, node, "to", pair), ring_rate(rate_from(ring, node), rate));
}

static void say_more(struct out *out, int n)
{
    if (n > TOLD_MAX)
        out_log(out, LOG_WARN, "network", "the same, %d more times", n - TOLD_MAX);
}

void ring_say(const struct ring *ring, const struct core_network *network, struct out *out)
{
    int nfailed = 0, nslow = 0, nnodes = 0;
    say_all(ring, network, out);
    for (int i = 0; i < ring->n; i++)
        if (ring_failure(ring, i) && nfailed++ < TOLD_MAX)
            ring_say_failure(ring, out, i);
    say_more(out, nfailed);
    for (int i = 0; i < ring->n; i++)
        if (ring_is_slow(ring, network, i) && nslow++ < TOLD_MAX)
            say_slow(ring, out, i);
    say_more(out, nslow);
    for (int i = 0; i < ring->n && ring->n > 2 && nfailed + nslow < ring->n; i++)
        if (ring_is_bad(ring, network, i) &&
            ring_is_bad(ring, network, (i + ring->n - 1) % ring->n) && nnodes++ < TOLD_MAX)
            out_log(out, LOG_WARN, "network",
                    "both pairs of node %d (%s) are bad: look first at that node", i,
                    ring->host(ring->of, i));
    say_more(out, nnodes);
}
