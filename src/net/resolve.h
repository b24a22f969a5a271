/* SPDX-License-Identifier: Apache-2.0
 *
 * resolve: names to addresses, without blocking the caller.
 *
 * getaddrinfo() may block for minutes and cannot be interrupted. So it runs in a helper thread that
 * blocks all signals and shares only its request. A forked child would be counted among the job's
 * processes, and could not be reaped in time if it hung in a dead file system. A thread that hangs
 * ends with the process. libevent's resolver is not used: it knows DNS and /etc/hosts, but not the
 * other sources of nsswitch.conf that clusters use. An abandoned look-up keeps its thread until
 * getaddrinfo() returns; RESOLVE_THREADS_MAX bounds these threads.
 *
 * Main thread.
 */
#pragma once

#include "net/netaddr.h"

#include <stdint.h>

#define RESOLVE_THREADS_MAX 16

/* Starts to look `where` up. Returns a descriptor, which becomes readable when the answer comes:
 * then call resolve_take(). Close it to abandon the look-up. -1: no thread can be started. */
MUST_CHECK int resolve_start(const struct address *where, struct err *err);
/* Takes the answer from the readable descriptor, and closes it. */
MUST_CHECK bool resolve_take(int *fd, struct netaddr_list *ret, struct err *err);

/* Looks `where` up and waits for it, at most wait_ns. A numeric address takes no time. */
MUST_CHECK bool resolve_wait(const struct address *where, int64_t wait_ns, struct netaddr_list *ret,
                             struct err *err);
