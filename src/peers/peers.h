/* SPDX-License-Identifier: Apache-2.0
 *
 * peers: the boundary between supervisors: connections, and whole messages on them.
 *
 * A member has one connection, to node 0 (PEERS_CHIEF). Node 0 numbers the connections that it
 * accepts from PEERS_FIRST on and reuses no number. Input from a peer is untrusted. A malformed
 * message, a message from the wrong side or a missing HELLO ends the connection. No peer can delay
 * the others, fill the memory or the descriptor table. A lost connection is not restored here: call
 * peers_connect() again. While nothing is due, no timer runs.
 *
 * Callbacks come from the loop only, never from inside a function of this module, and may call any
 * of them but peers_free(). on_down reports a failure once; after peers_close() it reports nothing.
 * Main thread. See pchrun-protocol(7).
 */
#pragma once

#include "base/address.h"
#include "net/netaddr.h"
#include "wire/peermsg.h"

#include <stdint.h>

#define PEERS_CHIEF 1 /* as in core/common/event.h, which this room must not include */
#define PEERS_FIRST 3

struct event_base;
struct peers;
struct tls;

struct peers_options {
    struct event_base *base;
    void *arg; /* for the callbacks */
    /* peers_connect() has succeeded. */
    void (*on_up)(void *arg, int conn);
    /* `from`: the address at the other end, for people. It and `msg` are valid only during the
     * call. */
    void (*on_message)(void *arg, int conn, const char *from, const struct peermsg *msg);
    /* The connection is closed, or could not be made. Not called for a connection without a HELLO.
     * `has_ended`: the other side's kernel closed it, or refused to connect, and no proxy lies
     * between. Without a BYE the supervisor there has died. */
    void (*on_down)(void *arg, int conn, const char *why, bool has_ended);
    /* A pchrun with another key, job or version was refused before its HELLO. May be NULL. */
    void (*on_strange)(void *arg, const char *why);
    /* How connections are encrypted; borrowed. NULL: they are not. */
    struct tls *tls;
    /* The kernel ends a connection when the peer acknowledges nothing for this long. 0: never. */
    int64_t silence_ns;
    /* 0 means the default. */
    int64_t connect_wait_ns; /* name look-up and connection (10 s) */
    /* Replaces connect_wait_ns once there was a connection; default: connect_wait_ns. Keep it
     * short: after a network failure a new attempt succeeds at once, but the kernel repeats an old
     * one only after a second. */
    int64_t reconnect_wait_ns;
    int64_t hello_wait_ns;   /* for the HELLO of an accepted connection (10 s) */
    int64_t close_wait_ns;   /* for the other side to read the last message (5 s) */
    int64_t accept_retry_ns; /* how long accepting pauses when no descriptor is free (1 s) */
    int64_t queue_max;       /* unsent bytes per peer (64 KiB) */
    /* Accepted connections without a HELLO, and closing ones. At the bound the oldest is evicted.
     * Must exceed the number of nodes, which may all connect at once (256). */
    int guests_max;
};

/* NULL: memory is short. */
struct peers *peers_new(const struct peers_options *options);
/* Closes everything at once; queued messages are lost. */
void peers_free(struct peers *peers);

/* Accepts connections at `where` from now on, at every address that its name has. A name is looked
 * up here, for at most connect_wait_ns. Call it once. */
MUST_CHECK bool peers_listen(struct peers *peers, const struct address *where, struct err *err);
/* The port in use, if peers_listen() was given 0. */
int peers_port(const struct peers *peers);
/* As listener_where(). */
bool peers_where(const struct peers *peers, char *text, size_t size);
/* The address of this machine at which another node of the job is connected, or has this node
 * connected; no loopback address if there is another. False: no node is connected. */
MUST_CHECK bool peers_here(const struct peers *peers, union netaddr *ret);
/* Starts a connection to node 0: on_up(PEERS_CHIEF) or on_down(PEERS_CHIEF) follows. An earlier
 * connection is closed as by peers_close(). */
void peers_connect(struct peers *peers, const struct address *where);
/* Sends, or queues. A broken connection is no error: its on_down follows. A full queue ends the
 * connection. */
void peers_send(struct peers *peers, int id, const struct peermsg *msg);
/* Sends the queue, gives the other side time to read it, then closes. The number is invalid at
 * once. */
void peers_close(struct peers *peers, int id);
/* Stops listening, and closes all connections as by peers_close(). */
void peers_finish(struct peers *peers);
/* True while connections close after peers_finish(): at most for close_wait_ns. */
bool peers_is_busy(const struct peers *peers);
