/* SPDX-License-Identifier: Apache-2.0
 *
 * peers: the boundary between supervisors: connections, and whole messages on them.
 *
 * A member has one connection, to the chief (PEERS_CHIEF); the chief has those that it accepts,
 * numbered from PEERS_FIRST on, no number twice. What a peer sends is untrusted: what is malformed,
 * comes from the wrong side or does not begin with HELLO ends its connection, and no peer can hold
 * up the others, fill the memory or the descriptor table. Connections are not kept up here: who
 * wants one back calls peers_connect() again. Nothing is retried and no timer runs while there is
 * nothing to wait for.
 *
 * Callbacks come from the loop only, never from inside a function of this module, and may call any
 * of them but peers_free(). A failure of a connection is told once, by on_down; after peers_close()
 * nothing more is told of it. Main thread. See pchrun-protocol(7).
 */
#ifndef PCHRUN_LINK_PEERS_H
#define PCHRUN_LINK_PEERS_H

#include "base/err.h"
#include "link/netaddr.h"
#include "wire/peermsg.h"

#include <stdint.h>

#define PEERS_CHIEF 1 /* the same numbers as in core/event.h, which is not for this room */
#define PEERS_FIRST 3

struct event_base;
struct peers;
struct tls;

struct peers_options {
    struct event_base *base;
    void *arg; /* for the callbacks */
    /* A connection made by peers_connect() is there. */
    void (*on_up)(void *arg, int conn);
    /* `msg` lives as long as the call. */
    void (*on_message)(void *arg, int conn, const struct peermsg *msg);
    /* It is closed, or could not be made. Not told of one whose first message was not a HELLO.
     * `has_ended`: the kernel of the other end has closed it, or nobody listens any more where the
     * chief was, and nothing lies between that could have done so: without a BYE the supervisor
     * has died. */
    void (*on_down)(void *arg, int conn, const char *why, bool has_ended);
    /* A pchrun has come that has another key, another job or another version, and was sent away
     * before its HELLO. May be NULL. */
    void (*on_strange)(void *arg, const char *why);
    /* peers_finish() is done. May be NULL. */
    void (*on_finished)(void *arg);
    /* How connections are encrypted; borrowed. NULL: they are not. */
    struct tls *tls;
    /* A peer that acknowledges nothing for so long is given up by the kernel. 0: never. */
    int64_t silence_ns;
    /* 0 in any of these stands for the default. */
    int64_t connect_wait_ns; /* name look-up and connection (10 s) */
    /* The same where the chief was reached before (connect_wait_ns). A network that is back answers
     * the next attempt at once; the kernel would repeat the one under way only after a second. */
    int64_t reconnect_wait_ns;
    int64_t hello_wait_ns;   /* for the HELLO of an accepted connection (10 s) */
    int64_t close_wait_ns;   /* for the other side to take what was sent last (5 s) */
    int64_t accept_retry_ns; /* after running out of descriptors (1 s) */
    size_t queue_max;        /* bytes that wait for one peer (64 KiB) */
    /* Accepted connections that have said no HELLO yet, or are being closed; with one more, the
     * oldest is put out. Above the number of nodes, so that none is that comes with all the others
     * (256). */
    int guests_max;
};

/* NULL: memory is short. */
struct peers *peers_new(const struct peers_options *options);
/* Ends all at once; what is still queued is lost. */
void peers_free(struct peers *peers);

/* Accepts connections at `where` from now on, at every address that its name has. A name is looked
 * up here, for at most connect_wait_ns. Once. */
MUST_CHECK bool peers_listen(struct peers *peers, const struct address *where, struct err *err);
/* The port that peers_listen() got, where it was given 0. */
int peers_port(const struct peers *peers);
/* Starts a connection to the chief: on_up(PEERS_CHIEF) or on_down(PEERS_CHIEF). One that is there
 * already is closed as by peers_close(). */
void peers_connect(struct peers *peers, const struct address *where);
/* Sends, or queues. A connection that is not there any more is no error: its on_down is on its way.
 * One whose queue is full is given up. */
void peers_send(struct peers *peers, int id, const struct peermsg *msg);
/* The address at the other end, for people; NULL: there is no such connection. It lives as long as
 * that. */
const char *peers_name(const struct peers *peers, int id);
/* Closes when what was sent is out, and the other side has had the time to read it. The number is
 * free at once. */
void peers_close(struct peers *peers, int id);
/* Stops listening, closes all connections as by peers_close(), and says on_finished when the last
 * one is closed, after close_wait_ns at the latest. */
void peers_finish(struct peers *peers);

#endif
