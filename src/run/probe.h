/* SPDX-License-Identifier: Apache-2.0
 *
 * probe: one run of the user's program that looks at a process which hangs (watchdog.diagnose), and
 * what it prints. It leads a process group of its own, gets no descriptor of ours but the two that
 * are read here, and ends with us. Owns its memory and its descriptors: probe_end(). Main thread.
 */
#ifndef PCHRUN_RUN_PROBE_H
#define PCHRUN_RUN_PROBE_H

#include "base/buf.h"
#include "os/reap.h"
#include "os/spawn.h"
#include "run/watch.h"

struct probe_what {
    char *const *args; /* {pid} and {rank} stand for them in all but the first, a path */
    int pid, rank;
    size_t max; /* of its output; what is beyond it is read and dropped */
};

struct probe {
    int target; /* the caller's */
    struct reap *reap;
    struct reap_watch watch;
    bool is_running, is_used; /* is_used: until probe_free() */
    pid_t group;
    char **argv;
    struct spawn_command command;
    int report, out;
    struct watch out_watch;
    struct buf text;
    size_t dropped;
    char how[300]; /* how it ended; "": not yet */
    void (*on_end)(void *ctx);
    void *ctx;
};

/* Set reap, on_end and ctx; the rest is zero. False: it was not started, and `how` says why. */
MUST_CHECK bool probe_start(struct probe *probe, const struct probe_what *what,
                            struct event_base *base, struct err *err);
bool probe_runs(const struct probe *probe);
/* Kills it and its group; on_end() is called as soon as it has been reaped. */
void probe_kill(struct probe *probe);
/* Frees all but `text` and `how`, which may be read until probe_free(); one that still runs is
 * killed, and nobody is told. */
void probe_free(struct probe *probe);

#endif
