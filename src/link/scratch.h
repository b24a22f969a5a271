/* SPDX-License-Identifier: Apache-2.0
 *
 * scratch: removes directories that training processes made for the time between a save and its
 * commit.
 *
 * Such a directory lies beside the checkpoints, maybe on a file system whose server is dead, so
 * scratch_sweep() may block: it is to be called in a forked child, never in the loop. Follows no
 * symbolic link, leaves the file system of `dir` alone where another one is mounted below, and does
 * what it can: what cannot be removed stays.
 */
#ifndef PCHRUN_LINK_SCRATCH_H
#define PCHRUN_LINK_SCRATCH_H

/* The entry `name` of `dir`; or, where name is NULL, those whose names begin with `prefix`, but not
 * those that begin with `except` (NULL: none). The strings are borrowed. */
struct scratch_sweep {
    const char *dir, *name, *prefix, *except;
};

void scratch_sweep(const struct scratch_sweep *what);

#endif
