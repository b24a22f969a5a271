/* SPDX-License-Identifier: Apache-2.0
 * See proc.h.
 */
#include "os/proc.h"

#include "base/fd.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

enum { STATUS_SIZE = 4096, STACK_SIZE = 4096, STACK_INDENT = 6 };

/* Reads the file of a process, or of its thread `tid` (0: the process); at most size - 1 bytes, ""
 * on failure. Two slashes: an emulator of another processor (qemu-user) answers by itself for a
 * process that reads its own /proc/PID/stat, and its start time is not the kernel's. Other
 * supervisors then took a living one for dead, and killed its processes. */
static bool proc_read_file(pid_t pid, pid_t tid, const char *name, char *text, size_t size)
{
    char path[96] = "";
    str_addf(path, sizeof path, "/proc//%d/", (int)pid);
    if (tid)
        str_addf(path, sizeof path, "task/%d/", (int)tid);
    str_addf(path, sizeof path, "%s", name);
    return fd_read_text(path, text, size) > 0;
}

/* The number behind `key` in the file "status"; -1: unknown. */
static int64_t status_field(pid_t pid, pid_t tid, const char *key, int base)
{
    char text[STATUS_SIZE];
    if (!proc_read_file(pid, tid, "status", text, sizeof text))
        return -1;
    const char *at = strstr(text, key); /* not found if a very long list of groups comes first */
    return at ? (int64_t)strtoull(at + strlen(key), NULL, base) : 0;
}

/* Fields of the file "stat", numbered as in proc(5). */
enum {
    STAT_STATE = 3,
    STAT_PPID,
    STAT_PGID,
    STAT_SID,
    STAT_FLAGS = 9,
    STAT_USER_TICKS = 14,
    STAT_KERNEL_TICKS,
    STAT_THREADS = 20,
    STAT_STARTED = 22,
    STAT_STATUS = 52,
    STAT__COUNT
};

static bool read_stat(pid_t pid, pid_t tid, struct proc *ret)
{
    char text[1024];
    uint64_t fields[STAT__COUNT] = {0};
    if (!proc_read_file(pid, tid, "stat", text, sizeof text))
        return false;
    /* "pid (comm) state …": the name may hold any byte, even parentheses. */
    char *open = strchr(text, '('), *close = strrchr(text, ')');
    if (!open || !close || close < open || strlen(close) < sizeof ") S")
        return false;
    char *at = close + strlen(") S");
    for (int i = STAT_STATE + 1; i < STAT__COUNT; i++)
        fields[i] = strtoull(at, &at, 10);
    *ret = (struct proc){.pid = pid,
                         .ppid = (pid_t)fields[STAT_PPID],
                         .pgid = (pid_t)fields[STAT_PGID],
                         .sid = (pid_t)fields[STAT_SID],
                         .state = close[2],
                         .threads = (int)fields[STAT_THREADS],
                         .flags = (unsigned)fields[STAT_FLAGS],
                         .status = (int)fields[STAT_STATUS],
                         .ticks = fields[STAT_USER_TICKS] + fields[STAT_KERNEL_TICKS],
                         .started = fields[STAT_STARTED]};
    *close = '\0';
    str_copy(ret->comm, sizeof ret->comm, open + 1);
    str_printable(ret->comm);
    return true;
}

bool proc_read(pid_t pid, struct proc *ret)
{
    return read_stat(pid, 0, ret);
}

bool proc_is_ours(void)
{
    char text[24] = "";
    return readlink("/proc/self", text, sizeof text - 1) > 0 && atoi(text) == (int)getpid();
}

bool proc_is_dead(const struct proc *proc)
{
    return (proc->state == 'Z' && proc->threads <= 1) || proc->state == 'X';
}

enum { FLAG_EXITING = 4 }; /* of the kernel's PF_ flags */

/* The thread ends or is about to: the kernel marks such a thread with a pending SIGKILL. */
static bool thread_is_ending(pid_t pid, pid_t tid)
{
    struct proc thread;
    return !read_stat(pid, tid, &thread) || thread.flags & FLAG_EXITING ||
           status_field(pid, tid, "\nSigPnd:", 16) & 1 << (SIGKILL - 1);
}

static DIR *open_threads(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    return opendir(path);
}

pid_t proc_next(DIR *list)
{
    const struct dirent *entry;
    pid_t pid = 0;
    while (pid <= 0 && (entry = readdir(list)))
        pid = atoi(entry->d_name);
    return pid;
}

/* One other thread is enough: the kernel ends all threads or none. */
static bool another_is_ending(pid_t pid)
{
    pid_t tid;
    DIR *threads = open_threads(pid);
    if (!threads)
        return false;
    while ((tid = proc_next(threads)) == pid)
        ;
    closedir(threads);
    return tid == 0 || thread_is_ending(pid, tid);
}

/* The kernel shows an exit status as soon as all threads are told to end. But it also shows one for
 * a stopped process, for a debugged process that runs again, and for a first thread that ended
 * alone. */
int proc_died_with(pid_t pid)
{
    struct proc proc;
    if (!proc_read(pid, &proc) || proc.state == 'T' || proc.state == 't' || proc.status == 0)
        return 0;
    bool is_ending = proc.flags & FLAG_EXITING ? proc.threads <= 1 || another_is_ending(pid)
                                               : thread_is_ending(pid, pid);
    return is_ending ? proc.status : 0;
}

bool proc_is_traced(pid_t pid)
{
    return status_field(pid, 0, "\nTracerPid:", 10) > 0;
}

bool proc_is_descendant(pid_t pid)
{
    enum { DEPTH_MAX = 256 }; /* bounded, because a reused pid could make a cycle */
    pid_t us = getpid();
    struct proc proc;
    for (int depth = 0; depth < DEPTH_MAX && pid > 1; depth++) {
        if (!proc_read(pid, &proc))
            return false;
        if (proc.ppid == us)
            return true;
        pid = proc.ppid;
    }
    return false;
}

/* The entry that begins with `what` and then `end`; NULL: none, or unknown. The caller frees it. */
static char *find_env(pid_t pid, const char *what, char end)
{
    char path[32], *entry = NULL;
    size_t size = 0, len = strlen(what);
    bool has_it = false;
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    FILE *entries = fopen(path, "re");
    while (entries && !has_it && getdelim(&entry, &size, '\0', entries) > 0)
        has_it = strncmp(entry, what, len) == 0 && entry[len] == end;
    if (entries)
        fclose(entries);
    if (has_it)
        return entry;
    free(entry);
    return NULL;
}

bool proc_has_env(pid_t pid, const char *what)
{
    char *entry = find_env(pid, what, strchr(what, '=') ? '\0' : '=');
    bool has_it = entry;
    free(entry);
    return has_it;
}

bool proc_read_env(pid_t pid, const char *name, char *ret, size_t size)
{
    char *entry = find_env(pid, name, '=');
    bool ok = entry && str_copy(ret, size, strchr(entry, '=') + 1);
    free(entry);
    return ok;
}

bool proc_program(pid_t pid, char *ret, size_t size)
{
    char link[32], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/%d/exe", (int)pid);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    str_copy(ret, size, basename(path));
    return n > 0;
}

bool proc_runs(pid_t pid, const char *name)
{
    char program[NAME_MAX + 1];
    size_t len = strlen(name);
    return proc_program(pid, program, sizeof program) && str_starts(program, name) &&
           strspn(program + len, STR_DIGITS ".") == strlen(program + len);
}

bool proc_has_open(pid_t pid, uint64_t device, uint64_t inode)
{
    char path[32];
    struct stat st;
    bool has_it = false;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *files = opendir(path);
    for (const struct dirent *entry; files && !has_it && (entry = readdir(files));)
        has_it = fstatat(dirfd(files), entry->d_name, &st, 0) == 0 && st.st_dev == device &&
                 st.st_ino == inode;
    if (files)
        closedir(files);
    return has_it;
}

char *proc_wchan(pid_t pid, char *text, size_t size)
{
    if (!proc_read_file(pid, 0, "wchan", text, size) || str_is(text, "0"))
        text[0] = '\0';
    return str_printable(text);
}

bool proc_is_foreign(pid_t pid, unsigned *ret)
{
    if (proc_kill(pid, 0) || errno != EPERM)
        return false;
    int64_t user = status_field(pid, 0, "\nUid:", 10);
    *ret = (unsigned)user;
    return user >= 0;
}

bool proc_kill(pid_t pid, int number)
{
    return pid > 1 && kill(pid, number) == 0;
}

bool proc_kill_group(pid_t pgid, int number)
{
    return pgid > 1 && pgid != getpgrp() && kill(-pgid, number) == 0;
}

void proc_stop_us(bool with_group)
{
    /* We block SIGTSTP, so it stops only other processes. SIGCONT discards our pending SIGTSTP. */
    if (with_group)
        kill(0, SIGTSTP);
    raise(SIGSTOP);
}

bool proc_signal(const struct proc *proc, int number)
{
    if (proc->pid <= 1)
        return false;
    if (!proc->started)
        return proc_kill(proc->pid, number);
    FD_CLEANUP int pidfd = (int)syscall(SYS_pidfd_open, proc->pid, 0);
    /* The pidfd refers to the pid's present process: check that this is still the same process. */
    struct proc now;
    if (!proc_read(proc->pid, &now) || now.started != proc->started)
        return false;
    if (pidfd >= 0 && syscall(SYS_pidfd_send_signal, pidfd, number, NULL, 0) == 0)
        return true;
    bool has_ended = pidfd >= 0 && errno == ESRCH;
    return !has_ended && proc_kill(proc->pid, number);
}

/* --- handlers --- */

/* `set`: a set of signals in the file "status". False also if it is unknown. */
static bool has_signal(pid_t pid, pid_t tid, const char *set, int number)
{
    int64_t signals = status_field(pid, tid, set, 16);
    return signals != -1 && (uint64_t)signals >> (number - 1) & 1;
}

bool proc_handles(pid_t pid, int number)
{
    return has_signal(pid, 0, "\nSigCgt:", number);
}

pid_t proc_ready_thread(pid_t pid, int number)
{
    struct proc thread;
    pid_t tid = 0;
    DIR *threads = open_threads(pid);
    bool is_ready = false;
    while (threads && !is_ready && (tid = proc_next(threads)))
        is_ready = read_stat(pid, tid, &thread) && strchr("RS", thread.state) &&
                   !has_signal(pid, tid, "\nSigBlk:", number);
    if (threads)
        closedir(threads);
    return tid;
}

bool proc_is_busy_with(pid_t pid, pid_t tid, int number)
{
    return has_signal(pid, tid, "\nSigPnd:", number) || has_signal(pid, tid, "\nSigBlk:", number);
}

bool proc_signal_thread(pid_t pid, pid_t tid, int number)
{
    return pid > 1 && tid > 1 && proc_handles(pid, number) &&
           syscall(SYS_tgkill, pid, tid, number) == 0;
}

/* --- threads --- */

static void add_file(pid_t pid, pid_t tid, const char *name, char *text, size_t size)
{
    char value[256];
    if (!proc_read_file(pid, tid, name, value, sizeof value))
        return;
    value[strcspn(value, "\n")] = '\0';
    if (value[0] && !str_is(value, "0"))
        str_addf(text, size, ", %s %s", name, str_printable(value));
}

static void add_stack(pid_t pid, pid_t tid, char *text, size_t size)
{
    char stack[STACK_SIZE];
    if (!proc_read_file(pid, tid, "stack", stack, sizeof stack))
        return;
    char *rest = stack, *line;
    while ((line = strsep(&rest, "\n")) && (*line || rest))
        str_addf(text, size, "%*s%s\n", STACK_INDENT, "", str_printable(line));
}

static bool write_thread(int fd, pid_t pid, pid_t tid)
{
    char text[2 * STACK_SIZE];
    struct proc thread;
    snprintf(text, sizeof text, "  thread %d", (int)tid);
    if (read_stat(pid, tid, &thread))
        str_addf(text, sizeof text, " (%s): state %c, cpu %.2f s", thread.comm, thread.state,
                 (double)thread.ticks / (double)sysconf(_SC_CLK_TCK));
    add_file(pid, tid, "wchan", text, sizeof text);
    add_file(pid, tid, "syscall", text, sizeof text);
    str_addf(text, sizeof text, "\n");
    add_stack(pid, tid, text, sizeof text);
    return fd_write_all(fd, text, strlen(text));
}

bool proc_write_threads(int fd, pid_t pid, int max)
{
    DIR *threads = open_threads(pid);
    if (!threads)
        return dprintf(fd, "    it has ended\n") > 0;
    int n = 0;
    bool ok = true;
    for (pid_t tid; ok && (tid = proc_next(threads));)
        if (++n <= max)
            ok = write_thread(fd, pid, tid);
    closedir(threads);
    return ok && (n <= max || dprintf(fd, "    and %d more threads\n", n - max) > 0);
}
