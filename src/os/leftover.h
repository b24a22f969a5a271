/* SPDX-License-Identifier: Apache-2.0
 *
 * leftover: processes that a dead supervisor of the same job has left, found by a variable in their
 * environment.
 *
 * The variable names the supervisor by its pid and start time, and its place by a hash: this boot,
 * the PID namespace, and the state directory. So a process is killed only if its own supervisor has
 * surely ended. A second hash, of the batch system's job and the control group, tells a descendant
 * from a process that only got the environment, as a job that a command has submitted. A process
 * that has overwritten its environment is not found, nor one whose environment the kernel does not
 * show us, as that of another user. Owns nothing. Main thread; but
 * leftover_kill() runs in a helper, because reading an environment may block.
 */
#pragma once

#include "os/proc.h"

/* Users see it (pchrun(1)). */
#define LEFTOVER_VARIABLE "PCH_SUPERVISOR"

enum { LEFTOVER_MARK_SIZE = 80, LEFTOVERS_MAX = 128 };

/* The value for the processes of this supervisor; "": there is none, as /proc is not ours. */
void leftover_mark(const char *state_dir, char ret[LEFTOVER_MARK_SIZE]);

struct leftover_marks {
    char ours[LEFTOVER_MARK_SIZE];  /* "": none */
    char above[LEFTOVER_MARK_SIZE]; /* of the pchrun below which we run; "": none */
};
/* Puts our mark into our environment: every program that we start from now on has it. */
void leftover_begin(const char *state_dir, struct leftover_marks *ret);

/* The answer of leftover_kill(). */
struct leftover_list {
    int n; /* those in the list; more were killed, too, but are not listed */
    struct proc list[LEFTOVERS_MAX];
};
/* A helper_fn (helper.h); arg: struct leftover_marks. Sends SIGKILL to the processes that dead
 * supervisors with our mark's place have left. Spares the processes above us, and those of the
 * pchrun below which we run. Does not wait for their end. */
void leftover_kill(const void *arg, int answer);

/* Forgets those that have ended. */
void leftover_settle(struct leftover_list *left);
/* "4711 (python), 4712 (sh) and 3 more"; "": none. Returns text. */
char *leftover_describe(const struct leftover_list *left, char *text, size_t size);
