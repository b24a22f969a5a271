/* SPDX-License-Identifier: Apache-2.0
 *
 * helper: a forked child for one task that may block for ever, so that the supervisor never blocks.
 * It closes our descriptors: a stuck helper would hold our sockets and locks. reap collects it when
 * it ends. Main thread.
 */
#ifndef PCHRUN_OS_HELPER_H
#define PCHRUN_OS_HELPER_H

#include "os/reap.h"

struct helper;

struct helpers {
    struct reap *reap;
    struct helper *first;
    int running;
    void (*on_idle)(void *ctx); /* the last helper has ended; NULL: no callback */
    void *ctx;
};

/* Calls fn(arg) in a child. fn may allocate memory: our threads hold no lock of the C library
 * (procs/vigil.h). */
MUST_CHECK bool helper_start(struct helpers *helpers, void (*fn)(const void *arg), const void *arg,
                             struct err *err);
/* Makes an existing child a helper. If memory is short, nothing changes. */
void helper_take(struct helpers *helpers, pid_t pid);
/* Forgets running helpers; they end by themselves. on_idle is not called. */
void helpers_free(struct helpers *helpers);

/* For a forked child that may live long: closes all descriptors but `keep`, even the standard
 * streams, because their readers would wait for its end. Also leaves the working directory. */
void helper_detach(int keep);

#endif
