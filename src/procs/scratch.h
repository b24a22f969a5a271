/* SPDX-License-Identifier: Apache-2.0
 *
 * scratch: the training processes' scratch directories, which they use between a save and its
 * commit: their names, and their removal.
 *
 *   pch-scratch-<node>-<random>-<epoch>-<process>
 *
 * If the job's records are not in the usual directory, a dot and a hash of their directory follow
 * <node>. So two jobs that share only the checkpoints' directory do not remove each other's scratch
 * directories.
 *
 * A commit begins a new epoch, so new names differ from those under removal, however long that
 * takes. Each start has its own random number, so leftovers of earlier starts are recognized. Owns
 * nothing. Only scratch_sweep() touches a file system.
 */
#pragma once

#include "base/err.h"

#include <limits.h>
#include <stddef.h>

struct scratch {
    char dir[PATH_MAX];        /* absolute */
    char node[40], start[64];  /* prefixes of this node and of this start */
    char epoch[80], entry[96]; /* prefix of this epoch; buffer for one name */
    unsigned epochs;
};

/* `dir` is made absolute, since a process may run in another working directory. `owner`: the
 * directory of the job's records, NULL: the usual one. */
MUST_CHECK bool scratch_init(struct scratch *scratch, const char *dir, const char *owner,
                             int node_rank, struct err *err);
/* The path for a process with this number. False: it does not fit. */
bool scratch_path(struct scratch *scratch, unsigned process, char *ret, size_t size);

/* The entry `name` of `dir`. If name is NULL: all entries that begin with `prefix` but not with
 * `except` (NULL: no exception). The strings are borrowed. */
struct scratch_sweep {
    const char *dir, *name, *prefix, *except;
};

/* Each returns directories to remove: those of one process in this epoch, those of the epoch that a
 * commit ends, and those of earlier starts. The strings live as long as the struct scratch. The
 * strings for one process live only until the next call. */
struct scratch_sweep scratch_of_process(struct scratch *scratch, unsigned process);
struct scratch_sweep scratch_of_epoch(const struct scratch *scratch);
struct scratch_sweep scratch_of_earlier(const struct scratch *scratch);
/* Call after the sweep of the current epoch has started. */
void scratch_next_epoch(struct scratch *scratch);

/* Removes these directories. They may be on a file server that does not answer. So this may block:
 * call it in a forked child, never in the loop. It follows no symbolic link and does not enter
 * other mounted file systems. Entries that cannot be removed stay. */
void scratch_sweep(const struct scratch_sweep *what);
