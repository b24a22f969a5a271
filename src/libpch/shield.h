/* SPDX-License-Identifier: Apache-2.0
 *
 * shield: keeps an attached process alive through signals that are meant for the whole job:
 * SIGTERM, and those that the supervisor has been told to take for a notice.
 *
 * A handler, put in place only over the default action, passes the signal on to the supervisor as a
 * notice. It steps aside (the default action is taken) for a signal that the supervisor itself
 * sends, and when the supervisor is gone. In a helper of an attached process, such as a data loader
 * or one that writes a checkpoint, there is nobody to tell; there it steps aside for who may end
 * it: its parent, its owner (who has asked for it), the supervisor, itself. Whoever else sends such
 * a signal sends it to the whole job. A fork is a helper by itself; what is started by exec has to
 * be told. One per process; what it owns is the disposition of those signals while that is still
 * its own.
 */
#ifndef PCHRUN_LIBPCH_SHIELD_H
#define PCHRUN_LIBPCH_SHIELD_H

#include "libpch/job.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Is the signal at its default action, so that shield_raise() would take it? */
bool shield_is_wanted(int number);
/* For an attached job: over each of these signals (bit n - 1 for signal n) that is wanted. */
void shield_raise(const struct pch *job, uint64_t signals);
/* Gives the default actions back where the handler is still ours. */
void shield_lower(void);
/* In the child of a fork. Async-signal-safe. */
void shield_fork(void);
/* The signals that it is over, here or in the process that has forked this one; 0: lowered. And the
 * supervisor, 0: not visible from here. */
uint64_t shield_over(pid_t *ret_supervisor);
/* In a process without a job, which helps another one, its owner: the shield as it is there. */
void shield_help(pid_t owner, pid_t supervisor, uint64_t signals);
/* In a helper, which has put handlers of its own over ours: takes their place, and calls them
 * for the signals that it steps aside for. */
void shield_cover(void);

#endif
