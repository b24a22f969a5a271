/* SPDX-License-Identifier: Apache-2.0
 *
 * deaths: finds out more about the end of a command than its status: whether the kernel killed it
 * for lack of memory, and its error file (errorfile.h).
 *
 * Each command of each generation gets its own error file in our private directory, named by
 * TORCHELASTIC_ERROR_FILE. If the user has set that variable, the user's file is read and kept. A
 * child process reads that file, because its file system may hang. Unknown details are left out.
 * Owns nothing. Main thread.
 */
#pragma once

#include "commands/errorfile.h"
#include "core/common/event.h"
#include "loop/inquiry.h"
#include "os/oom.h"
#include "os/reap.h"

/* Set dir, reap, base and oom.root before the first start; the rest must be zero. */
struct deaths {
    const char *dir; /* our private directory */
    struct reap *reap;
    struct event_base *base;
    struct oom oom;
    bool has_killed; /* pchrun has sent SIGKILL in this generation; children sets it */
};

/* The error file for the environment of a command. NULL: the user has set the variable. Returns
 * path. */
char *deaths_file(const struct deaths *deaths, int index, uint32_t generation, char *path,
                  size_t size);
/* A generation begins; all commands of the previous one have ended. */
void deaths_begin(struct deaths *deaths);
/* A command has just been started. */
void deaths_watch(struct deaths *deaths, pid_t pid);

/* Gets the findings, and may add to them. `death` is valid until deaths_close(). */
typedef void deaths_fn(void *ctx, struct death *death);

/* The inquiry into the end of one command. */
struct deaths_inquest {
    int index;
    uint32_t generation;
    int64_t started; /* CLOCK_REALTIME */
    pid_t pid;
    int status; /* as of wait(2); the command is not reaped yet */
    deaths_fn *fn;
    void *ctx;
    /* private from here on */
    struct death death;
    struct errorfile_span span;
    struct inquiry reader;
};

/* Set the public fields first. Calls fn at once or within a second; `death` is NULL if the command
 * ended with 0. */
void deaths_ask(struct deaths *deaths, struct deaths_inquest *q);
/* Ends the inquiry, also before fn was called. Call before the next deaths_ask(). */
void deaths_close(struct deaths_inquest *inquest);
