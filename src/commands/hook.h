/* SPDX-License-Identifier: Apache-2.0
 *
 * hook: the user's program that runs after a preemption, or if a node is not healthy, as the last
 * thing before the exit (exit.hook). It has its own process group. After exit.hook_wait pchrun
 * kills the group. When the hook ends, pchrun kills the processes that remain in its group. It
 * kills those in other groups when pchrun itself ends (shell.c). The hook's outcome is logged and
 * reported, and changes nothing else. Owns its memory: hook_free(). Main thread.
 */
#pragma once

#include "commands/env.h"
#include "config/config.h"
#include "loop/loop.h"
#include "loop/probe.h"
#include "json/writer.h"

enum hook_phase { HOOK_IDLE, HOOK_RUNNING, HOOK_KILLED, HOOK_OVER };

struct hook {
    const struct config *config;
    unsigned closed; /* standard descriptors that the hook must not get */
    struct reap *reap;
    struct loop *loop;
    bool has_run; /* to read: a process was started for it */
    /* private from here on */
    char **argv; /* the path first; the arguments belong to the configuration */
    enum hook_phase phase;
    struct probe probe;
    struct watch clock;
    int64_t started_at, kill_wait_ns;
    bool is_cut; /* pchrun killed it at the deadline, before exit.hook_wait was over */
    int64_t took_ns;
    char text[600]; /* how the hook ended */
};

/* Set the public fields first. Without exit.hook it does nothing. False: the program of exit.hook
 * cannot be executed. May block. */
MUST_CHECK bool hook_open(struct hook *hook, struct err *err);
void hook_free(struct hook *hook);

/* Starts the hook. It may run for exit.hook_wait, but not longer than until `margin` before
 * `deadline` (CLOCK_MONOTONIC; CLOCK_NEVER: none). If that time is past, the hook is not started.
 */
void hook_run(struct hook *hook, const struct env_end *facts, int64_t deadline, int64_t margin);
/* True while the hook runs. */
bool hook_is_busy(const struct hook *hook);

/* For the report: an object, or null if the hook was not run. */
void hook_write(const struct hook *hook, struct writer *w, const char *key);
