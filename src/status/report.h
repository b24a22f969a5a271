/* SPDX-License-Identifier: Apache-2.0
 *
 * report: the file with the state of the job, replaced at each change of state, so that the
 * outcome can be read after pchrun has ended. Changes during a write go into one later write. A
 * report that cannot be written is logged once, and never stops the job. Main thread.
 */
#pragma once

#include "commands/hook.h"
#include "core/core.h"
#include "health/health.h"
#include "logs/logs.h"
#include "loop/outfile.h"
#include "notices/inbox.h"
#include "record/record.h"

struct attach;
struct evidence;
struct journal;

struct report {
    const struct core *core;
    const struct core_params *params;
    const struct attach *attach;     /* knows the ranks */
    const struct record *record;     /* knows the path of the commit */
    const struct inbox *inbox;       /* knows the sources */
    const struct hook *hook;         /* knows how the hook ended */
    const struct health *health;     /* knows the last health check */
    const struct logs *logs;         /* has the last lines that the commands printed */
    const struct evidence *evidence; /* knows the file of a hang */
    const struct journal *journal;   /* knows the last failure, also of an earlier generation */
    bool is_of_attempts; /* the user named no file, so it is the report of the job's attempts */
    struct outfile out;  /* the owner touches and flushes this file */
    int64_t since;       /* CLOCK_REALTIME, when it was opened */
    int exit_code;       /* the final exit code; -1: not final, the core has the code so far */
};

/* Set the fields above `out` first. `path` NULL: no report. False: the path cannot hold a report;
 * whether it can be written shows later. May block. */
MUST_CHECK bool report_open(struct report *report, const char *path, struct reap *reap,
                            struct event_base *base, struct err *err);
void report_free(struct report *report);
/* The is_ours of each outfile of the node, in the child that writes; ctx: the report. False: the
 * report is that of a later generation or attempt, since another pchrun has replaced this one. */
MUST_CHECK bool report_is_ours(void *ctx, struct err *err);

/* The exit code is known, and the core gets no more events. */
static inline bool report_is_over(const struct report *report)
{
    return report->exit_code >= 0;
}
/* The state of the job, as the core has it. But a commit may reach the disk after the core has
 * decided the end, and the next attempt resumes there. */
void report_read(const struct report *report, struct core_report *ret);
/* "the next start resumes at step 84 of /ckpt/84"; "": no start is to follow, or this is not node
 * 0. Returns text. */
char *report_say_next(const struct report *report, char *text, size_t size);
/* Writes the contents of the file, as an object. */
void report_write(const struct report *report, struct writer *w, const char *key);

/* The file that Kubernetes makes and shows in the pod's status. Outside of Kubernetes it may belong
 * to any program, so pchrun does not write it there. */
#define REPORT_TERMINATION_LOG "/dev/termination-log"

/* Writes pchrun's last line, when none of its processes run any more. A child overwrites the file
 * in place, and pchrun waits two seconds at most. A failure is logged at debug level only. `path`:
 * the value of termination_log; NULL: writes nothing. */
void report_last_line(const char *path, const char *text);
