/* SPDX-License-Identifier: Apache-2.0
 *
 * helper: a forked child of ours that does one thing which may block for ever, so that we never do.
 * It keeps nothing of ours open: a stuck one would hold our sockets and locks. Nobody waits for it;
 * reap takes it in when it ends. Main thread.
 */
#ifndef PCHRUN_OS_HELPER_H
#define PCHRUN_OS_HELPER_H

#include "os/reap.h"

struct helper;

struct helpers {
    struct reap *reap;
    struct helper *first;
    int running;
    void (*on_idle)(void *ctx); /* the last one has ended; NULL: nobody wants to know */
    void *ctx;
};

/* Calls fn(arg) in a child, where it may allocate: no thread of ours that lives on holds a lock of
 * the C library (link/vigil.h). */
MUST_CHECK bool helper_start(struct helpers *helpers, void (*fn)(const void *arg), const void *arg,
                             struct err *err);
/* Takes in a child of ours that is there already. Where memory is short it stays what it was. */
void helper_take(struct helpers *helpers, pid_t pid);
/* Forgets those that still run; they come to their end by themselves. on_idle is not called. */
void helpers_free(struct helpers *helpers);

/* In a forked child that may live long: closes all that it got from us but `keep`, the standard
 * streams included, whose readers would wait for its end; and lets go of the working directory. */
void helper_detach(int keep);

#endif
