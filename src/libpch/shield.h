/* SPDX-License-Identifier: Apache-2.0
 *
 * shield: keeps an attached process alive through signals that are meant for the whole job:
 * SIGTERM, and those that the supervisor has been told to take for a notice.
 *
 * A handler, put in place only over the default action, passes the signal on to the supervisor as a
 * notice. It steps aside (the default action is taken) for a signal that the supervisor itself
 * sends, when the supervisor is gone, and in a fork. One per process; what it owns is the
 * disposition of those signals while that is still its own.
 */
#ifndef PCHRUN_LIBPCH_SHIELD_H
#define PCHRUN_LIBPCH_SHIELD_H

#include "libpch/job.h"

#include <stdbool.h>
#include <stdint.h>

/* Is the signal at its default action, so that shield_raise() would take it? */
bool shield_is_wanted(int number);
/* For an attached job: over each of these signals (bit n - 1 for signal n) that is wanted. */
void shield_raise(const struct pch *job, uint64_t signals);
/* Gives the default actions back where the handler is still ours. Async-signal-safe, for the child
 * of a fork. */
void shield_lower(void);

#endif
