/* SPDX-License-Identifier: Apache-2.0
 *
 * cpus: divides the processors that we may use among several commands.
 *
 * Shares differ by at most one processor. Each is contiguous in an order that keeps together the
 * hardware threads of a core and the cores of a NUMA node. So with a multiple of the NUMA nodes'
 * number, each command stays on one node. The order comes from the kernel's files; without them,
 * from the processors' numbers. Owns nothing. Any thread.
 */
#ifndef PCHRUN_OS_CPUS_H
#define PCHRUN_OS_CPUS_H

#include "base/err.h"

#include <limits.h>

#define CPUS_MAX 4096 /* more than kernels are built for */

/* As sched_setaffinity(2) takes it. */
struct cpus {
    unsigned long bits[CPUS_MAX / (CHAR_BIT * sizeof(unsigned long))];
};

bool cpus_has(const struct cpus *cpus, int cpu);
void cpus_add(struct cpus *cpus, int cpu);

/* The processors that we may use. */
MUST_CHECK bool cpus_allowed(struct cpus *ret, struct err *err);
/* Makes `count` shares. `root` is a prefix of /sys, for tests; normally "". False: fewer processors
 * than shares. */
MUST_CHECK bool cpus_split(const struct cpus *allowed, const char *root, int count,
                           struct cpus *ret, struct err *err);

#endif
