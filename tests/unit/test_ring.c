/* SPDX-License-Identifier: Apache-2.0
 *
 * test_ring: what the log says of a measured network: the rates, and which pair or node is bad.
 */
#include "core/common/ring.h"

#include "base/str.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>

#define GBIT UINT64_C(125000000)

enum { NODES = 16384 };

static struct peer_link links[NODES];
static bool is_silent[NODES];
static char said[4096];

static const struct peer_link *link_of(const void *of, int node)
{
    return is_silent[node] ? NULL : &links[node];
}

static const char *host_of(const void *of, int node)
{
    static char hosts[2][16];
    static unsigned calls;
    char *host = hosts[calls++ % 2];
    snprintf(host, sizeof hosts[0], "host%d", node);
    return host;
}

static void hear(void *shell, const struct action *action)
{
    cr_assert_eq(action->type, ACT_LOG);
    str_addf(said, sizeof said, "%s\n", action->log.text);
}

/* Each pair has 10 Gbit/s. */
static void fast(void)
{
    for (int i = 0; i < NODES; i++) {
        links[i] = (struct peer_link){.number = 1, .is_over = 1, .rate = 10 * GBIT};
        snprintf(links[i].here.at, sizeof links[i].here.at, "10.0.0.%d:4%d", i, i);
    }
}

TestSuite(ring, .init = fast);

static void assert_says(int n, const char *expected)
{
    struct ring ring = {.n = n, .link = link_of, .host = host_of};
    struct core_network network = ring_judge(&ring);
    struct out out = {.act = hear};
    said[0] = '\0';
    ring_say(&ring, &network, &out);
    cr_assert_str_eq(said, expected);
}

static void fails(int node)
{
    links[node].rate = 0;
    str_copy(links[node].why, sizeof links[node].why, "Connection timed out");
}

Test(ring, a_slow_pair_is_named)
{
    links[3].rate = GBIT;
    assert_says(8, "8 pairs, median 10.0 Gbit/s; slowest node 3 (host3) to node 4 (host4), 1.0 "
                   "Gbit/s\n"
                   "node 3 (host3) to node 4 (host4): 1.0 Gbit/s, less than half of the median\n");
    links[3].rate = 5 * GBIT;
    assert_says(8, "8 pairs, median 10.0 Gbit/s; slowest node 3 (host3) to node 4 (host4), 5.0 "
                   "Gbit/s\n");
}

Test(ring, a_pair_without_a_connection_is_named)
{
    fails(7);
    assert_says(8, "8 pairs, median 10.0 Gbit/s; slowest node 0 (host0) to node 1 (host1), 10.0 "
                   "Gbit/s; 1 not connected\n"
                   "node 7 (host7) cannot reach node 0 (host0) at 10.0.0.0:40: Connection timed "
                   "out\n");
}

/* One pair does not show which of its nodes is bad; two pairs do. */
Test(ring, a_node_with_two_bad_pairs_is_named)
{
    links[2].rate = GBIT / 10000;
    fails(3);
    assert_says(8, "8 pairs, median 10.0 Gbit/s; slowest node 2 (host2) to node 3 (host3), 100.0 "
                   "kbit/s; 1 not connected\n"
                   "node 3 (host3) cannot reach node 4 (host4) at 10.0.0.4:44: Connection timed "
                   "out\n"
                   "node 2 (host2) to node 3 (host3): 100.0 kbit/s, less than half of the median\n"
                   "both pairs of node 3 (host3) are bad: look first at that node\n");
}

Test(ring, what_is_not_known_is_said)
{
    is_silent[0] = true;
    links[1].rate = 0;
    assert_says(3, "3 pairs, median 10.0 Gbit/s; slowest node 2 (host2) to node 0 (host0), 10.0 "
                   "Gbit/s; 2 unknown\n");
    for (int i = 0; i < 3; i++)
        is_silent[i] = true;
    assert_says(3, "3 pairs; 3 unknown\n");
}

/* Each of two nodes is in both pairs. */
Test(ring, of_two_nodes_neither_is_named)
{
    fails(0);
    fails(1);
    assert_says(2, "2 pairs; 2 not connected\n"
                   "node 0 (host0) cannot reach node 1 (host1) at 10.0.0.1:41: Connection timed "
                   "out\n"
                   "node 1 (host1) cannot reach node 0 (host0) at 10.0.0.0:40: Connection timed "
                   "out\n");
}

/* The log stays short, and the median is found among the most nodes that a job may have. */
Test(ring, a_bad_switch)
{
    struct ring ring = {.n = NODES, .link = link_of, .host = host_of};
    struct out out = {.act = hear};
    for (int i = 0; i < 1000; i += 2)
        fails(i);
    struct core_network network = ring_judge(&ring);
    cr_assert_eq(network.median, 10 * GBIT);
    cr_assert_eq(network.failed, 500);
    cr_assert_eq(network.known, NODES - 500);
    ring_say(&ring, &network, &out);
    cr_assert(strstr(said, "the same, 492 more times"), "%s", said);
    cr_assert_not(strstr(said, "both pairs"), "%s", said);
}

/* All nodes of a switch have two bad pairs. */
Test(ring, a_switch_without_a_way)
{
    int n = 0;
    struct ring ring = {.n = NODES, .link = link_of, .host = host_of};
    struct out out = {.act = hear};
    for (int i = 0; i < 40; i++)
        fails(i);
    struct core_network network = ring_judge(&ring);
    said[0] = '\0';
    ring_say(&ring, &network, &out);
    for (const char *at = said; (at = strstr(at, "both pairs of node")); at++)
        n++;
    cr_assert_eq(n, 8, "%s", said);
    cr_assert(strstr(said, "the same, 31 more times"), "%s", said);
}
