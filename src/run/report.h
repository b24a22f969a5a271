/* SPDX-License-Identifier: Apache-2.0
 *
 * report: the file that says how the job stands, replaced at each change of state, so that the
 * verdict outlives us. Changes that come while it is being written are put into one later write. A
 * report that cannot be written is said once, and never stops the job. Main thread.
 */
#ifndef PCHRUN_RUN_REPORT_H
#define PCHRUN_RUN_REPORT_H

#include "core/core.h"
#include "run/hook.h"
#include "run/logs.h"
#include "run/noticein.h"
#include "run/outfile.h"
#include "run/record.h"

struct evidence;

struct report {
    bool is_dirty;
    int exit_code; /* that is exited with, whatever the core says; -1: what it says */
    const struct core *core;
    const struct core_params *params;
    const struct record *record;     /* where the commit's checkpoint is; set after report_init() */
    const struct noticein *noticein; /* the same */
    const struct hook *hook;         /* how it went with it; the same */
    const struct logs *logs;         /* what the commands print; the same */
    const struct evidence *evidence; /* where that of a hang is; the same */
    struct outfile out;
};

/* `path` NULL: no report is wanted. `params` must live as long. False: there cannot be one at that
 * path; whether it can be written shows later. May block. */
MUST_CHECK bool report_init(struct report *report, const char *path,
                            const struct core_params *params, struct reap *reap, struct err *err);
MUST_CHECK bool report_open(struct report *report, const struct core *core, struct event_base *base,
                            struct err *err);
void report_free(struct report *report);

/* What is in the file, as an object. */
void report_write(const struct report *report, struct writer *w, const char *key);

/* We exit with this code. */
void report_exit(struct report *report, int code);
/* Something in it has changed; report_flush() writes it. */
void report_touch(struct report *report);
void report_flush(struct report *report);

#endif
