/* SPDX-License-Identifier: Apache-2.0
 *
 * saves: which rank saved which step where: the newest few steps, in memory and as JSON. A path is
 * any bytes; one that is not UTF-8 is written in hexadecimal. Owns its memory: saves_free(). Main
 * thread.
 */
#ifndef PCHRUN_RUN_SAVES_H
#define PCHRUN_RUN_SAVES_H

#include "json/json.h"
#include "json/writer.h"

#include <stdint.h>

#define SAVES_STEPS 72 /* steps that are kept at once: the records', and those being saved */

struct saves_rank {
    int rank;
    char *path; /* NULL: none was named */
};

struct saves_step {
    uint64_t step;
    int world; /* how many ranks the job had, 0: not known */
    struct saves_rank *ranks;
    int nranks;
    bool is_held; /* it may still be committed */
};

struct saves {
    struct saves_step steps[SAVES_STEPS]; /* oldest first */
    int n;
    int64_t attempt;    /* that wrote the file that they were read from, 0: none */
    uint64_t committed; /* the last step that was; a restart needs it and what comes after it */
};

void saves_free(struct saves *saves);
/* False: memory is short. A path that was there is replaced. The oldest step that is neither held
 * nor the committed one makes room for a new one. */
MUST_CHECK bool saves_add(struct saves *saves, uint64_t step, int rank, const char *path);
/* How many ranks the job has that saves this step. */
void saves_set_world(struct saves *saves, uint64_t step, int world);
/* The step is about to be offered for a commit, and `own` was before (0: none is). These two are
 * held from now on, and no others. */
void saves_hold(struct saves *saves, uint64_t step, uint64_t own);
/* Of the steps up to the committed one, forgets the oldest until `keep` are left. */
void saves_trim(struct saves *saves, int keep);
/* Forgets what is newer: an attempt that resumes at `step` will save it anew. */
void saves_forget_newer(struct saves *saves, uint64_t step);
/* NULL: nobody saved it. */
const struct saves_step *saves_find(const struct saves *saves, uint64_t step);
/* The path of this rank; NULL: none. *ret_known: it has saved the step at all. */
const char *saves_path(const struct saves_step *step, int rank, bool *ret_known);
/* The lowest rank below the world's size of which it is not said that it saved the step; -1: none
 * is missing. */
int saves_missing(const struct saves_step *step);
/* The one that all who named a path named; NULL: nobody did, or they differ, so that none of them
 * is the whole save. */
const char *saves_common_path(const struct saves_step *step);
/* The path of the lowest rank that named one. */
const char *saves_any_path(const struct saves_step *step);

/* As the list "saves" of the object that is being written, without the steps newer than `newest`
 * (and than the committed one) that are still being saved. */
void saves_write(const struct saves *saves, struct writer *w, uint64_t newest);
/* Adds what saves_write() wrote. False: it is not of that form, or memory is short. */
MUST_CHECK bool saves_read(struct saves *saves, const char *name, const struct json *object,
                           struct err *err);

#endif
