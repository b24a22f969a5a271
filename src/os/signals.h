/* SPDX-License-Identifier: Apache-2.0
 *
 * signals: inherited dispositions, the signals that we take, and how a child gets the inherited
 * state back: one table.
 *
 * Owns the process's dispositions and its mask from signals_begin() on. A signalfd reads the
 * signals, so no handler runs in a child between fork and exec, and each signal comes with its
 * sender. Main thread, before any other thread is started; signals_restore() in the child after
 * fork. See signalfd(2), signal(7).
 */
#pragma once

#include "base/err.h"
#include "base/policy.h"

#include <sys/types.h>

/* Call first in main. Saves mask and changed dispositions, blocks the signals that we take, ignores
 * SIGPIPE, and sets SIGCHLD to default, because wait(2) needs it. SIGHUP, SIGINT and SIGQUIT stay
 * ignored if they were. Cannot fail. */
void signals_begin(void);
/* A new descriptor of the signals taken: non-blocking, close-on-exec, the caller's. -1: *err. */
MUST_CHECK int signals_open(struct err *err);

struct signals_info {
    int number;
    enum signal_from from;
    pid_t sender; /* 0: the kernel, a process outside our PID namespace, or it was kept */
};
/* Reads the next signal. False: none. Call before reaping: the process tree tells whether the
 * sender belongs to the job. */
MUST_CHECK bool signals_read(int fd, struct signals_info *ret);

/* Keeps a signal that the reader of the descriptor does not want any more: it is pending again when
 * the descriptor is closed. So nothing is lost when a spare becomes a node, or a node a spare. */
void signals_keep(int number);
void signals_close(int *fd);

/* Call in the child, last before exec: restores the inherited dispositions, then the mask. Our own
 * programs get SIGCHLD, since they wait for children, and an empty mask. Async-signal-safe. */
void signals_restore(bool is_own);

/* Ends this process by the signal, without a core dump. Returns if it cannot: as PID 1, or for a
 * signal that does not kill. */
void signals_die_of(int number);
