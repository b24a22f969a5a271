/* SPDX-License-Identifier: Apache-2.0
 *
 * journal: what happens to the job on this node, as lines of JSON: {ts, node, attempt, generation,
 * event, ...}, see pchctl(1).
 *
 * All of it comes from what the core does and says; nothing else writes here. The newest lines are
 * kept for pchctl; all go to a file, gathered for a moment, by a child of ours (os/statefile), so
 * that a dead disk never blocks us: what it does not take is dropped and counted. A file that
 * cannot be written is said once. Owns its memory: journal_free(). Main thread.
 */
#ifndef PCHRUN_RUN_JOURNAL_H
#define PCHRUN_RUN_JOURNAL_H

#include "base/buf.h"
#include "core/core.h"
#include "run/outfile.h"
#include "run/watch.h"

enum { JOURNAL_KEPT = 256 };

struct journal_line {
    char *text; /* with its newline */
    size_t len;
};

struct journal {
    const struct core_params *params;
    const struct core *core;
    struct journal_line lines[JOURNAL_KEPT]; /* a ring */
    unsigned first, count;
    bool is_dirty; /* what the core reports may have changed */
    struct {       /* of what it reported last */
        char state[16];
        uint32_t round;
        const char *phase;
        bool has_notice;
        char cause[512]; /* its text; "": none */
        int64_t deadline;
        char notice[128];
    } seen;
    bool is_ending;
    struct outfile out;
    struct buf pending;
    unsigned gathered, writing; /* lines: that wait; that are being written, or told of there */
    unsigned dropped;           /* that the file does not tell of yet */
    struct watch gather;
    void (*on_line)(void *ctx, const char *text, size_t len); /* NULL: nobody wants to know */
    void *ctx;
};

/* `path` NULL: no file is wanted. Set params, core, on_line and ctx after it, and before the
 * core's first event. May block. */
MUST_CHECK bool journal_init(struct journal *journal, const char *path, struct reap *reap,
                             struct err *err);
/* What has come by then is written from now on, too. */
MUST_CHECK bool journal_open(struct journal *journal, struct event_base *base, struct err *err);
void journal_free(struct journal *journal);

/* The core has done this. */
void journal_take(struct journal *journal, const struct action *action);
/* It is done with an event: what has changed in its report? */
void journal_settle(struct journal *journal);
/* The job has ended, and nothing follows. */
void journal_exit(struct journal *journal, enum outcome outcome, int code, const char *why);

/* The kept lines, from the oldest; NULL: no more. */
const struct journal_line *journal_line(const struct journal *journal, unsigned i);

#endif
