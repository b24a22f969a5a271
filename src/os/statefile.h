/* SPDX-License-Identifier: Apache-2.0
 *
 * statefile: a small file that is replaced as a whole, and is on disk when we are told so; or one
 * of two other manners.
 *
 * A child of ours writes a temporary file in the same directory, syncs it, renames it over the old
 * one and syncs the directory, so that a crash at any instant leaves the old or the new content,
 * and a dead file system stops that child and never us. The first one removes temporary files that
 * killed writers of the same file have left. It is a helper in reap's list: its end is the end of
 * the write. A journal is added to instead, and a file that others have put in place, such as one
 * that is a mount by itself, is written over where it lies; both without a sync. The caller keeps
 * the deadline and ends a write that takes too long by statefile_give_up(). The writer dies with
 * us. A struct statefile owns its path and what waits to be written. Main thread.
 */
#ifndef PCHRUN_OS_STATEFILE_H
#define PCHRUN_OS_STATEFILE_H

#include "os/reap.h"

#include <stddef.h>
#include <stdint.h>

#define STATEFILE_MAX (16 * 1024 * 1024)

/* A write has ended: err NULL, `tag`'s content is on disk. `err` is borrowed for the call. */
typedef void statefile_fn(void *ctx, uint64_t tag, const struct err *err);
/* Called in the child when the new content is complete, and the old one is still in place. False:
 * the old one stays, and *err says why. */
typedef bool statefile_check_fn(void *ctx, struct err *err);

enum statefile_manner { STATEFILE_REPLACE, STATEFILE_ADD, STATEFILE_OVERWRITE };

struct statefile {
    char *path, *temp;
    enum statefile_manner manner;
    size_t max; /* with STATEFILE_ADD: one that has this size is renamed to "PATH.1" */
    struct reap *reap;
    statefile_fn *fn;
    statefile_check_fn *check, *look;
    void *ctx;
    struct reap_watch writer; /* pid 0: none runs */
    int errors;               /* where the writer says why it failed */
    uint64_t tag;             /* of the content being written */
    bool is_given_up;
    bool has_swept; /* temporary files that were left behind */
    void *next;     /* content that waits for the writer, NULL: none */
    size_t next_len;
    uint64_t next_tag;
};

/* Where a file that the user has named, by an absolute path, is to be replaced: what symbolic links
 * lead to, so that they stay. *ret is freed by the caller. False: something else than a regular
 * file is there, or nothing, and its directory is missing, too. May block. */
MUST_CHECK bool statefile_resolve(const char *path, char **ret, struct err *err);

/* `path` is absolute; its directory is made if only that is missing. */
MUST_CHECK bool statefile_init(struct statefile *file, const char *path, struct reap *reap,
                               struct err *err);
/* Who is told; ctx is the check's, too. */
void statefile_on_written(struct statefile *file, statefile_fn *fn, void *ctx);
void statefile_check(struct statefile *file, statefile_check_fn *check);
/* Each content is added to the end; whole lines of it, if the one before was cut. */
void statefile_add(struct statefile *file, size_t max);
/* The file is emptied and written, if it is there, and a regular one. */
void statefile_overwrite(struct statefile *file);
/* Forgets what waits. A writer that still runs is killed; fn is not called. */
void statefile_free(struct statefile *file);

/* Starts a write, or keeps the content until the one that runs has ended; of several that wait, the
 * last wins and the others are never reported. False: not even begun, and fn is not called. */
MUST_CHECK bool statefile_write(struct statefile *file, uint64_t tag, const void *data, size_t len,
                                struct err *err);
/* Calls look() in a child, as the write of `tag`. Does nothing while a write is under way. False:
 * no child could be started. */
MUST_CHECK bool statefile_look(struct statefile *file, uint64_t tag, statefile_check_fn *look,
                               struct err *err);
/* In a writer's child, of this file or of another one: */
bool statefile_is_missing(const struct statefile *file);
/* Writes a file that is missing. A file that is there by now stays. Its directory is not synced:
 * the write that calls this does so. */
MUST_CHECK bool statefile_put_back(const struct statefile *file, const void *data, size_t len,
                                   struct err *err);
/* At start, while there is no loop yet: waits until the write has ended, gives it up after
 * `wait_ns`; fn has been told when this returns. */
void statefile_wait(struct statefile *file, int64_t wait_ns);
bool statefile_is_busy(const struct statefile *file);
/* Its writer was given up, and has not ended. */
bool statefile_is_stuck(const struct statefile *file);
/* Kills the writer and tells fn at once. What waits is written when the writer has been reaped, and
 * one that sits in a dead file system may never be. */
void statefile_give_up(struct statefile *file);

#endif
