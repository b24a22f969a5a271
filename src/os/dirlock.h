/* SPDX-License-Identifier: Apache-2.0
 *
 * dirlock: before anything starts, checks that a directory exists, is writable, and is used by this
 * supervisor alone.
 *
 * A child does this, so a dead file system blocks the child and never the supervisor, neither at
 * the start nor when the lock is released. The child locks a file in the directory (flock(2)) until
 * dirlock_free() or the supervisor's end. If the file system supports no locks, the answer says so.
 * The child is a helper in reap's list. All waits have deadlines. Main thread.
 */
#pragma once

#include "os/helper.h"

#include <signal.h>
#include <stdint.h>

struct dirlock {
    struct helper holder; /* ends when our end of its socket closes */
};

struct dirlock_request {
    const char *parent;  /* made if its own parent exists; NULL: none */
    const char *dir;     /* the same */
    const char *file;    /* path of the file to lock, in `dir`; NULL: no lock */
    const char *owner;   /* written into the file, for others that wait for the lock */
    int64_t answer_ns;   /* how long the file system may take */
    int64_t wait_ns;     /* how long to wait for another holder of the lock */
    const sigset_t *end; /* these blocked signals end the wait and stay pending */
    /* Another holder has the lock, and the wait begins. `holder`: its `owner`, "" if unknown. */
    void (*on_held)(void *ctx, const char *holder);
    void *ctx;
};

enum dirlock_result {
    DIRLOCK_OK,
    DIRLOCK_NONE,   /* the directory is usable, but cannot be locked: *err says why */
    DIRLOCK_HELD,   /* another holder still has the lock; the text of *err is its `owner` */
    DIRLOCK_SIGNAL, /* a signal of `end` has come; *err is not set */
    DIRLOCK_FAILED, /* see *err */
};

MUST_CHECK enum dirlock_result dirlock_take(struct dirlock *lock,
                                            const struct dirlock_request *request,
                                            struct reap *reap, struct err *err);
/* Releases the lock. On return the holder has ended, or it hangs in a dead file system and was
 * killed. */
void dirlock_free(struct dirlock *lock);
