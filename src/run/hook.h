/* SPDX-License-Identifier: Apache-2.0
 *
 * hook: the program of the user's that runs after a preemption, when there is nothing left to do
 * but to exit (exit.hook). It has a process group of its own and a time, after which the group is
 * killed; whoever it leaves behind in its group is killed, too, and who has left the group when we
 * end (shell.c). How it ends is logged and told in the report, and changes nothing. Owns its
 * memory: hook_free(). Main thread.
 */
#ifndef PCHRUN_RUN_HOOK_H
#define PCHRUN_RUN_HOOK_H

#include "config/config.h"
#include "os/reap.h"
#include "os/spawn.h"
#include "run/env.h"
#include "run/watch.h"
#include "json/writer.h"

enum hook_phase { HOOK_IDLE, HOOK_RUNNING, HOOK_KILLED, HOOK_OVER };

struct hook {
    const struct config *config;
    unsigned closed; /* standard descriptors that it shall not have */
    struct reap *reap;
    char **argv; /* its path first; the others are the configuration's */
    struct spawn_command command;
    enum hook_phase phase;
    struct reap_watch watch;
    pid_t group;
    int report;
    struct env env; /* which it, too, may read until its exec */
    struct spawn_start *start;
    struct watch clock;
    int64_t started_at, kill_wait_ns;
    bool is_cut; /* by the deadline, not by exit.hook_wait */
    int status;  /* as of wait(2); -1: there is none */
    int64_t took_ns;
    char text[600]; /* how it ended */
    void (*on_end)(void *ctx);
    void *ctx;
};

/* Without exit.hook it does nothing. False: there is one, and it cannot be executed. May block. */
MUST_CHECK bool hook_init(struct hook *hook, const struct config *config, struct reap *reap,
                          struct err *err);
MUST_CHECK bool hook_open(struct hook *hook, struct event_base *base, struct err *err);
void hook_free(struct hook *hook);

bool hook_is_set(const struct hook *hook);
/* Starts it. It has exit.hook_wait, but is killed `margin` before `deadline` (CLOCK_MONOTONIC;
 * CLOCK_NEVER: there is none), and where that has come already it is not started. on_end() is
 * called from here then, and else later. */
void hook_run(struct hook *hook, const struct env_end *facts, int64_t deadline, int64_t margin);
/* Has there been a process of it? */
bool hook_has_run(const struct hook *hook);
/* Will on_end() be called? */
bool hook_is_busy(const struct hook *hook);

/* For the report: an object, or null if it did not come to it. */
void hook_write(const struct hook *hook, struct writer *w, const char *key);

#endif
