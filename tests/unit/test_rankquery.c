/* SPDX-License-Identifier: Apache-2.0
 *
 * test_rankquery: node 0 asks the others for their ranks. The nodes are this file: it replaces
 * peers/peers and the core.
 */
#include "peers/rankquery.h"

#include "unit.h"

#include "base/clock.h"
#include "base/str.h"

enum { NODES = 300 };

static struct rankquery call;
static struct event_base *base;
static struct cluster cluster;
static int over, asked;
static bool cut_off[NODES];

/* --- what stands in --- */

static int conn_of(int node)
{
    return node == 0 ? CONN_SELF : cut_off[node] ? CONN_NONE : CONN_FIRST + node;
}

int core_peers(const struct core *core, struct core_peer_report *ret, int max)
{
    for (int i = 0; i < max; i++)
        ret[i] = (struct core_peer_report){.node_rank = i, .conn = conn_of(i)};
    return max;
}

static void (*on_look)(int node);

void peers_send(struct peers *to, int conn, const struct peermsg *msg)
{
    cr_assert(to == cluster.peers && msg->type == PEERMSG_LOOK && msg->look.number == call.number);
    asked++;
    if (on_look)
        on_look(conn - CONN_FIRST);
}

static void on_over(void *ctx)
{
    over++;
}

/* --- the nodes --- */

static struct peermsg told(int node, int total, int first, int count)
{
    struct peermsg msg = {.type = PEERMSG_RANKS,
                          .ranks = {.number = call.number,
                                    .node_rank = (uint32_t)node,
                                    .total = (uint16_t)total,
                                    .first = (uint16_t)first,
                                    .count = (uint8_t)count}};
    cr_assert(count <= PEERMSG_RANKS_MAX);
    for (int i = 0; i < count; i++)
        msg.ranks.list[i].rank = 1000 * node + first + i;
    return msg;
}

static void answer(int node, int total, int first, int count)
{
    struct peermsg msg = told(node, total, first, count);
    rankquery_take(&call, CONN_FIRST + node, &msg);
}

static void two_ranks(int node)
{
    answer(node, 2, 0, 2);
}

static const struct rankquery_node *of(int node, const char *why)
{
    char text[64] = "";
    const struct rankquery_node *got = rankquery_told(&call, node, text, sizeof text);
    cr_assert_str_eq(got ? "" : text, why);
    return got;
}

/* --- the tests --- */

static void begin_with(int nnodes)
{
    struct err err;
    base = watch_open(&err);
    call = (struct rankquery){.cluster = &cluster, .nnodes = nnodes, .on_over = on_over};
    cr_assert(base);
    rankquery_open(&call, base);
    cr_assert(rankquery_begin(&call));
}

static void end(void)
{
    rankquery_free(&call);
    watch_close(base);
}

static void run(void)
{
    while (over == 0)
        cr_assert(watch_turn(base));
    cr_assert_eq(over, 1);
}

TestSuite(rankquery, .fini = end, .timeout = 60);

Test(rankquery, all_answer)
{
    on_look = two_ranks;
    begin_with(NODES);
    cr_assert_eq(asked, 0, "not within the call: the loop comes first");
    run();
    cr_assert_eq(asked, NODES - 1, "node 0 itself is not asked");
    cr_assert_eq(of(NODES - 1, "")->n, 2);
    cr_assert_eq(of(NODES - 1, "")->list[1].rank, 1000 * (NODES - 1) + 1);
    rankquery_forget(&call);
    cr_assert(rankquery_begin(&call), "it can be asked again");
}

static void in_pieces(int node)
{
    answer(node, 50, 0, 20);
    answer(node, 50, 20, 20);
    answer(node, 50, 40, 10);
}

Test(rankquery, an_answer_in_pieces)
{
    on_look = in_pieces;
    begin_with(2);
    run();
    cr_assert_eq(of(1, "")->n, 50);
    cr_assert_eq(of(1, "")->list[49].rank, 1049);
}

static void all_but_one(int node)
{
    if (node == 2)
        answer(node, 3, 0, 2); /* and never the third */
    else
        answer(node, 0, 0, 0);
}

Test(rankquery, who_does_not_answer_is_not_waited_for_long)
{
    on_look = all_but_one;
    cut_off[3] = true;
    begin_with(4);
    int64_t began = clock_now_ns();
    run();
    cr_assert_geq(clock_now_ns() - began, 2 * NS_PER_S - 20 * NS_PER_MS);
    cr_assert_lt(clock_now_ns() - began, 12 * NS_PER_S);
    cr_assert_eq(asked, 2);
    cr_assert_eq(of(1, "")->n, 0);
    of(2, "no answer for 2 s");
    of(3, "it has no connection to node 0");
}

Test(rankquery, an_end_before_all_have_answered)
{
    begin_with(2);
    rankquery_end(&call);
    of(1, "the job ended before this node answered");
    two_ranks(1);
    of(1, "the job ended before this node answered");
}

static void with_a_hole(int node)
{
    answer(node, 5, 0, 2);
    answer(node, 5, 3, 2);
}

static void with_another_total(int node)
{
    answer(node, 5, 0, 2);
    answer(node, 4, 2, 2);
}

static void too_many(int node)
{
    answer(node, CORE_SLOTS_MAX + 1, 0, PEERMSG_RANKS_MAX);
}

static void nothing_of_something(int node)
{
    answer(node, 5, 0, 0);
}

/* Node 1 sends an impossible answer, and node 2 a good one. */
Test(rankquery, what_cannot_be)
{
    static void (*const lies[])(int node) = {with_a_hole, with_another_total, too_many,
                                             nothing_of_something};
    for (size_t i = 0; i < ARRAY_LEN(lies); i++) {
        if (i > 0)
            end();
        over = 0;
        begin_with(3);
        lies[i](1);
        two_ranks(2);
        run();
        of(1, "its answer is invalid");
        cr_assert_eq(of(2, "")->n, 2, "%zu", i);
    }
}

/* An answer for another node, to another question, or a second time, is ignored. */
Test(rankquery, strange_words)
{
    begin_with(3);
    struct peermsg msg = told(1, 7, 0, 7);
    rankquery_take(&call, CONN_FIRST + 2, &msg);
    msg.ranks.number--;
    rankquery_take(&call, CONN_FIRST + 1, &msg);
    msg = told(UINT16_MAX, 1, 0, 1);
    rankquery_take(&call, CONN_FIRST + 1, &msg);
    msg = told(0, 1, 0, 1);
    rankquery_take(&call, CONN_SELF, &msg);
    rankquery_take(&call, CONN_NONE, &msg);
    two_ranks(1);
    answer(1, 2, 0, 2);
    two_ranks(2);
    run();
    cr_assert(of(1, "")->n == 2 && of(2, "")->n == 2);
}

/* All nodes together cannot tell of more ranks than a job can have. */
static void full(int node)
{
    for (int first = 0; first < CORE_SLOTS_MAX; first += 16)
        answer(node, CORE_SLOTS_MAX, first, 16);
}

Test(rankquery, more_than_a_job_can_have)
{
    on_look = full;
    begin_with(NODES);
    run();
    cr_assert_eq(of(CORE_WORLD_MAX / CORE_SLOTS_MAX, "")->n, CORE_SLOTS_MAX);
    of(CORE_WORLD_MAX / CORE_SLOTS_MAX + 1, "its answer is invalid");
}
