/* SPDX-License-Identifier: Apache-2.0
 *
 * threads: what the threads of a process do, from /proc: state, wait channel, system call and, with
 * permission, kernel stack. Owns nothing. Reading may block if the process hangs in execve on a
 * dead file system, so call it only in a child. Values that cannot be read are omitted.
 */
#ifndef PCHRUN_OS_THREADS_H
#define PCHRUN_OS_THREADS_H

#include <stdbool.h>
#include <sys/types.h>

/* Writes lines for people about at most `max` threads, the first thread first. False: the
 * descriptor does not take them. */
bool threads_write(int fd, pid_t pid, int max);

#endif
