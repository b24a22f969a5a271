/* SPDX-License-Identifier: Apache-2.0
 *
 * journal: what happens to the job on this node, as lines of JSON: {ts, node, attempt, generation,
 * event, ...}, see pchctl(1).
 *
 * All lines come from the core's actions and reports. The newest lines are kept for pchctl. All
 * lines go to a file (loop/linefile). Owns its memory: journal_free(). Main thread.
 */
#pragma once

#include "base/buf.h"
#include "core/core.h"
#include "loop/linefile.h"
#include "status/counts.h"

enum { JOURNAL_KEPT = 256 };

struct journal {
    const struct core_params *params;
    const struct core *core;
    void (*on_line)(void *ctx, const char *text, size_t len); /* NULL: not needed */
    void *ctx;
    struct counts counts;         /* of what the core has reported */
    struct buf kept;              /* the newest lines, oldest first: at most JOURNAL_KEPT */
    struct peer_cause last_cause; /* the last first failure, of any generation */
    /* private from here on */
    unsigned count;          /* of the kept lines */
    bool is_dirty;           /* the core's report may have changed */
    struct core_report seen; /* the report that the lines already contain */
    struct linefile file;
};

/* Set the public fields first. `path` NULL: no file. Call before the core's first event. May block.
 */
MUST_CHECK bool journal_open(struct journal *journal, const char *path, struct reap *reap,
                             struct event_base *base, struct err *err);
void journal_free(struct journal *journal);

/* Call for each action of the core. */
void journal_take(struct journal *journal, const struct action *action);
/* Call after each event of the core: adds what has changed in its report. */
void journal_settle(struct journal *journal);
/* The job has ended: adds the last line. */
void journal_exit(struct journal *journal, enum outcome outcome, int code, const char *why);
