/* SPDX-License-Identifier: Apache-2.0
 *
 * procscratch: the names of the training processes' scratch directories.
 *
 *   pch-scratch-<node>-<random>-<epoch>-<process>
 *
 * Where the job keeps its records elsewhere than by default, <node> is followed by a point and a
 * number that stands for that place: so two jobs that have only the checkpoints' directory in
 * common, and of which neither waits for the other, do not take each other's for left behind.
 *
 * A commit begins a new epoch, so that what is handed out after it has another name than what is
 * being removed, however long that takes; a start has a random number of its own, so that what
 * earlier starts of the node left can be told from it. Only names: nothing here touches a file
 * system. Owns nothing.
 */
#ifndef PCHRUN_LINK_PROCSCRATCH_H
#define PCHRUN_LINK_PROCSCRATCH_H

#include "base/err.h"
#include "link/scratch.h"

#include <limits.h>
#include <stddef.h>

struct procscratch {
    char dir[PATH_MAX];        /* absolute */
    char node[40], start[64];  /* what names of this node, and of this start, begin with */
    char epoch[80], entry[96]; /* what those of this epoch begin with; room for one name */
    unsigned epochs;
};

/* `dir` is made absolute, since a process may run in another working directory. `owner`: the
 * directory of the job's records, NULL: the usual one. */
MUST_CHECK bool procscratch_init(struct procscratch *scratch, const char *dir, const char *owner,
                                 int node_rank, struct err *err);
/* The path for a process with this number. False: it does not fit. */
bool procscratch_path(struct procscratch *scratch, unsigned process, char *ret, size_t size);

/* What to remove: of one process, in this epoch; of the epoch that a commit ends; of earlier
 * starts. The strings live as long as the scratch, but those of a process until the next call. */
struct scratch_sweep procscratch_of_process(struct procscratch *scratch, unsigned process);
struct scratch_sweep procscratch_of_epoch(const struct procscratch *scratch);
struct scratch_sweep procscratch_of_earlier(const struct procscratch *scratch);
/* After the last of these has been swept. */
void procscratch_next_epoch(struct procscratch *scratch);

#endif
