/* SPDX-License-Identifier: Apache-2.0
 *
 * verdict: the names and the exit codes of the outcomes. Pure functions.
 */
#pragma once

#include "core/common/params.h"

#include <stddef.h>

/* pchrun's own exit codes. The user may choose others in 0..124. */
enum {
    EXIT_OWN_ERROR = 125,
    EXIT_NOT_EXECUTABLE = 126,
    EXIT_NOT_FOUND = 127,
    EXIT_BY_SIGNAL = 128
};

/* "completed", "preempted", "preempted_unsaved"…: as in the report. */
const char *verdict_name(enum outcome outcome);
/* The exit code of an outcome. `code`: the code of the failed process, of pchrun's own error, or of
 * a completed job: 0, unless processes were killed. */
int verdict_code(const struct exit_codes *codes, enum outcome outcome, int code);
/* The code that the chief ordered; EXIT_OWN_ERROR if it cannot belong to the outcome. */
int verdict_of_order(enum outcome outcome, int code);
/* From a status of wait(2): the exit code, 128 + n for a signal, else 125. */
int verdict_of_status(int status);
/* From such a status: the signal that ended the process, or n if it exited with 128 + n, as a shell
 * does; 0: none. */
int verdict_signal_of(int status);
/* The job ended because of a notice, saved or not. */
bool verdict_is_preempted(enum outcome outcome);
/* The scheduler starts the job again after this outcome, so a job without progress would run for
 * ever. False if its progress is unknown. */
bool verdict_is_restart(enum outcome outcome);
/* The training is not over, and the job may be started again: by the scheduler, or by a person who
 * has seen why it failed. */
bool verdict_may_resume(enum outcome outcome);
/* The job ended without a commit for this end, and without a failed process. If a later attempt has
 * taken it over, or a user has stopped it, that still becomes the outcome. */
bool verdict_gives_way(enum outcome outcome);
