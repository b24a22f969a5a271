/* SPDX-License-Identifier: Apache-2.0
 *
 * resolve: names to addresses, without ever holding up the caller.
 *
 * getaddrinfo() may block for minutes and cannot be interrupted, so it runs in a helper thread that
 * blocks all signals and shares nothing with us but its request. A thread, not a forked child: a
 * child would turn up where the job's processes are counted and reaped, and could not be waited
 * for with a deadline if the resolver sits in a dead file system; a thread that is given up just
 * ends with the process. Not libevent's resolver: it knows DNS and /etc/hosts, but not the other
 * sources of nsswitch.conf that cluster machines use. A request that is given up keeps its thread
 * until the resolver returns; RESOLVE_THREADS_MAX bounds how many there can be.
 *
 * Main thread.
 */
#ifndef PCHRUN_LINK_RESOLVE_H
#define PCHRUN_LINK_RESOLVE_H

#include "link/netaddr.h"

#include <stdint.h>

#define RESOLVE_THREADS_MAX 16

struct resolve;

/* Starts to look `where` up. NULL: no thread can be had. The caller ends it with resolve_take() or
 * resolve_drop(). */
MUST_CHECK struct resolve *resolve_start(const struct address *where, struct err *err);
/* Readable when the answer is there. */
int resolve_fd(const struct resolve *resolve);
/* The answer, once resolve_fd() is readable. Ends the request. */
MUST_CHECK bool resolve_take(struct resolve *resolve, struct netaddr_list *ret, struct err *err);
/* Gives the request up. */
void resolve_drop(struct resolve *resolve);

/* Looks `where` up and waits for it, at most wait_ns. A numeric address takes no time. */
MUST_CHECK bool resolve_wait(const struct address *where, int64_t wait_ns, struct netaddr_list *ret,
                             struct err *err);

#endif
