/* SPDX-License-Identifier: Apache-2.0
 *
 * outfile: a file about the job that the job does not depend on: the report, the metrics, the
 * journal, the remembered notices. A child writes it (os/statefile), one write at a time, each with
 * a deadline. A file that cannot be written is logged once. The user of an outfile composes its
 * contents, or keeps them. Owns its memory: outfile_free(). Main thread.
 */
#pragma once

#include "loop/watch.h"
#include "os/statefile.h"

struct outfile {
    const char *topic; /* the topic of its log lines */
    const char *what;  /* "report"; NULL: the path is pchrun's own, and its folder may be missing */
    const char *option;
    const char *loss; /* what a failed write means for the job; NULL: nothing */
    bool has_complained;
    struct statefile file; /* its path is NULL: no file is wanted */
    struct watch deadline;
    /* A function that composes the contents and calls outfile_write(). NULL: the user calls it
     * directly. */
    void (*write)(void *ctx);
    /* Called in the child before each write. False: *err says which pchrun the file belongs to now.
     * NULL: not needed. */
    statefile_check_fn *is_ours;
    void *owner; /* the ctx of is_ours */
    /* A write has ended; the next may begin. NULL: not needed. */
    void (*on_written)(void *ctx, bool is_ok);
    void *ctx;
    bool is_dirty; /* see outfile_touch() */
};

/* Set the texts, the functions and ctx first. `path` NULL: no file, and all other calls do nothing.
 * May block. */
MUST_CHECK bool outfile_open(struct outfile *out, const char *path, struct reap *reap,
                             struct event_base *base, struct err *err);
void outfile_free(struct outfile *out);

/* Call when no write is under way. `text` NULL: the contents could not be composed. False: in that
 * case, or if the write failed at once. The failure is logged, and on_written is not called. */
bool outfile_write(struct outfile *out, const void *text, size_t len);
/* The contents have changed; outfile_flush() writes them, at the latest when the write that is
 * under way has ended. */
void outfile_touch(struct outfile *out);
void outfile_flush(struct outfile *out);
/* True while a write is under way that has not timed out. */
bool outfile_is_busy(const struct outfile *out);
