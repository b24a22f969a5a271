/* SPDX-License-Identifier: Apache-2.0
 *
 * hostlist: Slurm's short form of many hosts: "node[001-003,007],gpu1".
 *
 * A part in brackets stands for each of its numbers, which keep their leading zeros. Of several
 * parts the rightmost changes fastest. A host that is named twice is there twice. No text may
 * follow the last bracket of a name. The expanded list can be far longer than its text, so the
 * reader walks it, and does not store it. Its length is bounded. Pure; any thread.
 */
#ifndef PCHRUN_DISCOVER_HOSTLIST_H
#define PCHRUN_DISCOVER_HOSTLIST_H

#include "base/err.h"

#include <stddef.h>

#define HOSTLIST_NAME_MAX 256

/* Calls `fn` for each host, in their order. False: the list is malformed, a name is too long, or
 * there are more than `max`; `fn` was then called for the hosts before. */
MUST_CHECK bool hostlist_walk(const char *text, size_t max, void (*fn)(void *ctx, const char *host),
                              void *ctx, struct err *err);

#endif
