/* SPDX-License-Identifier: Apache-2.0
 *
 * linefile: a file to which lines are added: the journal, the ledger. A child writes it
 * (loop/outfile), some lines at a time, so that a dead disk never blocks pchrun. Lines that cannot
 * be written are dropped and counted, and a later line tells their number. A file that cannot be
 * written is logged once. Owns its memory: linefile_free(). Main thread.
 */
#pragma once

#include "base/buf.h"
#include "loop/outfile.h"
#include "loop/watch.h"

struct linefile {
    struct outfile out; /* set its texts, `file.max` (0: no limit) and `ctx`, which note() gets */
    /* Writes the line, with its newline, that `count` lines were dropped. */
    void (*note)(void *ctx, unsigned count, char *text, size_t size);
    /* private from here on */
    struct buf pending;
    unsigned gathered,
        writing;      /* lines that wait; lines being written, or named there as dropped */
    unsigned dropped; /* lines that the file does not yet name as dropped */
    struct watch gather;
    void *ctx;
};

/* Set the public fields first. `path` NULL: no file, and all other calls do nothing. May block. */
MUST_CHECK bool linefile_open(struct linefile *file, const char *path, struct reap *reap,
                              struct event_base *base, struct err *err);
void linefile_free(struct linefile *file);
/* Adds a line, with its newline. It is written a moment later, with others. */
void linefile_add(struct linefile *file, const char *text, size_t len);
/* Writes what waits now, or when the write that is under way has ended. */
void linefile_flush(struct linefile *file);
/* True while a write is under way that has not timed out. */
bool linefile_is_busy(const struct linefile *file);
