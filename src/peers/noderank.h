/* SPDX-License-Identifier: Apache-2.0
 *
 * noderank: finds this machine in the list of nodes, if no node rank is given.
 *
 * Main thread, before the loop runs.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* The index of the one entry ("host" or "host:port") that is an address of this machine. Names are
 * looked up, several at a time, for at most wait_ns in all. -1: no entry matches, or several do;
 * the error lists them. */
MUST_CHECK int noderank_find(char *const *entries, size_t n, int64_t wait_ns, struct err *err);
