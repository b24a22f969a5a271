/* SPDX-License-Identifier: Apache-2.0
 *
 * cluster: the other nodes of the job: the core's connections and messages, over link/peers.
 *
 * Posts EV_CHIEF_UP, EV_PEER_DOWN, EV_PEER_STRANGE and EV_PEER_MESSAGE. On one node it does nothing
 * and has nothing; the static pchrun has src/alone.c in its place, which must know every function
 * of this file. Owns its memory and its sockets: cluster_free(). Main thread.
 */
#ifndef PCHRUN_RUN_CLUSTER_H
#define PCHRUN_RUN_CLUSTER_H

#include "base/address.h"
#include "config/config.h"
#include "run/loop.h"

struct peers;
struct tls;

struct cluster {
    struct loop *loop;
    struct peers *peers;  /* NULL: one node */
    struct tls *tls;      /* NULL: without a key */
    struct address chief; /* where members find node 0 */
    bool was_up;
    int64_t down_since; /* a member has no connection; CLOCK_NEVER: it has one */
    bool has_said_why;  /* since then */
    bool is_busy;       /* the last words are still on their way */
    void (*on_idle)(void *ctx);
    void *ctx;
    void (*on_ranks)(void *ctx, int conn, const struct peermsg *msg);
    void *ranks_ctx;
};

/* Sets `config->cluster.node_rank` where nobody gave it: the one entry of cluster.nodes that is
 * local. Names are looked up for some seconds at most. False: none is, or several are. */
MUST_CHECK bool cluster_settle_rank(struct config *config, struct err *err);

/* Descriptors that a pchrun needs: node 0 one for each node, and some for all else. */
enum { CLUSTER_DESCRIPTORS_KEPT = 128 };
static inline int64_t cluster_descriptors(const struct config *config)
{
    return CLUSTER_DESCRIPTORS_KEPT + (config->cluster.node_rank == 0 ? config->cluster.nnodes : 0);
}

/* For who asks before the job is started. Node 0: its address can be listened at, and the key be
 * used; any other: node 0's accepts a connection. Leaves nothing open. False: *err, in which a
 * sys_errno of ECONNREFUSED means that the machine is there. */
MUST_CHECK bool cluster_reach(const struct config *config, int64_t wait_ns, struct err *err);

/* Where something that only one node 0 can have is another's: if a node 0 runs at the address of
 * this job's, it is told, so that both of them say so. Takes a second at most. */
void cluster_claim(const struct config *config);

/* Before EV_START, with the loop open. Node 0 listens from here on. */
MUST_CHECK bool cluster_open(struct cluster *cluster, const struct config *config,
                             struct loop *loop, struct err *err);
/* Called when cluster_is_busy() has become false. */
void cluster_on_idle(struct cluster *cluster, void (*on_idle)(void *ctx), void *ctx);
/* Called with what the nodes ask and tell each other for people: LOOK and RANKS, of which the core
 * knows nothing. */
void cluster_on_ranks(struct cluster *cluster,
                      void (*on_ranks)(void *ctx, int conn, const struct peermsg *msg), void *ctx);
void cluster_free(struct cluster *cluster);

/* ACT_CONNECT, ACT_SEND, ACT_CLOSE. */
void cluster_connect(struct cluster *cluster);
void cluster_send(struct cluster *cluster, const struct action *action);
void cluster_close(struct cluster *cluster, const struct action *action);
/* LOOK or RANKS. */
void cluster_tell(struct cluster *cluster, int conn, const struct peermsg *msg);
/* ACT_EXIT: sends what is queued and closes; nothing more is posted. */
void cluster_finish(struct cluster *cluster);
/* Has it been told to finish, and is not done yet? It ends by itself within a second. */
bool cluster_is_busy(const struct cluster *cluster);

#endif
