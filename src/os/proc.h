/* SPDX-License-Identifier: Apache-2.0
 *
 * proc: one process, as /proc tells of it, and the only door to kill(2). Owns nothing. Main thread.
 * A process may end at any time: whatever fails here has then failed for that reason, and false is
 * the answer. See proc(5).
 */
#ifndef PCHRUN_OS_PROC_H
#define PCHRUN_OS_PROC_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct proc {
    pid_t pid, ppid, pgid, sid;
    char state; /* of its first thread: R, S, D, T, t, Z, X … */
    int threads;
    uint64_t started; /* clock ticks since boot: with the pid, one process for ever; 0: not known */
    char comm[32];
};

MUST_CHECK bool proc_read(pid_t pid, struct proc *ret);
/* Is /proc there, and of our PID namespace? */
bool proc_is_ours(void);
/* Has it ended, though its parent has not looked yet? (A first thread may end alone: that is a Z
 * with other threads.) */
bool proc_is_dead(const struct proc *proc);
/* Has it died, though its memory may still have to be taken down, so that wait(2) will tell only
 * later? Its status as of wait(2); 0: it has not, or has succeeded, or that cannot be told. */
int proc_died_with(pid_t pid);
/* Is a debugger attached, as far as this PID namespace can see? */
bool proc_is_traced(pid_t pid);
/* Is it below us? False, too, for who has gone meanwhile. */
bool proc_is_descendant(pid_t pid);
/* Does the environment that it was started with have this name? */
bool proc_has_env(pid_t pid, const char *name);
/* Where in the kernel it waits ("nfs_wait_bit_killable"), "" if that cannot be told. Returns text.
 */
char *proc_wchan(pid_t pid, char *text, size_t size);

/* It has another user than we, and we may not signal it: then *ret is that user's number. */
bool proc_is_foreign(pid_t pid, unsigned *ret);

/* kill(2), refused for pid <= 1, so that no stray 0 or -1 ever means "everybody". Only for a child
 * of ours that has not been reaped. */
bool proc_kill(pid_t pid, int number);
/* The whole group; refused for <= 1 and for our own. Only while a child of ours that leads it has
 * not been reaped: its number cannot be used again until then. */
bool proc_kill_group(pid_t pgid, int number);
/* For any other process: not sent if the pid has meanwhile become another process's. */
bool proc_signal(const struct proc *proc, int number);

#endif
