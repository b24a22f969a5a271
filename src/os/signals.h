/* SPDX-License-Identifier: Apache-2.0
 *
 * signals: what we inherited, what we take, and how a child gets back what we inherited: one table.
 *
 * Owns the process's dispositions and its mask from signals_begin() on. Signals are taken by a
 * signalfd, so nothing of ours runs in a child between fork and exec, and each one comes with its
 * sender. Main thread, before any other thread is started; signals_restore() in the child after
 * fork. See signalfd(2), signal(7).
 */
#ifndef PCHRUN_OS_SIGNALS_H
#define PCHRUN_OS_SIGNALS_H

#include "base/err.h"

#include <sys/types.h>

/* First thing in main: saves the mask and what it changes, blocks what we take, ignores what would
 * kill us for a write, and puts SIGCHLD to default, without which no child could be waited for.
 * SIGHUP, SIGINT and SIGQUIT stay ignored if they were. Cannot fail. */
void signals_begin(void);
/* For a program that is to take our place: dispositions as inherited; but what we take stays
 * blocked, so that what comes between the two stays pending. The text tells of the mask that we
 * inherited, for signals_inherit() there, after signals_begin(). */
#define SIGNALS_MASK_TEXT 17
void signals_hand_over(char text[SIGNALS_MASK_TEXT]);
/* False: it is no such text, and nothing is changed. */
MUST_CHECK bool signals_inherit(const char *text);
/* A new descriptor of the signals taken: non-blocking, close-on-exec, the caller's. -1: *err. */
MUST_CHECK int signals_open(struct err *err);

enum signals_from {
    SIGNALS_FROM_OUTSIDE,
    SIGNALS_FROM_TERMINAL, /* a key or a change of size: sent to our whole group by the kernel */
    SIGNALS_FROM_JOB,      /* a process below us */
};
struct signals_info {
    int number;
    enum signals_from from;
    pid_t sender; /* 0: the kernel, or a process outside our PID namespace */
};
/* The next one that has come; false: none. The job is told by its tree: call this before the dead
 * are reaped. */
MUST_CHECK bool signals_read(int fd, struct signals_info *ret);

/* In the child, last before exec: dispositions as inherited, then the mask. Async-signal-safe. */
void signals_restore(void);
/* SIGCHLD to default, for a program of ours: it waits for its children, whatever was inherited.
 * Async-signal-safe. */
void signals_tell_of_children(void);

/* Ends this process by the signal, without a core dump. Returns if that cannot be: PID 1, or a
 * signal that does not kill. */
void signals_die_of(int number);

#endif
