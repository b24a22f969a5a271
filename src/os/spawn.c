/* SPDX-License-Identifier: Apache-2.0
 * See spawn.h.
 */
#include "os/spawn.h"

#include "base/fd.h"
#include "base/str.h"
#include "os/cpus.h"
#include "os/proclimit.h"
#include "os/program.h"
#include "os/signals.h"

#include <alloca.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* New system calls have the same number on every architecture. */
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_clone3
#define SYS_clone3 435
#endif

static char shell_path[] = "/bin/sh";

/* The input of a child, which it reads between fork and exec. */
struct start {
    const struct spawn_request *request;
    pid_t parent;
    int parent_pidfd; /* -1: not supported by the kernel */
    int child_end;    /* of the pipe for the report */
    bool joins;       /* the child must move itself into its control group */
};

/* The report of a child that failed. */
struct failure {
    int why;           /* errno */
    const char *stage; /* a constant, which both processes have; NULL: exec */
};

/* The functions from here to child_run() run in the child. They take no lock of the C library, so
 * they allocate nothing: another thread may hold the allocator's lock, and clone3(2) does not
 * release it in the child. */

/* True if the parent died between fork and prctl: then no signal comes, but getppid() has changed.
 * It is 0 for a parent in another PID namespace (unshare --pid without --fork). */
static bool child_is_orphan(const struct start *start)
{
    pid_t now = getppid();
    struct pollfd ended = {.fd = start->parent_pidfd, .events = POLLIN};
    return now != start->parent &&
           (now != 0 || (start->parent_pidfd >= 0 && poll(&ended, 1, 0) > 0));
}

/* As in shells, a file without a NUL in its first line counts as a script, and sh may run it. */
static bool child_is_text(const char *path)
{
    char data[128] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, data, sizeof data);
    for (ssize_t i = 0; i < n && data[i] != '\n'; i++)
        if (data[i] == '\0')
            return false;
    return n >= 0;
}

/* Tries to execute one path; returns the errno. */
static int child_try(const struct start *start, char *path)
{
    const struct spawn_request *request = start->request;
    execve(path, request->argv, request->env);
    if (errno != ENOEXEC)
        return errno;
    if (!child_is_text(path))
        return ENOEXEC;
    /* The kernel limits arguments to a quarter of the stack, so there is room for this copy. */
    size_t n = str_count(request->argv);
    /* cppcheck-suppress allocaCalled ; no other memory may be taken after the fork */
    char **script = alloca((n + 2) * sizeof *script);
    script[0] = shell_path;
    script[1] = path;
    memcpy(script + 2, request->argv + 1, n * sizeof *script);
    execve(shell_path, script, request->env);
    return errno;
}

/* Like execvp(3): skips directories of PATH without the program or without permission to run it. If
 * no other is found, the missing permission is reported. */
static int child_exec(const struct start *start)
{
    const struct spawn_request *request = start->request;
    char *name = request->argv[0], file[PATH_MAX];
    int kept = ENOENT;
    if (strchr(name, '/') || !*name)
        return child_try(start, name);
    for (const char *at = request->path ? request->path : PROGRAM_PATH; at;) {
        at = program_next(at, name, file, sizeof file);
        int why = child_try(start, file);
        if (why == EACCES)
            kept = why;
        else if (why != ENOENT && why != ENOTDIR && why != ESTALE && why != ENODEV &&
                 why != ETIMEDOUT)
            return why;
    }
    return kept;
}

static _Noreturn void child_fail(const struct start *start, int why, const char *stage)
{
    struct failure failure = {.why = why, .stage = stage};
    ssize_t written = write(start->child_end, &failure, sizeof failure);
    _exit(written == (ssize_t)sizeof failure ? 127 : 125);
}

/* May fail, because the tree (tree.h) also finds the child. */
static void child_join(int cgroup)
{
    FD_CLEANUP int fd = openat(cgroup, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, "0", 1) != 1)
        errno = 0;
}

/* A child with is_apart gets none of the descriptors that pchrun inherited for the job. */
static void child_set_descriptors(const struct start *start)
{
    const struct spawn_request *request = start->request;
    for (int fd = 0; fd <= 2; fd++) {
        int stream = request->streams[fd];
        if (stream == SPAWN_NULL && !fd_silence(1U << fd))
            child_fail(start, errno, "/dev/null");
        if (stream > 0 && dup2(stream, fd) < 0)
            child_fail(start, errno, "standard output and error");
        if (stream == 0 && request->closed & 1U << fd)
            close(fd);
    }
    if (!request->is_apart)
        return;
    fd_range(3, FD_RANGE_CLOEXEC, NULL, 0);
    if (request->dir && chdir(request->dir) != 0)
        errno = 0;
}

static _Noreturn void child_run(const struct start *start)
{
    const struct spawn_request *request = start->request;
    if (start->joins)
        child_join(request->cgroup);
    if ((request->new_session ? setsid() : setpgid(0, 0)) < 0)
        child_fail(start, errno, "process group");
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        child_fail(start, errno, "PR_SET_PDEATHSIG");
    if (child_is_orphan(start))
        _exit(125);
    /* SIGTTOU is still blocked, so it does not stop us. May fail: the job needs no terminal. */
    if (request->tty >= 0)
        tcsetpgrp(request->tty, getpgrp());
    if (request->own_pid)
        snprintf(request->own_pid, SPAWN_PID_SIZE, "%d", (int)getpid());
    if (request->cpus) /* may fail: an administrator may have withdrawn these processors */
        sched_setaffinity(0, sizeof *request->cpus, request->cpus->sets);
    child_set_descriptors(start);
    fd_limit_restore();
    signals_restore(request->is_apart);
    child_fail(start, child_exec(start), NULL);
}

/* The functions from here on run in the parent. */

/* The argument of clone3(2) as 64-bit words, in the first version that can name a control group. */
enum { CLONE_FLAGS = 0, CLONE_EXIT_SIGNAL = 4, CLONE_CGROUP = 10, CLONE_WORDS = 11 };
#define INTO_CGROUP UINT64_C(0x200000000)

/* Forks into a control group. To move the child later takes the kernel some milliseconds. */
static pid_t fork_into(int cgroup)
{
    const uint64_t args[CLONE_WORDS] = {[CLONE_FLAGS] = INTO_CGROUP,
                                        [CLONE_EXIT_SIGNAL] = SIGCHLD,
                                        [CLONE_CGROUP] = (uint64_t)cgroup};
    return (pid_t)syscall(SYS_clone3, args, sizeof args);
}

/* Returns -1 and sets errno on failure. */
static pid_t start_child(struct start *start)
{
    int cgroup = start->request->cgroup;
    pid_t pid = cgroup > 0 ? fork_into(cgroup) : -1;
    if (pid < 0) { /* also before Linux 5.7, and in some sandboxes */
        start->joins = cgroup > 0;
        pid = fork();
    }
    if (pid == 0)
        child_run(start);
    return pid;
}

pid_t spawn_start(const struct spawn_request *request, int *ret_report, struct err *err)
{
    const char *name = request->argv[0];
    int ends[2];
    if (!fd_pipe(ends, 0, err))
        return err_wrap(err, "cannot start '%s'", name);
    FD_CLEANUP int report = ends[0];
    FD_CLEANUP int child_end = ends[1];
    struct start start = {.request = request, .parent = getpid(), .child_end = child_end};
    start.parent_pidfd = (int)syscall(SYS_pidfd_open, start.parent, 0);
    pid_t pid = start_child(&start);
    int why = errno;
    fd_close(&start.parent_pidfd); /* the child has a descriptor of its own */
    if (pid < 0) {
        err_set(err, ERR_SYSTEM, why, "cannot start '%s': fork failed", name);
        proclimit_explain(err);
        return 0;
    }
    /* Parent and child both do this, so that the group exists before any signal to it. */
    if (!request->new_session)
        setpgid(pid, pid);
    *ret_report = fd_take(&report);
    return pid;
}

static const char *spawn_advice(const char *name, int why)
{
    switch (why) {
    case ENOENT:
        return strchr(name, '/') ? "; there is no such file, or the interpreter that "
                                   "it names is missing"
                                 : "; it is in no directory of PATH";
    case EACCES:
        return "; is it a file with permission to execute (chmod +x), on a file system without "
               "noexec?";
    case E2BIG:
        return "; its arguments and environment are too long together";
    default:
        return "";
    }
}

enum spawn_result spawn_result(int report, const char *name, struct err *err)
{
    struct failure failure;
    ssize_t n = read(report, &failure, sizeof failure);
    if (n != (ssize_t)sizeof failure)
        return n < 0 && errno == EAGAIN ? SPAWN_PENDING : SPAWN_RUNNING;
    if (failure.stage)
        err_set(err, ERR_SYSTEM, 0, "cannot start '%s', %s: %s", name, failure.stage,
                strerror(failure.why));
    else
        err_set(err, failure.why == ENOENT ? ERR_NOT_FOUND : ERR_NOT_EXEC, 0,
                "cannot execute '%s': %s%s%s", name, strerror(failure.why),
                spawn_advice(name, failure.why),
                failure.why == ENOENT && !strchr(name, '/') ? program_advice(name) : "");
    err->sys_errno = failure.why;
    return SPAWN_FAILED;
}

void spawn_let_go(void)
{
    fd_silence(1U << STDIN_FILENO | 1U << STDOUT_FILENO);
    fd_range(3, FD_RANGE_CLOSE_INHERITED, NULL, 0);
    if (chdir("/") != 0)
        errno = 0; /* harmless: the directory stays in use */
}
