/* SPDX-License-Identifier: Apache-2.0
 *
 * listener: the sockets that peers or processes connect to.
 *
 * Listens on every address of a list, or on a given socket. Accepts a few connections per wake-up.
 * When descriptors or memory run out, it waits a moment instead of spinning. Owns its sockets:
 * listener_free(). Main thread.
 */
#pragma once

#include "net/netaddr.h"

#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

struct event_base;
struct listener;

/* A new connection. The callee owns the descriptor (non-blocking, close-on-exec). */
typedef void listener_accept_fn(void *arg, int fd, const union netaddr *peer);
/* Descriptors or memory have run out. True: the callee has freed some. */
typedef bool listener_short_fn(void *arg);

struct listener_options {
    struct event_base *base;
    const char *topic; /* of log lines */
    int64_t retry_ns;  /* how long to wait when accept() finds no descriptor */
    listener_accept_fn *on_accept;
    listener_short_fn *on_short; /* NULL: nothing can be freed */
    bool waits_for_bytes;        /* a connection is accepted when its first bytes are there */
    void *arg;
};

/* Binds all addresses of `where` that this machine has; at least one. NULL: the error says which
 * address failed and why, and which process holds a port that is in use. */
MUST_CHECK struct listener *listener_new(const struct listener_options *options,
                                         const struct netaddr_list *where, struct err *err);
/* Takes a listening socket of any kind; on_accept's `peer` is then meaningless. NULL: memory is
 * short, and the socket is closed. */
MUST_CHECK struct listener *listener_adopt(const struct listener_options *options, int fd);
/* Makes a Unix socket that listens at `addr`, with mode 0600, non-blocking and close-on-exec. -1:
 * see *err. */
MUST_CHECK int listener_make_unix(const struct sockaddr_un *addr, int type, struct err *err);
/* Fills in the process that has connected to a Unix socket. False: the process belongs to another
 * user, or is unknown. Root is allowed: no mode of the socket's directory keeps root out. */
MUST_CHECK bool listener_is_welcome(int fd, struct ucred *ret);
void listener_free(struct listener *listener);
/* The port of the first socket. */
int listener_port(const struct listener *listener);
/* Writes the addresses: "10.0.0.1:14242, [fd00::1]:14242". True: all of them are loopback. */
bool listener_where(const struct listener *listener, char *text, size_t size);
