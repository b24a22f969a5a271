/* SPDX-License-Identifier: Apache-2.0
 *
 * statefile: writes a small file. It replaces and syncs the whole file, or appends to a journal.
 *
 * A child writes a temporary file in the same directory, syncs it, renames it over the old one and
 * syncs the directory. So a crash at any moment leaves the old or the new content. A dead file
 * system blocks the child, never the supervisor. The first write removes temporary files of killed
 * writers. The child is a helper in reap's list, and its end is the end of the write. A journal is
 * appended to, and not synced. The caller has a deadline, and calls statefile_give_up() for a late
 * write. The writer dies with the supervisor. A struct statefile owns its path and the waiting
 * content. Main thread.
 *
 * A file that the job depends on has a standby writer: one child, started early, sleeps between its
 * tasks. So a write needs no new process, and works when the limit on processes is reached. The
 * child has our memory as of its start; pack() and unpack() bring it up to date.
 */
#pragma once

#include "os/helper.h"

#include <stddef.h>
#include <stdint.h>

struct statefile;

#define STATEFILE_MAX      (16 * 1024 * 1024)
#define STATEFILE_PACK_MAX (17 * 1024 * 1024)

/* A write has ended. err NULL: the content of `tag` is on disk. `err` is valid during the call. */
typedef void statefile_fn(void *ctx, uint64_t tag, const struct err *err);
/* Called in the child before the new content replaces the old one, or is appended to it. False: the
 * old one stays, and *err says why. True with a text in *err: the text is logged. */
typedef bool statefile_check_fn(void *ctx, struct err *err);

struct statefile_standby {
    /* Before each task: stores in `room` what check() and look() need, and returns the length. */
    size_t (*pack)(void *ctx, void *room, size_t size);
    /* In the child, before the task: brings its copy of ctx up to date. */
    void (*unpack)(void *ctx, const void *packed, size_t len);
    /* From now on, statefile_take() is to be called when `answer` can be read; -1: no longer. */
    bool (*watch)(struct statefile *file, int answer, struct err *err);
};

struct statefile {
    bool is_journal;           /* appends each content, and begins a new line after a cut one */
    size_t max;                /* of a journal: at this size the file is renamed to "PATH.1" */
    statefile_fn *fn;          /* NULL: not needed */
    statefile_check_fn *check; /* NULL: not needed */
    const struct statefile_standby *standby; /* NULL: each task has a writer of its own */
    void *ctx;
    /* private from here on */
    char *path, *temp;
    struct helper writer;
    struct statefile_room *room; /* shared with the standby writer */
    uint64_t tag;                /* of the content being written */
    bool is_busy, is_given_up;
    bool has_answered; /* the standby writer, at least once */
    bool has_swept;    /* leftover temporary files */
    void *next;        /* content that waits for the writer, NULL: none */
    size_t next_len;
    uint64_t next_tag;
};

/* Follows the symbolic links of a user's absolute path, so that a write replaces the target and
 * keeps the links. The caller frees *ret. False: not a regular file, or its directory is missing.
 * May block. */
MUST_CHECK bool statefile_resolve(const char *path, char **ret, struct err *err);

/* Set the public fields first; the rest must be zero. `path` is absolute; its directory is made
 * if the one above exists. */
MUST_CHECK bool statefile_init(struct statefile *file, const char *path, struct reap *reap,
                               struct err *err);
/* Starts the standby writer now. Else the first task starts it. */
MUST_CHECK bool statefile_begin(struct statefile *file, struct err *err);
/* Reads the answer of the standby writer, if there is one, and calls fn. False: do not watch the
 * answers of this writer any more. It ends. */
bool statefile_take(struct statefile *file);
/* Drops waiting content and kills a running writer; fn is not called. *file may be zeroed. */
void statefile_free(struct statefile *file);

/* Starts a write, or keeps the content until the running one has ended. Newer waiting content
 * replaces older, which is never reported. False: not begun; fn is not called. */
MUST_CHECK bool statefile_write(struct statefile *file, uint64_t tag, const void *data, size_t len,
                                struct err *err);
/* Calls look() in a child; fn reports the result with `tag`. Call when no write is under way.
 * False: no child could be started. */
MUST_CHECK bool statefile_look(struct statefile *file, uint64_t tag, statefile_check_fn *look,
                               struct err *err);
/* Call in the child of a writer, of this or of another file. */
bool statefile_is_missing(const struct statefile *file);
/* Writes a file that is missing. An existing file stays. Does not sync the directory: the calling
 * write does. */
MUST_CHECK bool statefile_put_back(const struct statefile *file, const void *data, size_t len,
                                   struct err *err);
/* At start, before the loop runs: waits for the end of the write, and gives up after `wait_ns`. fn
 * is called before it returns. */
void statefile_wait(struct statefile *file, int64_t wait_ns);
/* True while a writer runs. */
bool statefile_is_busy(const struct statefile *file);
/* True while a write is under way that was not given up. */
bool statefile_is_awaited(const struct statefile *file);
/* Kills the writer and calls fn at once. Waiting content is written after the writer is reaped,
 * which in a dead file system may be never. */
void statefile_give_up(struct statefile *file);
