/* SPDX-License-Identifier: Apache-2.0
 *
 * procscratch: the names of the training processes' scratch directories.
 *
 *   pch-scratch-<node>-<random>-<epoch>-<process>
 *
 * If the job's records are not in the usual directory, a point and a hash of their directory follow
 * <node>. So two jobs that share only the checkpoints' directory do not remove each other's scratch
 * directories.
 *
 * A commit begins a new epoch, so new names differ from those under removal, however long that
 * takes. Each start has its own random number, so leftovers of earlier starts are recognized. Only
 * names: nothing here touches a file system. Owns nothing.
 */
#ifndef PCHRUN_PROCS_PROCSCRATCH_H
#define PCHRUN_PROCS_PROCSCRATCH_H

#include "base/err.h"
#include "procs/scratch.h"

#include <limits.h>
#include <stddef.h>

struct procscratch {
    char dir[PATH_MAX];        /* absolute */
    char node[40], start[64];  /* prefixes of this node and of this start */
    char epoch[80], entry[96]; /* prefix of this epoch; buffer for one name */
    unsigned epochs;
};

/* `dir` is made absolute, since a process may run in another working directory. `owner`: the
 * directory of the job's records, NULL: the usual one. */
MUST_CHECK bool procscratch_init(struct procscratch *scratch, const char *dir, const char *owner,
                                 int node_rank, struct err *err);
/* The path for a process with this number. False: it does not fit. */
bool procscratch_path(struct procscratch *scratch, unsigned process, char *ret, size_t size);

/* The directories to remove: of one process in this epoch; of the epoch that a commit ends; of
 * earlier starts. The strings live as long as the scratch; those of a process until the next
 * call. */
struct scratch_sweep procscratch_of_process(struct procscratch *scratch, unsigned process);
struct scratch_sweep procscratch_of_epoch(const struct procscratch *scratch);
struct scratch_sweep procscratch_of_earlier(const struct procscratch *scratch);
/* Call after the sweep of the current epoch has started. */
void procscratch_next_epoch(struct procscratch *scratch);

#endif
