/* SPDX-License-Identifier: Apache-2.0
 *
 * verdict: what an end is called, and the exit code that goes with it. Pure functions.
 */
#ifndef PCHRUN_CORE_VERDICT_H
#define PCHRUN_CORE_VERDICT_H

#include "core/params.h"

#include <stddef.h>

/* Our own exit codes; none of ours lies in 0..124 but by the user's wish. */
enum {
    EXIT_OWN_ERROR = 125,
    EXIT_NOT_EXECUTABLE = 126,
    EXIT_NOT_FOUND = 127,
    EXIT_BY_SIGNAL = 128
};

/* "completed", "preempted", "preempted_unsaved"…: as in the report. */
const char *verdict_name(enum outcome outcome);
/* The code of an outcome; `code` is that of the process for OUTCOME_FAILED, or of our own error. */
int verdict_code(const struct exit_codes *codes, enum outcome outcome, int code);
/* The code that the chief gave with an outcome; our own error where the two cannot go together. */
int verdict_of_order(enum outcome outcome, int code);
/* From a status of wait(2): the exit code, 128 + n for a signal, 125 for what is neither. */
int verdict_of_status(int status);
/* "exit code 7" or "signal 11 (Segmentation fault, core dumped)". */
char *verdict_text_of_status(int status, char *text, size_t size);
/* Did the job end because of a notice, saved or not? */
bool verdict_is_preempted(enum outcome outcome);
/* Would the scheduler start the job again after it, so that a job without progress would go round
 * for ever? (Not where we cannot know of its progress.) */
bool verdict_is_restart(enum outcome outcome);
/* Did the job end with nothing committed for it, and through nobody's failure? Then the word that a
 * later attempt has taken it over, or that it is to stop, still counts. */
bool verdict_gives_way(enum outcome outcome);

#endif
