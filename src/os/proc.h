/* SPDX-License-Identifier: Apache-2.0
 *
 * proc: one process as /proc shows it, and the only caller of kill(2). Owns nothing. Main thread. A
 * process may end at any time; then a call here returns false. See proc(5).
 */
#pragma once

#include "base/err.h"

#include <dirent.h>
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

/* The next number in an open list of processes, /proc, or of threads, /proc/PID/task, which has the
 * first thread first. 0: no more. */
pid_t proc_next(DIR *list);
MUST_CHECK bool proc_read(pid_t pid, struct proc *ret);
/* True if /proc exists and shows our PID namespace. */
bool proc_is_ours(void);
/* True if the process has ended. State Z alone is not enough: a first thread that ended before the
 * others shows it, too. */
bool proc_is_dead(const struct proc *proc);
/* The status, as of wait(2), of a process that has died. wait(2) itself may report it only later,
 * when the kernel has freed its memory. 0: alive, successful, or unknown. */
int proc_died_with(pid_t pid);
/* True if a debugger is attached that this PID namespace can see. */
bool proc_is_traced(pid_t pid);
/* True for a descendant of ours that has not ended. */
bool proc_is_descendant(pid_t pid);
/* True if the environment with which the process started has this name, or this "NAME=value". */
bool proc_has_env(pid_t pid, const char *what);
/* The value of the variable at its start. False: not set, too long, or unknown. */
MUST_CHECK bool proc_read_env(pid_t pid, const char *name, char *ret, size_t size);
/* The name of its program's file; "" and false: unknown. */
bool proc_program(pid_t pid, char *ret, size_t size);
/* True if the file of its program is named so, or so and a version ("python3.11"). */
bool proc_runs(pid_t pid, const char *name);
/* True if it has this file open. */
bool proc_has_open(pid_t pid, uint64_t device, uint64_t inode);
/* The kernel function in which it waits ("nfs_wait_bit_killable"), or "". Returns text. */
char *proc_wchan(pid_t pid, char *text, size_t size);
/* Writes lines for people about at most `max` threads, the first thread first: state, wait channel,
 * system call and, with permission, kernel stack. False: they could not be written. May block if
 * the process hangs in execve on a dead file system, so call it only in a child. */
bool proc_write_threads(int fd, pid_t pid, int max);

/* True if we may not signal the process, because it belongs to another user, *ret. */
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
/* Signals a process that is not our child. Sends nothing if another process now has the pid. */
bool proc_signal(const struct proc *proc, int number);

/* True if the process has a handler for the signal. Else the signal may end the process. */
bool proc_handles(pid_t pid, int number);
/* A thread that can run its handler of the signal now, the first thread if possible. 0: none. */
pid_t proc_ready_thread(pid_t pid, int number);
/* True if the thread has the signal pending or blocked, as within its handler. */
bool proc_is_busy_with(pid_t pid, pid_t tid, int number);
/* Signals this thread, if the process has a handler for the signal. */
bool proc_signal_thread(pid_t pid, pid_t tid, int number);
