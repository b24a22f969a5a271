/* SPDX-License-Identifier: Apache-2.0
 *
 * hostlist: Slurm's way to write many hosts in short: "node[001-003,007],gpu1".
 *
 * A part in brackets stands for each of its numbers, which keep their leading zeros; of several
 * parts the rightmost goes fastest; hosts that are named twice are there twice; nothing stands
 * behind the last bracket of a name. What a list stands for can be far longer than the list, so it
 * is walked, not kept, and bounded. Pure; any thread.
 */
#ifndef PCHRUN_DISCOVER_HOSTLIST_H
#define PCHRUN_DISCOVER_HOSTLIST_H

#include "base/err.h"

#include <stddef.h>

#define HOSTLIST_NAME_MAX 256

/* Calls `fn` for each host, in their order. False: the list is malformed, a name is too long, or
 * there are more than `max`; those before have been told then. */
MUST_CHECK bool hostlist_walk(const char *text, size_t max, void (*fn)(void *ctx, const char *host),
                              void *ctx, struct err *err);

#endif
