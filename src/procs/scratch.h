/* SPDX-License-Identifier: Apache-2.0
 *
 * scratch: removes directories that training processes use between a save and its commit.
 *
 * Such a directory lies beside the checkpoints, perhaps on a dead file server. So scratch_sweep()
 * may block: call it in a forked child, never in the loop. It follows no symbolic link and does not
 * enter other mounted file systems. Entries that cannot be removed stay.
 */
#ifndef PCHRUN_PROCS_SCRATCH_H
#define PCHRUN_PROCS_SCRATCH_H

/* The entry `name` of `dir`. If name is NULL: all entries that begin with `prefix` but not with
 * `except` (NULL: no exception). The strings are borrowed. */
struct scratch_sweep {
    const char *dir, *name, *prefix, *except;
};

void scratch_sweep(const struct scratch_sweep *what);

#endif
