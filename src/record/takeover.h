/* SPDX-License-Identifier: Apache-2.0
 *
 * takeover: before the state directory is read and before any start, makes sure that the directory
 * exists and is writable. On node 0 it also locks the directory.
 *
 * A scheduler may start a job again a little before the old one has ended. So pchrun waits for the
 * attempt that holds the directory, and logs that. Without locks, the record itself stops the older
 * attempt (history.h). Owns the lock: takeover_end(). Main thread.
 */
#pragma once

#include "config/config.h"
#include "core/common/params.h"
#include "os/dirlock.h"

#include <signal.h>

struct takeover {
    const struct config *config; /* set `config` and `params` first */
    const struct core_params *params;
    struct dirlock lock;
    const char *dir;
    char *record, *file; /* paths in dir: commit.json, and the lock file */
    int signal;          /* the signal that ended the wait, 0: none */
    struct err why;      /* with a signal: the reason of the end, for people */
};

/* *dir NULL: there is no state directory. A notice may come during the wait. If other nodes must
 * hear of the notice, *dir is freed and becomes NULL: this run writes nothing there. The signal is
 * still pending, so nothing is started. False: nothing can start; *err says why. */
MUST_CHECK bool takeover_begin(struct takeover *takeover, char **dir, struct reap *reap,
                               struct err *err);
void takeover_end(struct takeover *takeover);

/* The signals that end a run before anything is started. Ignored signals stay ignored. */
void takeover_ends(const struct core_params *params, sigset_t *ret);
