/* SPDX-License-Identifier: Apache-2.0
 *
 * rollcall: node 0 asks the other nodes how their ranks are, because somebody asks it; and how a
 * node answers that.
 *
 * Nothing of it is sent while nobody asks, and nothing is decided by it. The nodes are asked some
 * at a time, each is bounded in what it can tell, and after some seconds those that have not told
 * all of it are done without. What they tell is untrusted. Owns its memory: rollcall_free(). Main
 * thread.
 */
#ifndef PCHRUN_RUN_ROLLCALL_H
#define PCHRUN_RUN_ROLLCALL_H

#include "core/core.h"
#include "run/cluster.h"
#include "run/watch.h"

struct rollcall_node {
    int conn; /* it was asked there; CONN_NONE: it could not be */
    bool is_over;
    bool is_bad; /* what it told cannot be */
    int total, n;
    struct peer_rank *list; /* `n` of them; NULL before the first */
    int64_t told_at;
};

struct rollcall {
    struct cluster *cluster;
    const struct core *core;
    int nnodes;
    void (*on_over)(void *ctx); /* not called inside of any of these functions */
    void *ctx;
    uint32_t number;
    bool is_open;
    struct rollcall_node *nodes; /* nnodes; kept until rollcall_forget() */
    int asked, waits, ranks;
    int64_t until;
    struct watch clock;
};

/* Set cluster, core, nnodes, on_over and ctx before. */
MUST_CHECK bool rollcall_open(struct rollcall *call, struct event_base *base, struct err *err);
void rollcall_free(struct rollcall *call);

/* Asks all nodes that are connected; on_over tells when that is over. False: memory is short. */
MUST_CHECK bool rollcall_begin(struct rollcall *call);
/* A RANKS has come. */
void rollcall_take(struct rollcall *call, int conn, const struct peermsg *msg);
/* It is over now, without on_over. */
void rollcall_end(struct rollcall *call);
/* What was told; NULL: of this node it is not known. Then *ret_why, of `size` bytes, says why. */
const struct rollcall_node *rollcall_told(const struct rollcall *call, int node_rank, char *ret_why,
                                          size_t size);
void rollcall_forget(struct rollcall *call);

/* The other side: all ranks of this node, in answer to a LOOK. */
void rollcall_answer(struct cluster *cluster, int conn, const struct peer_ranks *head,
                     const struct peer_rank *list);

#endif
