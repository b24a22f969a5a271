/* SPDX-License-Identifier: Apache-2.0
 *
 * resolve: names to addresses, without blocking the caller.
 *
 * getaddrinfo() may block for minutes and cannot be interrupted. So it runs in a helper thread that
 * blocks all signals and shares only its request. Not in a forked child: the child would be counted
 * among the job's processes, and a resolver stuck in a dead file system could not be reaped in
 * time. A stuck thread ends with the process. Not libevent's resolver: it knows DNS and /etc/hosts,
 * but not the other sources of nsswitch.conf that clusters use. A dropped request keeps its thread
 * until the resolver returns; RESOLVE_THREADS_MAX bounds these threads.
 *
 * Main thread.
 */
#pragma once

#include "net/netaddr.h"

#include <stdint.h>

#define RESOLVE_THREADS_MAX 16

struct resolve;

/* Starts to look `where` up. NULL: no thread can be started. End it with resolve_take() or
 * resolve_drop(). */
MUST_CHECK struct resolve *resolve_start(const struct address *where, struct err *err);
/* Readable once the answer is there. */
int resolve_fd(const struct resolve *resolve);
/* The answer, once resolve_fd() is readable. Ends the request. */
MUST_CHECK bool resolve_take(struct resolve *resolve, struct netaddr_list *ret, struct err *err);
/* Gives the request up. */
void resolve_drop(struct resolve *resolve);

/* Looks `where` up and waits for it, at most wait_ns. A numeric address takes no time. */
MUST_CHECK bool resolve_wait(const struct address *where, int64_t wait_ns, struct netaddr_list *ret,
                             struct err *err);
