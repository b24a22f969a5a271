/* SPDX-License-Identifier: Apache-2.0
 *
 * markfile: writes the ledger of the job, on node 0, in its state directory: one line
 * (goodput/mark) for each mark of the core, and one each minute. A later start goes on with the
 * same file, so it has all attempts. The lines go the way of the journal's (loop/linefile): a disk
 * that hangs blocks nothing, and delays no decision.
 *
 * On a single node nothing else tells the core of a first step soon. So the steps are read until
 * there is one, less and less often. Owns its memory: markfile_free(). Main thread.
 */
#pragma once

#include "goodput/mark.h"
#include "loop/linefile.h"
#include "procs/attach.h"

struct markfile {
    const struct core_params *params;
    struct attach *attach;
    int64_t job_start_ms; /* when the scheduler started the job, by the wall clock; 0: unknown */
    /* private from here on */
    struct linefile file;
    struct watch timer;
    bool has_begun;      /* the run has a mark */
    bool has_attached;   /* a rank, in this generation */
    enum mark_kind kind; /* the last mark that begins a span */
    uint32_t generation;
    int64_t began_at; /* the generation */
    int64_t tick_at;
};

/* Set the public fields first. `dir`: the state directory; NULL: there is no ledger, and all other
 * calls do nothing. May block. */
MUST_CHECK bool markfile_open(struct markfile *marks, const char *dir, struct reap *reap,
                              struct event_base *base, struct err *err);
void markfile_free(struct markfile *marks);
/* Call for each action of the core. */
void markfile_take(struct markfile *marks, const struct action *action);
