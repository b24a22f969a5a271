/* SPDX-License-Identifier: Apache-2.0
 *
 * brief: a few messages to the other nodes from a pchrun whose core does not run: it cannot start.
 *
 * Each call makes its connections, waits for the answers, and frees everything. If the other nodes
 * cannot be told, no exit code changes. Main thread.
 */
#pragma once

#include "base/clock.h"
#include "base/err.h"
#include "config/config.h"

#include <signal.h>

/* The longest time to tell the others. The nodes of a job are most often started within seconds of
 * each other. A longer wait would keep a machine that does nothing. */
#define BRIEF_TELL_NS (30 * NS_PER_S)

/* Call when the port or the state directory is taken. If another node 0 runs at this job's address,
 * sends it a HELLO, so that both log the conflict. Takes a second at most. */
void brief_tell_duplicate(const struct config *config);

/* Call when this node cannot start. Node 0 listens until every other node has asked for it and has
 * got the reason. Any other node tells node 0, which ends the job. Takes BRIEF_TELL_NS at most, or
 * cluster.join_timeout if that is shorter. A signal in `end` ends it at once, and stays pending. */
void brief_tell_failure(const struct config *config, const sigset_t *end, const struct err *why);
