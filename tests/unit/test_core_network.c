/* SPDX-License-Identifier: Apache-2.0
 *
 * test_core_network: the measurement of the network before a generation: the ranks wait for it, but
 * not for a node that does not answer, and nothing of it is open when they start.
 */
#include "base/str.h"
#include "walk.h"

#include <string.h>

TestSuite(core_network, .fini = walks_end);

/* As node 0 waits for both: until the nodes listen, and then for the transfers. */
#define LISTEN_NS   (2 * S)
#define TRANSFER_NS (6 * S)

static int64_t heartbeat_timeout = 15 * S;

static void begin_nodes(int restarts)
{
    lose_letters();
    for (int i = 0; i < WALK_NODES; i++) {
        struct core_params p = params_of(i, WALK_NODES, 1);
        p.checks_net = i == 0;
        p.heartbeat_timeout_ns = heartbeat_timeout;
        p.restart = (struct restart_policy){.max = restarts, .start_max = restarts};
        str_copy(p.host, sizeof p.host, i ? "n1" : "n0");
        walk_begin(&p);
    }
    meet();
}

static void tells(int node, struct peer_link link)
{
    feed(&walks[node], (struct event){.type = EV_MEASURED, .link = &link});
    deliver();
}

static void listens(int node, uint32_t number)
{
    struct peer_link link = {.number = number};
    str_copy(link.here.at, sizeof link.here.at, node ? "b:1" : "a:1");
    tells(node, link);
}

static void has_sent(int node, uint32_t number, uint64_t rate)
{
    tells(node, (struct peer_link){.number = number, .is_over = 1, .rate = rate});
}

static void both_listen(uint32_t number)
{
    listens(0, number);
    listens(1, number);
}

static void both_have_sent(uint32_t number)
{
    has_sent(0, number, 1000000000);
    has_sent(1, number, 500000000);
}

static void assert_no_start(void)
{
    assert_did_not(&walks[0], "start");
    assert_did_not(&walks[1], "start");
}

/* All sockets of it are closed by then. */
static void assert_ended_before_the_start(void)
{
    for (int i = 0; i < WALK_NODES; i++) {
        const char *end = strstr(walks[i].acts, "measure 0");
        cr_assert(end && strstr(end, "start"), "%s", walks[i].acts);
    }
}

Test(core_network, the_start_waits_for_the_rates)
{
    begin_nodes(0);
    assert_did(&walks[0], "measure 1");
    assert_no_start();
    listens(0, 1);
    assert_did_not(&walks[0], "sends to");
    listens(1, 1);
    assert_did(&walks[0], "sends to b:1");
    assert_did(&walks[1], "sends to a:1");
    has_sent(0, 1, 1000000000);
    assert_no_start();
    has_sent(1, 1, 500000000);
    assert_said(&walks[0], "2 pairs, median 4.0 Gbit/s; slowest node 1 (n1) to node 0 (n0), 4.0");
    assert_ended_before_the_start();
}

/* A node that reaches node 0 by loopback listens where the others reach node 0. It gets no token.
 */
Test(core_network, a_node_hears_first_where_node_0_listens)
{
    struct peer_link link = {.number = 1, .here = {.at = "a:1", .token = {7, 8}}};
    begin_nodes(0);
    assert_did_not(&walks[1], "measure");
    tells(0, link);
    assert_did(&walks[1], "measure 1, node 0 at a:1");
    listens(1, 1);
    assert_both_did("sends to");
}

/* Then no other place is known to it either. */
Test(core_network, node_0_cannot_listen)
{
    begin_nodes(0);
    tells(0, (struct peer_link){.number = 1});
    assert_did(&walks[1], "measure 1");
    listens(1, 1);
    assert_did(&walks[0], "sends to b:1");
}

Test(core_network, nothing_is_measured_unasked)
{
    begin_two();
    assert_did_not(&walks[0], "measure");
    assert_did_not(&walks[1], "measure");
}

Test(core_network, a_node_that_does_not_answer)
{
    begin_nodes(0);
    listens(0, 1);
    int64_t at = now;
    passes(&walks[0], LISTEN_NS);
    deliver();
    assert_both_did("sends to");
    assert_no_start();
    tells(0, (struct peer_link){.number = 1, .is_over = 1, .why = "Unreachable"});
    passes(&walks[0], TRANSFER_NS);
    deliver();
    assert_said(&walks[0], "2 pairs; 1 not connected; 1 unknown");
    assert_said(&walks[0], "node 0 (n0) cannot reach node 1 (n1): Unreachable");
    assert_ended_before_the_start();
    cr_assert_leq(now, at + LISTEN_NS + TRANSFER_NS + S);
}

/* Its host or its cable is what is measured. The others wait for it to join again. */
Test(core_network, a_node_that_loses_its_connection)
{
    begin_nodes(0);
    both_listen(1);
    has_sent(0, 1, 1);
    for (uint32_t number = 2; number <= 4; number++) {
        line_closes(&walks[0], false);
        line_closes(&walks[1], false);
        deliver();
        assert_did(&walks[0], "measure 0");
        assert_no_start();
        meet();
        if (number < 4)
            listens(0, number);
    }
    assert_said(&walks[0], "not measured: each time a node lost its connection to node 0");
    assert_did(&walks[0], "start");
    assert_did(&walks[1], "start");
}

/* Node 0 closes the connection itself, so no event tells of that. */
Test(core_network, a_node_that_falls_silent)
{
    heartbeat_timeout = 4 * S;
    begin_nodes(0);
    both_listen(1);
    for (int i = 0; i < 20; i++)
        passes(&walks[0], S / 4);
    assert_said(&walks[0], "sends nothing: it must join again");
    assert_did(&walks[0], "measure 0");
    assert_no_start();
    lose_letters();
}

static void restart_in_place(void)
{
    for (int i = 0; i < WALK_NODES; i++)
        started(&walks[i], 0);
    deliver();
    for (int i = 0; i < WALK_NODES; i++)
        walks[i].acts[0] = '\0';
    ends(&walks[1], 1 << 8);
    steps_are_read(&walks[1]);
    deliver();
    ends(&walks[0], SIGTERM);
    deliver();
}

/* A late answer to the first measurement says nothing about the second. */
Test(core_network, each_generation_is_measured)
{
    begin_nodes(3);
    both_listen(1);
    both_have_sent(1);
    restart_in_place();
    assert_did(&walks[0], "measure 2");
    listens(0, 2);
    assert_did(&walks[1], "measure 2");
    has_sent(1, 1, 1);
    assert_did_not(&walks[0], "sends to");
    listens(1, 2);
    assert_both_did("sends to");
    has_sent(0, 1, 1);
    has_sent(1, 1, 1);
    assert_no_start();
    both_have_sent(2);
    assert_ended_before_the_start();
}

/* A STATUS of node 1, which takes part in this measurement. */
static void hears_of(uint32_t number)
{
    static uint64_t seq = 1000; /* node 1 itself has sent fewer */
    struct peermsg msg = {.type = PEERMSG_STATUS, .stamp = {.attempt = 1, .seq = ++seq}};
    msg.status = (struct peer_status){
        .life = LIFE_GONE, .seen = 1000, .expected = 1, .link = {.number = number}};
    hears(&walks[0], &msg);
    deliver();
}

Test(core_network, a_status_of_an_earlier_measurement)
{
    begin_nodes(3);
    both_listen(1);
    both_have_sent(1);
    restart_in_place();
    listens(0, 2);
    hears_of(1);
    assert_did_not(&walks[0], "sends to");
    hears_of(2);
    assert_did(&walks[0], "sends to");
    lose_letters();
}

Test(core_network, an_end_ends_it)
{
    begin_nodes(0);
    both_listen(1);
    signalled(&walks[0], SIGTERM);
    deliver();
    assert_both_did("measure 0");
    assert_both_did("exit 42");
    assert_no_start();
}
