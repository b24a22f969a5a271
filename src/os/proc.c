/* SPDX-License-Identifier: Apache-2.0
 * See proc.h.
 */
#include "os/proc.h"

#include "base/fd.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/* Reads at most size - 1 bytes; "" on failure. */
static bool proc_read_file(pid_t pid, const char *name, char *text, size_t size)
{
    char path[96];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    return fd_read_text(path, text, size) > 0;
}

bool proc_read(pid_t pid, struct proc *ret)
{
    char text[1024];
    if (!proc_read_file(pid, "stat", text, sizeof text))
        return false;
    /* "pid (comm) state …": the name may hold any byte, even parentheses. */
    char *open = strchr(text, '('), *close = strrchr(text, ')');
    if (!open || !close || close < open)
        return false;
    struct proc proc = {.pid = pid};
    int ppid, pgid, sid;
    if (sscanf(close + 1,
               " %c %d %d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d %*d %" SCNu64,
               &proc.state, &ppid, &pgid, &sid, &proc.threads, &proc.started) != 6)
        return false;
    proc.ppid = ppid;
    proc.pgid = pgid;
    proc.sid = sid;
    *close = '\0';
    str_copy(proc.comm, sizeof proc.comm, open + 1);
    str_printable(proc.comm);
    *ret = proc;
    return true;
}

bool proc_is_ours(void)
{
    char text[24], pid[24];
    ssize_t len = readlink("/proc/self", text, sizeof text - 1);
    text[len > 0 ? len : 0] = '\0';
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    return str_is(text, pid);
}

bool proc_is_dead(const struct proc *proc)
{
    return (proc->state == 'Z' && proc->threads <= 1) || proc->state == 'X';
}

/* One field of /proc/PID/stat, numbered as in proc(5), from the fourth on. */
static long long stat_field(const char *text, int number)
{
    const char *at = strrchr(text, ')');
    for (int i = 2; at && i < number; i++)
        at = strchr(at + 1, ' ');
    return at ? strtoll(at, NULL, 10) : 0;
}

enum { STAT_FLAGS = 9, STAT_THREADS = 20, STAT_EXIT_CODE = 52, TASK_EXITING = 4 };

static bool is_exiting(const char *stat)
{
    return stat_field(stat, STAT_FLAGS) & TASK_EXITING;
}

/* The thread ends or is about to: the kernel marks such a thread with a pending SIGKILL. */
static bool thread_is_ending(pid_t pid, const char *thread)
{
    char name[64], text[4096];
    snprintf(name, sizeof name, "task/%.20s/stat", thread);
    if (!proc_read_file(pid, name, text, sizeof text) || is_exiting(text))
        return true;
    snprintf(name, sizeof name, "task/%.20s/status", thread);
    if (!proc_read_file(pid, name, text, sizeof text))
        return true;
    const char *pending = strstr(text, "\nSigPnd:");
    return pending && (strtoull(pending + strlen("\nSigPnd:"), NULL, 16) & (1ULL << (SIGKILL - 1)));
}

/* One other thread is enough: the kernel ends all threads or none. */
static bool another_is_ending(pid_t pid)
{
    char path[64], first[24];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    snprintf(first, sizeof first, "%d", (int)pid);
    DIR *dir = opendir(path);
    if (!dir)
        return false;
    const struct dirent *entry;
    while ((entry = readdir(dir)) && (entry->d_name[0] == '.' || str_is(entry->d_name, first)))
        ;
    bool is_ending = !entry || thread_is_ending(pid, entry->d_name);
    closedir(dir);
    return is_ending;
}

/* The kernel shows an exit status as soon as all threads are told to end. But it also shows one for
 * a stopped process, for a debugged process that runs again, and for a first thread that ended
 * alone. */
int proc_died_with(pid_t pid)
{
    char text[1024], first[24];
    if (!proc_read_file(pid, "stat", text, sizeof text))
        return 0;
    int status = (int)stat_field(text, STAT_EXIT_CODE);
    const char *state = strrchr(text, ')');
    bool is_stopped = state && (state[2] == 'T' || state[2] == 't');
    if (status == 0 || is_stopped)
        return 0;
    bool is_alone = stat_field(text, STAT_THREADS) <= 1;
    snprintf(first, sizeof first, "%d", (int)pid);
    bool is_ending =
        is_exiting(text) ? is_alone || another_is_ending(pid) : thread_is_ending(pid, first);
    return is_ending ? status : 0;
}

bool proc_is_traced(pid_t pid)
{
    char text[4096];
    static const char key[] = "\nTracerPid:";
    if (!proc_read_file(pid, "status", text, sizeof text))
        return false;
    const char *tracer = strstr(text, key);
    return tracer && atoi(tracer + sizeof key - 1) != 0;
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

/* Searches for "\0name=" in pieces of text; `at` bytes have matched so far. */
struct env_search {
    const char *name;
    size_t len, at;
    bool is_in_name; /* since the last NUL only a prefix of the name was seen */
};

static bool env_search_feed(struct env_search *search, const char *data, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (data[i] == '\0') {
            search->at = 0;
            search->is_in_name = true;
        } else if (search->is_in_name && search->at == search->len && data[i] == '=') {
            return true;
        } else if (search->is_in_name && search->at < search->len &&
                   data[i] == search->name[search->at]) {
            search->at++;
        } else {
            search->is_in_name = false;
        }
    }
    return false;
}

bool proc_has_env(pid_t pid, const char *name)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    FD_CLEANUP int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    struct env_search search = {.name = name, .len = strlen(name), .is_in_name = true};
    char data[4096];
    ssize_t n;
    while ((n = read(fd, data, sizeof data)) > 0)
        if (env_search_feed(&search, data, (size_t)n))
            return true;
    return false;
}

char *proc_wchan(pid_t pid, char *text, size_t size)
{
    if (!proc_read_file(pid, "wchan", text, size) || str_is(text, "0"))
        text[0] = '\0';
    return str_printable(text);
}

bool proc_is_foreign(pid_t pid, unsigned *ret)
{
    char text[2048];
    if (proc_kill(pid, 0) || errno != EPERM || !proc_read_file(pid, "status", text, sizeof text))
        return false;
    const char *uid = strstr(text, "\nUid:");
    return uid && sscanf(uid, "\nUid: %u", ret) == 1;
}

bool proc_kill(pid_t pid, int number)
{
    return pid > 1 && kill(pid, number) == 0;
}

bool proc_kill_group(pid_t pgid, int number)
{
    return pgid > 1 && pgid != getpgrp() && kill(-pgid, number) == 0;
}

bool proc_signal(const struct proc *proc, int number)
{
    if (proc->pid <= 1)
        return false;
    if (!proc->started)
        return proc_kill(proc->pid, number);
    FD_CLEANUP int pidfd = (int)syscall(SYS_pidfd_open, proc->pid, 0);
    bool has_pidfd = pidfd >= 0;
    if (!has_pidfd && errno == ESRCH)
        return false;
    /* The pidfd refers to the pid's present process: check that it is still the same one. */
    struct proc now;
    if (!proc_read(proc->pid, &now) || now.started != proc->started)
        return false;
    if (has_pidfd && syscall(SYS_pidfd_send_signal, pidfd, number, NULL, 0) == 0)
        return true;
    if (has_pidfd && errno == ESRCH)
        return false;
    return proc_kill(proc->pid, number);
}
