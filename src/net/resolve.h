/* SPDX-License-Identifier: Apache-2.0
 *
 * resolve: names to addresses, without blocking the caller.
 *
 * getaddrinfo() may block for minutes and cannot be interrupted. So it runs in a helper thread that
 * blocks all signals and shares only its request. Not in a forked child: the child would be counted
 * among the job's processes, and a resolver stuck in a dead file system could not be reaped in
 * time. A stuck thread ends with the process. Not libevent's resolver: it knows DNS and /etc/hosts,
 * but not the other sources of nsswitch.conf that clusters use. A look-up that is given up keeps
 * its thread until the resolver returns; RESOLVE_THREADS_MAX bounds these threads.
 *
 * Main thread.
 */
#pragma once

#include "net/netaddr.h"

#include <stdint.h>

#define RESOLVE_THREADS_MAX 16

/* Starts to look `where` up. Returns a descriptor, readable once the answer is there: call
 * resolve_take(), or close it to give up. -1: no thread can be started. */
MUST_CHECK int resolve_start(const struct address *where, struct err *err);
/* Takes the answer from the readable descriptor, and closes it. */
MUST_CHECK bool resolve_take(int *fd, struct netaddr_list *ret, struct err *err);

/* Looks `where` up and waits for it, at most wait_ns. A numeric address takes no time. */
MUST_CHECK bool resolve_wait(const struct address *where, int64_t wait_ns, struct netaddr_list *ret,
                             struct err *err);
