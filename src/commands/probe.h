/* SPDX-License-Identifier: Apache-2.0
 *
 * probe: one run of the user's program that examines a hanging process (watchdog.diagnose), and its
 * output. It leads its own process group, inherits no descriptor but the pipe for its output, and
 * ends with pchrun. Owns its memory and its descriptors: probe_free(). Main thread.
 */
#pragma once

#include "base/buf.h"
#include "loop/watch.h"
#include "os/reap.h"
#include "os/spawn.h"

struct probe {
    char *const *args; /* {pid} and {rank} are replaced in all but the first, a path */
    int pid, rank;
    struct reap *reap;
    void (*on_end)(void *ctx);
    void *ctx;
    /* private, but the caller may read them: */
    struct reap_watch watch; /* pid 0: it does not run */
    bool is_used;            /* until probe_free() */
    char **argv;
    int report, out;
    struct watch out_watch;
    struct buf text; /* what it has printed: 256 KiB at most */
    size_t dropped;  /* bytes beyond that */
    char how[300];   /* how the program ended; "": not yet */
};

/* Set the first fields; the rest must be zero. False: the program was not started; `how` says why.
 */
MUST_CHECK bool probe_start(struct probe *probe, struct event_base *base, struct err *err);
bool probe_runs(const struct probe *probe);
/* Kills the program and its group; on_end() is called when it has been reaped. */
void probe_kill(struct probe *probe);
/* Frees all, `text` too. A program that still runs is killed; on_end() is not called. */
void probe_free(struct probe *probe);
