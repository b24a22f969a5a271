/* SPDX-License-Identifier: Apache-2.0
 *
 * proc: one process as /proc shows it, and the only caller of kill(2). Owns nothing. Main thread. A
 * process may end at any time; then a call here returns false. See proc(5).
 */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct proc {
    pid_t pid, ppid, pgid, sid;
    char state; /* of its first thread: R, S, D, T, t, Z, X … */
    int threads;
    unsigned flags;   /* the kernel's */
    int status;       /* see proc_died_with() */
    uint64_t ticks;   /* of processor time */
    uint64_t started; /* clock ticks since boot; unique together with the pid; 0: unknown */
    char comm[32];
};

MUST_CHECK bool proc_read(pid_t pid, struct proc *ret);
/* Does /proc exist and show our PID namespace? */
bool proc_is_ours(void);
/* Has it ended? (State Z alone is not enough: the first thread shows it, too, if it ended before
 * the others.) */
bool proc_is_dead(const struct proc *proc);
/* Has it died, even if the kernel still frees its memory and wait(2) tells it only later? Returns
 * its status as of wait(2). 0: alive, successful, or unknown. */
int proc_died_with(pid_t pid);
/* Is a debugger attached, as far as this PID namespace can see? */
bool proc_is_traced(pid_t pid);
/* Is it our descendant? False for a process that has ended. */
bool proc_is_descendant(pid_t pid);
/* Did its environment have this name, or this "NAME=value", when it started? */
bool proc_has_env(pid_t pid, const char *what);
/* Where in the kernel it waits ("nfs_wait_bit_killable"), or "". Returns text.
 */
char *proc_wchan(pid_t pid, char *text, size_t size);
/* Writes lines for people about at most `max` threads, the first thread first: state, wait channel,
 * system call and, with permission, kernel stack. False: the descriptor does not take them. May
 * block if the process hangs in execve on a dead file system, so call it only in a child. */
bool proc_write_threads(int fd, pid_t pid, int max);

/* Does it belong to another user, so that we may not signal it? *ret: that user's number. */
bool proc_is_foreign(pid_t pid, unsigned *ret);

/* kill(2). Refuses pid <= 1, because 0 and -1 mean many processes. Only for a child that is not
 * reaped yet. */
bool proc_kill(pid_t pid, int number);
/* Signals the whole group. Refuses pgid <= 1 and our own group. Only while its leader, a child of
 * ours, is not reaped: until then the number is not reused. */
bool proc_kill_group(pid_t pgid, int number);
/* Stops us. `with_group`: also the rest of our group, for a signal that did not come from the
 * keyboard. Returns after SIGCONT. */
void proc_stop_us(bool with_group);
/* Signals a process that is not our child. Sends nothing if the pid now belongs to another
 * process. */
bool proc_signal(const struct proc *proc, int number);
