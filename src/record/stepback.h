/* SPDX-License-Identifier: Apache-2.0
 *
 * stepback: finds the commit that a start can resume from if checkpoints were removed.
 *
 * A program or a person may remove the checkpoint of the last commit. The ranks would then fail at
 * each start. So before the start node 0 looks for the saved paths and takes the newest commit that
 * is complete. It looks for the paths of its own ranks, wherever they lie. Other nodes' paths
 * decide only within checkpoint.dir, if the state directory lies there and is shared: others may
 * be on another node's disk. A name in another store (gs://bucket/7) decides nothing. A child with
 * a deadline looks: a dead file system cannot block pchrun. Owns nothing. Main thread.
 */
#pragma once

#include "config/config.h"
#include "os/reap.h"
#include "record/history.h"

/* Drops the newest commits from the history if a part of them is missing and an older commit is
 * complete; logs that. Logs, too, which path of the last commit is missing if none is dropped.
 * `dir`: the state directory. */
void stepback(struct history *history, const struct config *config, const char *dir,
              struct reap *reap);
