/* SPDX-License-Identifier: Apache-2.0
 *
 * cluster: the other nodes of the job. Turns the reports of peers.h into events of the core. The
 * core's actions use peers.h directly.
 *
 * Posts EV_CHIEF_UP, EV_PEER_DOWN, EV_PEER_STRANGE and EV_PEER_MESSAGE. With one node it only
 * raises the limit on descriptors. Owns its memory and its sockets: cluster_free(). Main thread.
 */
#pragma once

#include "base/clock.h"
#include "config/config.h"
#include "loop/loop.h"
#include "peers/nodenames.h"
#include "peers/peers.h"

/* The longest time that a node's connection may stay closed. */
#define CLUSTER_RECONNECT_NS (2 * NS_PER_S)

/* Where node 0 listens. */
struct cluster_place {
    char text[256];   /* its addresses; "": this is another node */
    char hidden[384]; /* why nodes on other machines cannot reach them; "": they can */
};

/* The advice for it. */
#define CLUSTER_HIDDEN_ADVICE                                                                  \
    "correct that name in /etc/hosts on this machine, or set cluster.bind to an address that " \
    "the other nodes reach (0.0.0.0: to all)"

struct cluster {
    struct loop *loop;
    struct peers *peers;        /* for ACT_CONNECT, ACT_SEND, ACT_CLOSE; NULL: one node */
    struct tls *tls;            /* NULL: no key */
    struct address chief;       /* where the other nodes find node 0 */
    struct cluster_place place; /* on node 0 */
    struct nodenames names;     /* on node 0: being looked up */
    int64_t join_timeout_ns;
    int64_t began_at;  /* CLOCK_NEVER: node 0 has welcomed this node */
    bool has_said_why; /* a reason was logged since the last welcome */
    /* Set by the owner of the struct. Called for LOOK and RANKS messages: they serve pchctl, and
     * the core does not know them. */
    void (*on_ranks)(void *ctx, int conn, const struct peermsg *msg);
    void *ranks_ctx;
    /* The same. Node 0 answers this node's HELLO that another supervisor has its place. NULL: this
     * is a spare, and its machine gets the message. */
    void (*on_standby)(void *ctx);
    void *standby_ctx;
};

/* How many supervisors the job has, with its spares. */
static inline int cluster_supervisors(const struct config *config)
{
    return config->cluster.nnodes + config->cluster.spares;
}
/* The descriptors that pchrun needs: for its ranks, for the pipes of its commands, on node 0 one
 * for each supervisor, and some for all else. A rank has a socket and a page, and a pipe until it
 * runs. A command has two pipes (logs.dir). After a restart in place, the pipes before it are still
 * read. */
enum { CLUSTER_DESCRIPTORS_KEPT = 128, CLUSTER_OF_RANK = 3, CLUSTER_OF_OUTPUT = 6 };
static inline int64_t cluster_descriptors(const struct config *config)
{
    bool is_chief = config->cluster.node_rank == 0;
    int64_t commands = config->procs.count, ranks = config->procs.per_node;
    return CLUSTER_DESCRIPTORS_KEPT + (is_chief ? cluster_supervisors(config) : 0) +
           CLUSTER_OF_RANK * (ranks > commands ? ranks : commands) +
           (config->logs.dir ? CLUSTER_OF_OUTPUT * commands : 0);
}

/* A check before the job starts. Node 0: can it listen at its address, and use the key? Any other
 * node: does node 0 accept a connection? Leaves nothing open. False: *err; a sys_errno of
 * ECONNREFUSED means that the machine answers. */
MUST_CHECK bool cluster_reach(const struct config *config, int64_t wait_ns,
                              struct cluster_place *ret, struct err *err);

/* Finds where node 0 is, and where it listens, and takes the key. */
MUST_CHECK bool cluster_prepare(struct cluster *cluster, const struct config *config,
                                struct address *ret_bind, struct err *err);
/* True if the other nodes are on this machine, too, as far as the name of one of them tells: of
 * node 0, or, on node 0, of another node. Call with several nodes. May wait for a name server. */
MUST_CHECK bool cluster_is_here(const struct config *config);

/* Call before EV_START, with the loop open. Node 0 listens from here on. Raises this process's
 * limit to cluster_descriptors(). */
MUST_CHECK bool cluster_open(struct cluster *cluster, const struct config *config,
                             struct loop *loop, struct err *err);
void cluster_free(struct cluster *cluster);

/* ACT_EXIT: sends the queued messages and closes; posts nothing more. */
void cluster_finish(struct cluster *cluster);
/* True while cluster_finish() still sends: for at most a second. */
bool cluster_is_busy(const struct cluster *cluster);
