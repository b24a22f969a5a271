/* SPDX-License-Identifier: Apache-2.0
 *
 * saves: which rank saved which step at which path: the newest few steps, in memory and as JSON. A
 * path may be any bytes; if it is not UTF-8, it is written in hexadecimal. Owns its memory:
 * saves_free(). Main thread.
 */
#pragma once

#include "json/json.h"
#include "json/writer.h"

#include <stdint.h>

#define SAVES_STEPS 72 /* steps kept at once: those of the record, and those being saved */

struct saves_rank {
    int rank;
    char *path; /* NULL: the rank named no path */
};

struct saves_step {
    uint64_t step;
    int world; /* how many ranks the job had, 0: unknown */
    struct saves_rank *ranks;
    int nranks;
    bool is_held; /* the step may still be committed */
};

struct saves {
    struct saves_step steps[SAVES_STEPS]; /* oldest first */
    int n;
    int64_t attempt;    /* the attempt that wrote the file of these saves, 0: none */
    int64_t generation; /* of it; INT64_MAX: the file tells none */
    uint64_t committed; /* the last committed step; a restart needs this step and newer ones */
};

void saves_free(struct saves *saves);
/* `world`: how many ranks the job has, 0: unknown. False: out of memory. Replaces an older path. If
 * the list is full, drops the oldest step that is neither held nor committed. */
MUST_CHECK bool saves_add(struct saves *saves, uint64_t step, int world, int rank,
                          const char *path);
/* Keeps `step`, which is about to be offered for a commit, and `own`, which was offered before (0:
 * none). Releases all other steps. */
void saves_hold(struct saves *saves, uint64_t step, uint64_t own);
/* Drops the oldest of the steps up to the committed one, until `keep` of these remain. */
void saves_trim(struct saves *saves, int keep);
/* Drops the steps after `step`: an attempt that resumes at `step` saves them again. */
void saves_forget_newer(struct saves *saves, uint64_t step);
/* The newest step that a rank has saved; 0: none. It may not be committed. */
uint64_t saves_newest(const struct saves *saves);
/* The entry of this step; NULL: no rank has saved it. */
const struct saves_step *saves_find(const struct saves *saves, uint64_t step);
/* The path of this rank; NULL: none. *ret_known: the rank has saved the step. */
const char *saves_path(const struct saves_step *step, int rank, bool *ret_known);
/* The lowest rank of the job that is not known to have saved the step; -1: none is missing. */
int saves_missing(const struct saves_step *step);
/* The path that all ranks named; ranks without a path do not count. NULL: no rank named a path, or
 * the paths differ, so none holds the whole save. */
const char *saves_common_path(const struct saves_step *step);
/* The path of the lowest rank that named a path; NULL: no rank did. */
const char *saves_any_path(const struct saves_step *step);

/* The path as seen from `dir`, "." for `dir` itself. NULL: it lies elsewhere, or its text would be
 * read as another path. */
const char *saves_below(const char *dir, const char *path);
/* True if a rank named a path in `dir`; NULL: in none. */
bool saves_names_below(const struct saves_step *step, const char *dir);

/* The lowest number of ranks, counted from rank 0, whose paths are all paths of the save. 0: all
 * ranks named the same path, or none did. If a rank's path is not known, all ranks are needed. */
int saves_least_world(const struct saves_step *step);

/* Writes the list "saves" into the current object, without steps newer than both `newest` and the
 * committed step: ranks still save them. Paths below `dir` are written as seen from there, since
 * the directory may have another name at the next start. NULL: all paths are written in full. */
void saves_write(const struct saves *saves, const char *dir, struct writer *w, uint64_t newest);
/* Reads the list that saves_write() wrote, for the same directory. False: its form is wrong, or out
 * of memory. */
MUST_CHECK bool saves_read(struct saves *saves, const char *dir, const char *name,
                           const struct json *object, struct err *err);
