/* SPDX-License-Identifier: Apache-2.0
 *
 * threads: what the threads of a process are doing, as /proc tells it: state, where in the kernel
 * each one waits, its system call, and where that may be seen its kernel stack. Owns nothing.
 * Reading it may block, if the process stands in execve on a dead file system: in a child of ours
 * only. What we may not see, or is gone, is left out.
 */
#ifndef PCHRUN_OS_THREADS_H
#define PCHRUN_OS_THREADS_H

#include <stdbool.h>
#include <sys/types.h>

/* Writes lines for people to a descriptor; of `max` threads, the first one before the others.
 * False: it cannot be written to. */
bool threads_write(int fd, pid_t pid, int max);

#endif
