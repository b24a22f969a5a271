/* SPDX-License-Identifier: Apache-2.0
 *
 * probe: a program that is run once: it ends, and what it has printed, or its status, is its
 * answer.
 *
 * The program leads its own process group, and does not outlive pchrun. If its output is kept, it
 * inherits no other descriptor. Its owner sets the deadline, and calls probe_kill(). Main thread.
 */
#pragma once

#include "base/buf.h"
#include "loop/watch.h"
#include "os/reap.h"

/* Must not move in memory while the program runs. */
struct probe {
    char **argv; /* the path first; borrowed until it is over */
    char **env;  /* NULL: pchrun's; needed only by probe_start(), like the next two */
    char *own_pid;
    unsigned closed; /* see spawn.h */
    struct event_base *base;
    struct reap *reap;
    size_t max;       /* bytes of its output to keep; the rest is read and dropped. 0: it is a
                       * process of the job, and inherits as the commands do */
    bool keeps_last;  /* keep the last bytes, not the first; `max` is 64 KiB or more */
    bool with_errors; /* keep its standard error, too; otherwise it goes to pchrun's */
    /* The program has ended, or could not be executed: see `how`. Do not free the probe here, but
     * later: the list of reap still has it. */
    void (*on_over)(void *ctx);
    void *ctx;
    /* to read, once it is over */
    struct buf text; /* what it has printed */
    size_t dropped;  /* how many more bytes it has printed */
    int status;      /* as of wait(2); -1: unknown, it could not be executed */
    char how[500];   /* "exit code 1", "killed, since its time was over", or why it did not run */
    /* private from here on */
    struct reap_watch watch; /* pid 0: the program does not run */
    int report, out;
    struct watch out_watch;
};

/* Set the first fields. False: nothing was started, and on_over() is not called; `how` has the
 * reason. A probe that is over may be started again. */
MUST_CHECK bool probe_start(struct probe *probe);
bool probe_runs(const struct probe *probe);
/* Kills the program and its group; on_over() follows when reap has collected the program. `why` is
 * for people: "its time was over". Does nothing if none runs. */
void probe_kill(struct probe *probe, const char *why);
/* A program that still runs is killed, and on_over() is not called. */
void probe_free(struct probe *probe);
