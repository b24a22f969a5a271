/* SPDX-License-Identifier: Apache-2.0
 *
 * stepback: which commit a start can resume from, if checkpoints were removed since.
 *
 * A program or a person may remove the checkpoint of the last commit. The ranks would then fail at
 * each start. So node 0 looks, before the start, whether what the ranks saved is there, and takes
 * the newest commit of which everything is. Only paths within checkpoint.dir are looked at: a path
 * elsewhere may be a name in another store, or lie on a file system that hangs. Owns nothing; may
 * block, as everything at start. Main thread.
 */
#ifndef PCHRUN_RUN_STEPBACK_H
#define PCHRUN_RUN_STEPBACK_H

#include "config/config.h"
#include "run/history.h"

/* Drops the newest commits from the history if a part of them is missing and an older commit is
 * whole, and says so. `dir` is the state directory. */
void stepback(struct history *history, const struct config *config, const char *dir);

#endif
