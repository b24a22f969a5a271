/* SPDX-License-Identifier: Apache-2.0
 *
 * takeover: the state directory is there, can be written to, and on node 0 is ours alone, before
 * anything of it is read and anything is started.
 *
 * A scheduler may start a job again a little before the old one has ended; so we wait for whoever
 * holds the directory, and say so. Where nothing can be locked, the record itself tells the older
 * one that it is over (history.h). Owns the lock: takeover_end(). Main thread.
 */
#ifndef PCHRUN_RUN_TAKEOVER_H
#define PCHRUN_RUN_TAKEOVER_H

#include "config/config.h"
#include "core/params.h"
#include "os/dirlock.h"

struct takeover {
    const struct config *config; /* set before, and the params */
    const struct core_params *params;
    struct dirlock lock;
    const char *dir;
    char *record, *file; /* paths in it: commit.json, and what is locked */
    int64_t wait_ns;
    int signal; /* the one that ended the wait, 0: none did */
};

/* *dir NULL: there is no state directory. A notice that comes while it is waited for, where other
 * nodes are to be told of it, frees *dir and makes it NULL: nothing may be written there, and the
 * signal, which is still pending, keeps anything from being started. False: *err says why nothing
 * can be. */
MUST_CHECK bool takeover_begin(struct takeover *takeover, char **dir, struct reap *reap,
                               struct err *err);
void takeover_end(struct takeover *takeover);

#endif
