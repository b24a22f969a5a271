/* SPDX-License-Identifier: Apache-2.0
 *
 * logs: what the commands print, kept in files and passed on (logs.dir): the pipes, and the process
 * that reads them (tee/tee.h).
 *
 * Each generation has its own pipes and files, and its own process, which ends with it; one that
 * ends before that is replaced, and one that is stopped is woken up. Nothing that it does, or fails
 * to do, stops a command for more than a moment. Without logs.dir all calls do nothing. Main
 * thread.
 */
#ifndef PCHRUN_RUN_LOGS_H
#define PCHRUN_RUN_LOGS_H

#include "os/dirlock.h"
#include "run/logs_run.h"
#include "json/writer.h"

struct logs {
    bool is_on;
    struct logs_world world;
    struct dirlock dir;   /* who has looked at it */
    struct logs_run *run; /* the newest generation's, then older ones that have not ended; NULL */
    void (*on_idle)(void *ctx); /* nothing is being kept any more */
    void *ctx;
};

/* False: there can be no files in that directory. Then world.closed is set. */
MUST_CHECK bool logs_init(struct logs *logs, const struct config *config,
                          const struct core_params *params, struct reap *reap, struct err *err);
void logs_open(struct logs *logs, struct event_base *base);
void logs_free(struct logs *logs);

/* A generation begins; what is left of the one before is ended. */
MUST_CHECK bool logs_begin(struct logs *logs, uint32_t attempt, uint32_t generation,
                           struct err *err);
/* What becomes standard output and error of a command that is started now; false: ours. */
bool logs_output(const struct logs *logs, int index, int ret[LOGS_STREAM__COUNT]);
/* All commands have been started: only they have those now. */
void logs_begun(struct logs *logs);
/* The job has ended. What was printed is still kept, until `deadline` at the latest. */
void logs_end(struct logs *logs, int64_t deadline);
bool logs_is_busy(const struct logs *logs);

/* When any of the commands printed something last (CLOCK_MONOTONIC); 0: never, or nobody knows. */
int64_t logs_last_at(const struct logs *logs);
/* The last lines that this command has written to its standard error, with '\n' between them: bytes
 * that may be anything but NUL; "" if there are none. What is still in the pipe is waited for, for
 * `wait_ns` at most. Returns text. */
char *logs_error_lines(const struct logs *logs, int index, int64_t wait_ns, char *text,
                       size_t size);

/* For the report: where it is, how much is missing, and, if asked for, the lines. */
void logs_write(const struct logs *logs, bool with_lines, struct writer *w, const char *key);

#endif
