/* SPDX-License-Identifier: Apache-2.0
 *
 * tally: counts the ranks of a supervisor's answer to CONTROL_STATUS, and reads its times. All
 * members of an answer may be missing. Pure; any thread.
 */
#pragma once

#include "wire/page.h"
#include "json/json.h"

#include <stdint.h>

struct tally {
    int ranks, attached, done; /* a rank that is done is not counted as attached */
    int starting;              /* its process runs, and it has not attached so far */
    int come;                  /* ranks that are at the step of the current round, or above it */
    int saved;                 /* ranks that have saved it */
    int in_phase[PAGE_PHASES];
    int64_t top;     /* the highest finished step; 0: none */
    int at_top;      /* ranks that have finished it */
    double pace;     /* steps per second, the mean of the ranks; 0: unknown */
    double youngest; /* seconds since the last step of any attached rank; -1: unknown */
};
void tally_take(const struct json *answer, struct tally *ret);

/* False: the rank has no phase that is known. */
bool tally_phase(const struct json *rank, enum page_phase *ret);
/* The finished steps of a rank, at least 0. */
int64_t tally_step(const struct json *rank);
/* The node is in the job, and has no connection. False, too, if the answer does not tell, as that
 * of a job's files. */
bool tally_is_cut(const struct json *node);
/* Why the ranks of this node are unknown; "": they are known, or it has no connection, which its
 * row in the table says. */
const char *tally_why_unknown(const struct json *node);
/* The round is decided: every rank saves its step. */
bool tally_is_saving(const struct json *answer);
/* The time from one moment of the supervisor's clock to another, such as "report.commit.at" and
 * "now"; below 0 if it is later; INT64_MIN: one is missing. */
int64_t tally_between(const struct json *answer, const char *from, const char *to);
/* The same from the `since` of an item in the answer until "now". */
int64_t tally_since(const struct json *answer, const struct json *item);
/* The vacant places that report.waits_for.nodes does not list. */
int tally_more_vacant(const struct json *answer);
/* A time in milliseconds, such as "report.save_every_ms", in nanoseconds; 0: there is none, or none
 * that is possible. */
int64_t tally_time(const struct json *answer, const char *path);
/* The job has ended, or is gone: nothing in the answer goes on. */
bool tally_is_over(const struct json *answer);
/* The host of a node; "": unknown. Valid as long as the answer. */
const char *tally_host(const struct json *answer, int64_t node);
/* "48,210". Returns text. */
enum { TALLY_NUMBER_SIZE = 32 };
char *tally_number(int64_t number, char text[TALLY_NUMBER_SIZE]);
