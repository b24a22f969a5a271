/* SPDX-License-Identifier: Apache-2.0
 *
 * logs: keeps the output of the commands in files, and passes it on (logs.dir). It owns the pipes,
 * and the log process that reads them (tee/tee.h).
 *
 * Each generation has its own pipes, files and log process, which ends with it. A log process that
 * ends early is replaced; a stopped one is continued. A failure of the log process delays a command
 * only briefly. Without logs.dir all calls do nothing. Main thread.
 */
#pragma once

#include "logs/logsstate.h"

#include "json/writer.h"

enum { LOGS_ERROR_MAX = 8200 };

/* Steps and failures in the lines of a command, by watchdog.log and watchdog.log_failure. */
struct logs_found {
    bool has_step;
    uint64_t step;       /* of the newest line */
    const char *failure; /* the first such line; NULL: none; valid until the next generation */
};

/* Set the public fields first. False: the directory cannot hold files. */
MUST_CHECK bool logs_open(struct logs *logs, struct err *err);
void logs_free(struct logs *logs);

/* Begins a generation, and ends the log process of the previous generation. */
MUST_CHECK bool logs_begin(struct logs *logs, uint32_t attempt, uint32_t generation,
                           struct err *err);
/* The standard output and error for a command that is started now; without logs, *ret is unchanged.
 */
void logs_output(const struct logs *logs, int index, int ret[LOGS_STREAM__COUNT]);
/* The path of the files of PyTorch's flight recorder in this generation, up to the number of the
 * rank. NULL: there are no logs, or the path is too long. */
const char *logs_traces(const struct logs *logs, char *path, size_t size);
/* All commands are started: closes pchrun's ends of the pipes. */
void logs_begun(struct logs *logs);
/* The job has ended. The log process keeps what is left in the pipes, until `deadline` at the
 * latest. */
void logs_end(struct logs *logs, int64_t deadline);
bool logs_is_busy(const struct logs *logs);

/* When a command last printed something (CLOCK_MONOTONIC); 0: never, or unknown. */
int64_t logs_last_at(const struct logs *logs);
/* Reads the command's steps and failures. Waits up to `wait_ns` for output that is still in the
 * pipes. Waits less if other calls have just waited: many commands may end at once. */
struct logs_found logs_found(const struct logs *logs, int index, int64_t wait_ns);
/* The last lines of this command's standard error, with '\n' between them; "": none. They may hold
 * any byte but NUL. The configured number of lines; if `size` is LOGS_ERROR_MAX, all lines that are
 * kept. Waits for output that is still in the pipe as logs_found() does. Returns text. */
char *logs_error_lines(const struct logs *logs, int index, int64_t wait_ns, char *text,
                       size_t size);

/* Writes for the report: the directory, the number of lost bytes, and perhaps the lines. */
void logs_write(const struct logs *logs, bool with_lines, struct writer *w, const char *key);
