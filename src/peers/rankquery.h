/* SPDX-License-Identifier: Apache-2.0
 *
 * rankquery: node 0 asks the other nodes about their ranks, for pchctl, and a node answers.
 *
 * Without a request nothing is sent, and the answers decide nothing. Each answer is bounded. After
 * some seconds node 0 goes on without the missing answers. All answers are untrusted. Owns its
 * memory: rankquery_free(). Main thread.
 */
#pragma once

#include "core/core.h"
#include "loop/watch.h"
#include "peers/cluster.h"

struct rankquery_node {
    int conn; /* the node's connection when it was asked; CONN_NONE: none */
    bool is_over;
    bool is_bad; /* its answer is invalid */
    int total, n;
    struct peer_rank *list; /* `n` of them; NULL before the first */
    int64_t told_at;
};

struct rankquery {
    struct cluster *cluster;
    const struct core *core;
    int nnodes;
    void (*on_over)(void *ctx); /* never called from inside these functions */
    void *ctx;
    uint32_t number;
    bool is_open, has_asked;
    struct rankquery_node *nodes; /* nnodes; kept until rankquery_forget() */
    int waits, ranks;
    int64_t until;
    struct watch clock;
};

/* Set cluster, core, nnodes, on_over and ctx first. */
void rankquery_open(struct rankquery *call, struct event_base *base);
void rankquery_free(struct rankquery *call);

/* Asks all connected nodes; on_over is called at the end. False: out of memory. */
MUST_CHECK bool rankquery_begin(struct rankquery *call);
/* A RANKS message has arrived. */
void rankquery_take(struct rankquery *call, int conn, const struct peermsg *msg);
/* Ends the query now, without on_over. */
void rankquery_end(struct rankquery *call);
/* The answer of this node; NULL: unknown, and *ret_why, of `size` bytes, says why. */
const struct rankquery_node *rankquery_told(const struct rankquery *call, int node_rank,
                                            char *ret_why, size_t size);
void rankquery_forget(struct rankquery *call);

/* On the node that is asked: answers a LOOK with all ranks of this node. */
void rankquery_answer(struct cluster *cluster, int conn, const struct peer_ranks *head,
                      const struct peer_rank *list);
