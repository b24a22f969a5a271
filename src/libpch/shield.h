/* SPDX-License-Identifier: Apache-2.0
 *
 * shield: keeps an attached process alive through signals for the whole job: SIGTERM, and the
 * signals that the supervisor takes as notices.
 *
 * A handler replaces only the default action. It passes the signal to the supervisor as a notice.
 * It takes the default action for a signal from the supervisor, and when the supervisor is gone. A
 * helper (a data loader, a checkpoint writer) has no connection to the supervisor. There the
 * default action follows for signals from its parent, its owner (the process that it serves), the
 * supervisor or itself. Any other sender means the whole job, so the helper ignores the signal. A
 * fork is a helper; a program started by exec must declare itself one. One shield per process. It
 * owns the disposition of those signals as long as its handler is installed.
 */
#pragma once

#include "libpch/job.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Has the signal its default action, so that shield_raise() would take it? */
bool shield_is_wanted(int number);
/* For an attached job: takes these signals (bit n - 1 for signal n) if they have the default
 * action. */
void shield_raise(const struct pch *job, uint64_t signals);
/* Restores the default action if the handler is still ours. */
void shield_lower(void);
/* In the child of a fork. Async-signal-safe. */
void shield_fork(void);
/* The signals that it takes, here or in the parent of this fork; 0: none. Also the supervisor's
 * pid; 0: not visible from here. */
uint64_t shield_over(pid_t *ret_supervisor);
/* In a process without a job that serves another process, its owner: raises the same shield. */
void shield_help(pid_t owner, pid_t supervisor, uint64_t signals);
/* In a helper with its own handlers over ours: replaces them, and calls them where the default
 * action would follow. */
void shield_cover(void);
