/* SPDX-License-Identifier: Apache-2.0
 *
 * netcheck: this node's part in the measurement of the network (health.net): it takes what the
 * previous node sends, and sends to the next node, for at most 2 s or 64 MiB.
 *
 * It listens at the address at which the node takes part in the job, at a port of its own. A node
 * that reaches node 0 by loopback listens at the address at which the others reach node 0. A
 * connection must begin with a token that node 0 has told only the previous node; any other is
 * closed, and so is a second one. The bytes that arrive are dropped. Posts EV_MEASURED: once when
 * it listens, or cannot; once when the transfer to the next node is over. Everything ends within
 * seconds, even if node 0 says nothing more. Owns its sockets: netcheck_free(). Main thread.
 */
#pragma once

#include "loop/loop.h"
#include "loop/watch.h"
#include "wire/peermsg.h"

struct cluster;
struct dial;
struct listener;

struct netcheck {
    const struct cluster *cluster;
    struct loop *loop;
    /* private from here on */
    struct peer_link link;     /* as EV_MEASURED tells it */
    struct watch news;         /* posts EV_MEASURED */
    struct watch end;          /* closes what node 0 has not */
    struct listener *listener; /* NULL: none */
    int from;                  /* the connection of the previous node; -1: none */
    bool was_there;            /* there was one */
    struct watch arrives;      /* its bytes */
    struct peer_listen to;     /* the next node */
    struct dial *dial;         /* NULL: node 0 has not said that the transfers begin */
    int fd;                    /* of the connection to the next node; -1: none */
    struct watch ready;        /* it can take more, or the next node has read all */
    struct watch until;        /* the end of the transfer */
    int64_t began_at;
    uint64_t sent;
};

void netcheck_open(struct netcheck *check);
/* ACT_MEASURE. */
void netcheck_measure(struct netcheck *check, const struct peer_measure *measure);
/* Closes what is open; EV_MEASURED does not follow. */
void netcheck_stop(struct netcheck *check);
void netcheck_free(struct netcheck *check);
