/* SPDX-License-Identifier: Apache-2.0
 *
 * shield: keeps an attached process alive through a SIGTERM that is meant for the whole job.
 *
 * A handler, put in place only over the default action, passes the signal on to the supervisor as a
 * notice. It steps aside (the default action is taken) for a signal that the supervisor itself
 * sends, when the supervisor is gone, and in a fork. One per process; what it owns is the
 * disposition of SIGTERM while that is still its own.
 */
#ifndef PCHRUN_LIBPCH_SHIELD_H
#define PCHRUN_LIBPCH_SHIELD_H

#include "libpch/job.h"

#include <stdbool.h>

/* Is SIGTERM at its default action, so that shield_raise() would take it? */
bool shield_is_wanted(void);
/* For an attached job. False: it was not put in place. */
bool shield_raise(const struct pch *job);
/* Gives the default action back if the handler is still ours. Async-signal-safe, for the child of a
 * fork. */
void shield_lower(void);

#endif
