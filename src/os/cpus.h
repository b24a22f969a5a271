/* SPDX-License-Identifier: Apache-2.0
 *
 * cpus: the processors that we may run on, in shares for several commands.
 *
 * Shares are equal, but for one processor, and contiguous in an order that keeps the hardware
 * threads of a core together, and the cores of a NUMA node; so commands whose number is a multiple
 * of the nodes' have memory of their own node. The order is read from the kernel's files; where one
 * is missing, the numbers' own is taken. Owns nothing. Any thread.
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

/* Those that we may run on. */
MUST_CHECK bool cpus_allowed(struct cpus *ret, struct err *err);
/* Makes `count` shares of them. `root` stands before /sys: "" for this machine's. False: there are
 * fewer than that. */
MUST_CHECK bool cpus_split(const struct cpus *allowed, const char *root, int count,
                           struct cpus *ret, struct err *err);

#endif
