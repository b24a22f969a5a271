/* SPDX-License-Identifier: Apache-2.0
 *
 * outfile: a file that tells of the job, and that the job does not depend on: the report, the
 * metrics, the journal, the notices that are remembered. One write at a time, by a child of ours
 * (os/statefile), and each has a time, after which it is given up; a file that cannot be written is
 * said once. What is to be written next its user keeps. Owns its memory: outfile_free(). Main
 * thread.
 */
#ifndef PCHRUN_RUN_OUTFILE_H
#define PCHRUN_RUN_OUTFILE_H

#include "os/statefile.h"
#include "run/watch.h"

/* Of most of them. */
#define OUTFILE_NO_LOSS "the job does not depend on it"

struct outfile {
    const char *topic; /* of what is said of it */
    const char *what;  /* "report"; NULL: the path is our own, and its folder may still be made */
    const char *option;
    const char *loss; /* of a file that cannot be written: what follows from it */
    bool is_wanted, has_complained;
    struct statefile file;
    struct watch deadline;
    /* A write has ended; the next may begin. NULL: nobody wants to know. */
    void (*on_written)(void *ctx, bool is_ok);
    void *ctx;
    void (*on_idle)(void *idle_ctx);
    void *idle_ctx;
};

/* Set the texts before it, on_written and ctx, too. `path` NULL: none is
 * wanted, and all else does nothing. May block. */
MUST_CHECK bool outfile_init(struct outfile *out, const char *path, struct reap *reap,
                             struct err *err);
/* Who is told when outfile_is_busy() has become false. */
void outfile_on_idle(struct outfile *out, void (*on_idle)(void *ctx), void *ctx);
MUST_CHECK bool outfile_open(struct outfile *out, struct event_base *base, struct err *err);
void outfile_free(struct outfile *out);

/* Is it wanted and open, and is nothing being written? */
bool outfile_is_free(const struct outfile *out);
/* When it is free. `text` NULL: it could not be composed. False: that, or it failed at once; it was
 * said, and on_written is not called. */
bool outfile_write(struct outfile *out, const void *text, size_t len);
/* Is there a write that will still end, or be given up? */
bool outfile_is_busy(const struct outfile *out);

#endif
