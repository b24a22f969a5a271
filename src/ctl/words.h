/* SPDX-License-Identifier: Apache-2.0
 *
 * words: the state of a job in words, from a supervisor's answer to CONTROL_STATUS. Pure; any
 * thread.
 */
#pragma once

#include "ctl/tally.h"
#include "json/json.h"

enum { WORDS_MAX = 400 };

/* "starting", "not attached", "training", "evaluating", "compiling", "saving", "finishing",
 * "restarting", "waiting" (for a replacement), "stopping", "ending", "ended", or of a job's files
 * "gone". */
const char *words_state(const struct json *answer, const struct tally *tally);
/* The same for a rank: "starting", "not attached", "training", "evaluating", "compiling", "saving",
 * "done" or "gone"; "": it is unknown. */
const char *words_rank(const struct json *rank);
/* The time until the next save without a notice; -1: none is due by time, or it is unknown. */
int64_t words_next_save(const struct json *answer);
/* One sentence, such as "training at step 48,210, 3.1 steps/s, last commit 4 min ago". Returns
 * text. */
char *words_say(const struct json *answer, const struct tally *tally, char text[WORDS_MAX]);
/* The spares, such as "2 stand by (h5, h6)" and "h4 takes the place of node 1"; "": the job has
 * none, or this is not node 0's answer. Returns text. */
char *words_spares(const struct json *answer, char text[WORDS_MAX]);
/* A sentence about the time after the notice, for people. */
const char *words_then(const struct json *answer, const struct tally *tally);
