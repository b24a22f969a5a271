/* SPDX-License-Identifier: Apache-2.0
 *
 * dirlock: makes sure, before anything is started, that a directory is there, can be written to,
 * and is ours alone.
 *
 * A child of ours does it, so that a dead file system stops that child and never us: neither at the
 * start, nor at the end, where to let go of a lock is a word to a file server, too. The child takes
 * a lock (flock(2)) on a file in the directory and keeps it until we let go or are dead. Where the
 * file system knows no locks there is none; the answer says so. It is a helper in reap's list. The
 * waits have deadlines. Main thread.
 */
#ifndef PCHRUN_OS_DIRLOCK_H
#define PCHRUN_OS_DIRLOCK_H

#include "os/reap.h"

#include <signal.h>
#include <stdint.h>

struct dirlock {
    struct reap_watch holder; /* pid 0: there is none */
    struct reap *reap;
    int line; /* to the holder, which ends when it is closed; -1 */
};

struct dirlock_request {
    const char *parent;         /* made if only it is missing; NULL: none */
    const char *dir;            /* the same */
    const char *file;           /* path of the file to lock, in `dir`; NULL: no lock is wanted */
    int64_t answer_ns;          /* how long the file system may take */
    int64_t wait_ns;            /* how long somebody else may hold the lock */
    const sigset_t *end;        /* these, which are blocked, end the wait; they stay pending */
    void (*on_held)(void *ctx); /* somebody else holds it; it is waited for from now on */
    void *ctx;
};

enum dirlock_result {
    DIRLOCK_OK,
    DIRLOCK_NONE,   /* all is well, but no lock can be had there: *err says why */
    DIRLOCK_HELD,   /* somebody else still holds it; *err is not set */
    DIRLOCK_SIGNAL, /* one of `end` has come meanwhile; *err is not set */
    DIRLOCK_FAILED, /* see *err */
};

MUST_CHECK enum dirlock_result dirlock_take(struct dirlock *lock,
                                            const struct dirlock_request *request,
                                            struct reap *reap, struct err *err);
/* Lets go. When it returns the holder has ended, or sits in a dead file system and was killed. */
void dirlock_free(struct dirlock *lock);

#endif
