/* SPDX-License-Identifier: Apache-2.0
 *
 * cpus: divides the processors that we may use among several commands.
 *
 * Shares differ by at most one processor. Each is contiguous in an order that keeps together the
 * hardware threads of a core and the cores of a NUMA node. So if the number of commands is a
 * multiple of the number of NUMA nodes, each command stays on one NUMA node. The order comes from
 * the kernel's files; without them, from the processors' numbers. Owns nothing. Any thread.
 */
#pragma once

#include "base/err.h"

#include <sched.h>

#define CPUS_MAX 4096 /* more than kernels are built for */

/* For CPU_ISSET_S(3) and the like. */
struct cpus {
    cpu_set_t sets[CPUS_MAX / CPU_SETSIZE];
};

/* The processors that we may use. */
MUST_CHECK bool cpus_allowed(struct cpus *ret, struct err *err);
/* Makes `count` shares. `root` is a prefix of /sys, for tests; normally "". False: fewer processors
 * than shares. */
MUST_CHECK bool cpus_split(const struct cpus *allowed, const char *root, int count,
                           struct cpus *ret, struct err *err);
