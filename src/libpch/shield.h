/* SPDX-License-Identifier: Apache-2.0
 *
 * shield: keeps an attached process alive through signals for the whole job: SIGTERM, and the
 * signals that the supervisor takes as notices.
 *
 * A handler replaces only the default action. It passes the signal to the supervisor as a notice.
 * It takes the default action for a signal from the supervisor, and when the supervisor is gone. A
 * helper (a data loader, a checkpoint writer) has no connection to the supervisor. It takes the
 * default action for signals from its parent, its owner (the process that it serves), the
 * supervisor or itself. A signal from any other sender was sent to the whole job, so the helper
 * ignores it. A fork is a helper; a program started by exec must declare itself a helper. One
 * shield per process. It owns the disposition of those signals as long as its handler is installed.
 */
#pragma once

#include "libpch/job.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* True if shield_raise() would take this signal: its action is the default one, or our handler. */
bool shield_is_wanted(int number);
/* For an attached job: takes these signals (bit n - 1 for signal n) if they have the default
 * action. */
void shield_raise(const struct pch *job, uint64_t signals);
/* Restores the default action if the handler is still ours. */
void shield_lower(void);
/* In the child of a fork. Async-signal-safe. */
void shield_fork(void);
/* The signals that the shield takes, in this process or in the parent that forked it; 0: none.
 * *ret_supervisor: the supervisor's pid; 0: unknown. */
uint64_t shield_over(pid_t *ret_supervisor);
/* Call in a helper without a job: takes the same signals. `owner`: the process that it serves. */
void shield_help(pid_t owner, pid_t supervisor, uint64_t signals);
/* Call in a helper that has replaced our handlers: installs ours again. They call the helper's
 * handlers where the default action would follow. */
void shield_cover(void);
