/* SPDX-License-Identifier: Apache-2.0
 *
 * above: the processes around pchrun that stand between it and its user or scheduler: a shell that
 * has started it, and the program behind it in a pipeline. Reads /proc; a process that /proc does
 * not show counts as absent. Owns nothing. Any thread.
 */
#pragma once

#include "os/proc.h"

/* With a terminal, a shell above pchrun is normal. */
bool above_has_terminal(void);
/* The name of a shell: "bash". */
bool above_is_shell(const char *name);
/* The name of the executable: if a script runs, `comm` is its name, not the shell's. */
void above_read_program(const struct proc *proc, char *ret, size_t size);
/* A shell without a terminal has started us, and does not handle SIGTERM. So the shell dies of
 * SIGTERM and does not pass it on, and the shell's exit code counts. `parent`: the process that has
 * started us. */
bool above_find_shell(pid_t parent, struct proc *ret);
/* The standard output of `self` is a pipe, and a process of the same parent reads it: `pchrun ... |
 * tee log`. A service manager or a container's runtime that reads it is no such process. */
bool above_find_reader(pid_t self, pid_t parent, struct proc *ret);
