/* SPDX-License-Identifier: Apache-2.0
 *
 * conn: one connection between supervisors: a stream, its two queues, and the frames on it.
 *
 * Only peers.c uses this: it owns the connections and frees them. A broken connection calls
 * on_broken later, from the loop, because callers further up may still use it. Main thread.
 */
#pragma once

#include "base/buf.h"
#include "net/netaddr.h"
#include "net/stream.h"
#include "wire/peermsg.h"

#include <event2/event_struct.h>
#include <sys/queue.h>

struct tls;
struct conn;

enum conn_state {
    CONN_HANDSHAKE,
    CONN_OPEN,
    CONN_CLOSING, /* closed by us; sends the queue, ignores what it reads, and waits for the other
                   * side to close. Closing with unread bytes resets the connection, and the other
                   * side could lose our last message */
    CONN_BROKEN,  /* to be freed */
};

/* Shared by all connections of one owner. */
struct conn_rules {
    struct event_base *base;
    struct tls *tls; /* NULL: connections are not encrypted */
    size_t queue_max;
    int64_t handshake_wait_ns, hello_wait_ns, close_wait_ns;
    void (*on_up)(struct conn *conn); /* a connection that we made is ready */
    void (*on_message)(struct conn *conn, const struct peermsg *msg);
    void (*on_broken)(struct conn *conn); /* once, from the loop; also after conn_close() */
};

struct conn {
    const struct conn_rules *rules;
    enum conn_state state;
    bool is_ours;     /* we made it: the other side is the chief */
    bool is_stranger; /* accepted, and no HELLO yet */
    bool is_strange;  /* a pchrun with another key, job or version */
    struct stream stream;
    struct event readable, writable, deadline;
    struct buf in, out;
    char name[NETADDR_TEXT_MAX];
    char why[256]; /* why the connection ends; "": it does not end */
    /* is_direct: no proxy and no NAT lies between, so only the other side's kernel can close it.
     * has_ended: that kernel has closed it, so no process there holds it open. */
    bool is_direct, has_ended;
    /* the owner's */
    LIST_ENTRY(conn) link;
    int id;
    void *owner;
    bool is_forgotten; /* its end is not reported */
    int64_t since;     /* made or, later, forgotten */
};

LIST_HEAD(conn_chain, conn);

/* Takes the descriptor of a connected socket; `peer` is its address. Call conn_start() next. NULL:
 * memory is short, and the descriptor is closed. */
MUST_CHECK struct conn *conn_new(const struct conn_rules *rules, int fd, const union netaddr *peer,
                                 bool is_ours);
/* From this call on, callbacks may come: on_up and on_broken even from inside it. */
void conn_start(struct conn *conn);
void conn_free(struct conn *conn);
/* Sends, or queues; does nothing unless the connection is open. */
void conn_send(struct conn *conn, const struct peermsg *msg);
/* Sends what is queued, waits for the other side to close, then breaks. Breaks at once if the other
 * side can receive nothing. */
void conn_close(struct conn *conn);
/* Breaks at once, for that reason. */
void conn_fail(struct conn *conn, const char *fmt, ...) PRINTF_LIKE(2, 3);
