/* SPDX-License-Identifier: Apache-2.0
 * See spawn.h.
 */
#include "os/spawn.h"

#include "base/fd.h"
#include "base/str.h"
#include "os/cpus.h"
#include "os/signals.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Young system calls have one number on every architecture. */
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_clone3
#define SYS_clone3 435
#endif

static const char default_path[] = "/bin:/usr/bin";
static char shell_path[] = "/bin/sh";

/* The input of a child, which it reads between fork and exec. */
struct start {
    const struct spawn_request *request;
    pid_t parent;
    int parent_pidfd; /* -1: not supported by the kernel */
    int child_end;    /* of the pipe for the report */
    bool joins;       /* the child must move itself into its control group */
};

static size_t spawn_count(char **list)
{
    size_t n = 0;
    while (list[n])
        n++;
    return n;
}

/* One allocation: the pointers, then the texts they point to. */
static char **search_list(const char *name, const char *path)
{
    size_t dirs = 1, name_len = strlen(name);
    for (const char *p = path; *p; p++)
        dirs += *p == ':';
    char **list =
        malloc((dirs + 1) * sizeof *list + strlen(path) + 1 + dirs * (name_len + sizeof "./"));
    if (!list)
        return NULL;
    char *text = (char *)(list + dirs + 1);
    for (size_t i = 0; i < dirs; i++) {
        size_t len = strcspn(path, ":");
        list[i] = text;
        text += sprintf(text, "%.*s/%s", len ? (int)len : 1, len ? path : ".", name) + 1;
        path += len + (path[len] == ':');
    }
    list[dirs] = NULL;
    return list;
}

static char **single_list(char *path)
{
    char **list = malloc(2 * sizeof *list);
    if (list) {
        list[0] = path;
        list[1] = NULL;
    }
    return list;
}

/* sh, the path, the arguments, NULL. */
static char **script_args(char **argv)
{
    size_t argc = spawn_count(argv);
    char **args = calloc(argc + 2, sizeof *args);
    if (args) {
        args[0] = shell_path;
        memcpy(args + 2, argv + 1, argc * sizeof *args);
    }
    return args;
}

bool spawn_command_init(struct spawn_command *command, char **argv, const char *path,
                        struct err *err)
{
    bool is_path = strchr(argv[0], '/') || !*argv[0];
    command->argv = argv;
    command->paths =
        is_path ? single_list(argv[0]) : search_list(argv[0], path ? path : default_path);
    command->script_argv = script_args(argv);
    if (command->paths && command->script_argv)
        return true;
    spawn_command_free(command);
    return err_set(err, ERR_SYSTEM, ENOMEM, "cannot prepare the start of '%s'", argv[0]);
}

void spawn_command_free(struct spawn_command *command)
{
    free(command->paths);
    free(command->script_argv);
    *command = (struct spawn_command){0};
}

/* From here to child_run(): runs in the child, so only with async-signal-safe functions. */

static void child_write_pid(char *text)
{
    char digits[SPAWN_PID_SIZE];
    size_t n = 0;
    for (pid_t pid = getpid(); pid > 0; pid /= 10)
        digits[n++] = (char)('0' + pid % 10);
    while (n > 0)
        *text++ = digits[--n];
    *text = '\0';
}

/* If the parent dies between fork and prctl, no signal comes. Then the parent's pid has changed. It
 * is 0 if the parent is in another PID namespace (unshare --pid without --fork). */
static bool child_is_orphan(const struct start *start)
{
    pid_t now = getppid();
    struct pollfd ended = {.fd = start->parent_pidfd, .events = POLLIN};
    return now != start->parent &&
           (now != 0 || (start->parent_pidfd >= 0 && poll(&ended, 1, 0) > 0));
}

/* Like shells: a file whose first line has no NUL is text, and sh may run it. */
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

/* Tries one path; returns the errno. */
static int child_try(const struct spawn_request *request, char *path)
{
    const struct spawn_command *command = request->command;
    execve(path, command->argv, request->env);
    if (errno != ENOEXEC)
        return errno;
    if (!child_is_text(path))
        return ENOEXEC;
    command->script_argv[1] = path;
    execve(shell_path, command->script_argv, request->env);
    return errno;
}

/* Like execvp(3): skips directories of PATH without the program or without permission to run it. If
 * no other is found, the missing permission is reported. */
static int child_exec(const struct spawn_request *request)
{
    const struct spawn_command *command = request->command;
    int kept = ENOENT;
    if (command->paths[0] == command->argv[0])
        return child_try(request, command->paths[0]);
    for (char **path = command->paths; *path; path++) {
        int why = child_try(request, *path);
        if (why == EACCES)
            kept = why;
        else if (why != ENOENT && why != ENOTDIR && why != ESTALE && why != ENODEV &&
                 why != ETIMEDOUT)
            return why;
    }
    return kept;
}

static _Noreturn void child_fail(const struct start *start, enum err_code code, int why,
                                 const char *stage)
{
    struct err err;
    err_set_raw(&err, code, why, stage);
    ssize_t written = write(start->child_end, &err, sizeof err);
    _exit(written == (ssize_t)sizeof err ? 127 : 125);
}

/* A program apart gets nothing that was inherited for the job. */
static void child_go_apart(const struct spawn_apart *apart)
{
    for (int fd = 0; fd <= 2; fd++)
        dup2(apart->streams[fd], fd);
    fd_range(3, FD_RANGE_CLOEXEC, NULL, 0);
    if (apart->dir && chdir(apart->dir) != 0)
        errno = 0;
}

static void child_unblock_all(void)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* May fail: the tree (tree.h) finds the child, too. */
static void child_join(int cgroup)
{
    FD_CLEANUP int fd = openat(cgroup, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, "0", 1) != 1)
        errno = 0;
}

static void child_set_descriptors(const struct start *start)
{
    const struct spawn_request *request = start->request;
    for (int i = 0; request->has_output && i < 2; i++)
        if (dup2(request->output[i], STDOUT_FILENO + i) < 0)
            child_fail(start, ERR_SYSTEM, errno, "its standard output and error");
    for (int fd = 0; fd <= (request->has_output ? STDIN_FILENO : STDERR_FILENO); fd++)
        if (request->closed & 1U << fd)
            close(fd);
    if (request->apart)
        child_go_apart(request->apart);
}

static _Noreturn void child_run(const struct start *start)
{
    const struct spawn_request *request = start->request;
    if (start->joins)
        child_join(request->cgroup);
    if ((request->new_session ? setsid() : setpgid(0, request->group)) < 0)
        child_fail(start, ERR_SYSTEM, errno, "process group");
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        child_fail(start, ERR_SYSTEM, errno, "PR_SET_PDEATHSIG");
    if (child_is_orphan(start))
        _exit(125);
    /* SIGTTOU is still blocked. May fail: a terminal is a convenience. */
    if (request->tty >= 0)
        tcsetpgrp(request->tty, getpgrp());
    if (request->own_pid)
        child_write_pid(request->own_pid);
    if (request->cpus) /* may fail: an administrator may have withdrawn them */
        sched_setaffinity(0, sizeof *request->cpus, request->cpus->sets);
    child_set_descriptors(start);
    fd_limit_restore();
    signals_restore();
    if (request->apart) {
        signals_tell_of_children();
        child_unblock_all();
    }
    int why = child_exec(request);
    child_fail(start, why == ENOENT ? ERR_NOT_FOUND : ERR_NOT_EXEC, why, "exec");
}

/* In the parent again */

/* The argument of clone3(2), in the first version that can name a control group: these words. */
enum { CLONE_FLAGS = 0, CLONE_EXIT_SIGNAL = 4, CLONE_CGROUP = 10, CLONE_WORDS = 11 };
#define INTO_CGROUP UINT64_C(0x200000000)

/* A fork that begins inside a control group: a later move takes the kernel some milliseconds. */
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

bool spawn_start(const struct spawn_request *request, struct spawn_child *ret, struct err *err)
{
    const char *name = request->command->argv[0];
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return err_set(err, ERR_SYSTEM, errno, "cannot start '%s': no pipe to watch its start",
                       name);
    FD_CLEANUP int report = ends[0];
    FD_CLEANUP int child_end = ends[1];
    if (!fd_set_nonblock(report, err))
        return false;
    struct start start = {.request = request, .parent = getpid(), .child_end = child_end};
    start.parent_pidfd = (int)syscall(SYS_pidfd_open, start.parent, 0);
    pid_t pid = start_child(&start);
    int why = errno;
    fd_close(&start.parent_pidfd); /* the child has its own */
    if (pid < 0)
        return err_set(err, ERR_SYSTEM, why,
                       "cannot start '%s': fork failed; check the limits on processes and memory",
                       name);
    pid_t group = request->group && !request->new_session ? request->group : pid;
    /* Parent and child both do this, so that the group exists before any signal to it. */
    if (!request->new_session)
        setpgid(pid, group);
    *ret = (struct spawn_child){.pid = pid, .group = group, .report = fd_take(&report)};
    return true;
}

static const char *spawn_advice(const struct spawn_command *command, int why)
{
    switch (why) {
    case ENOENT:
        return strchr(command->argv[0], '/') ? "; there is no such file, or the interpreter that "
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

enum spawn_result spawn_result(int report, const struct spawn_command *command, struct err *err)
{
    struct err told;
    ssize_t n;
    do
        n = read(report, &told, sizeof told);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return SPAWN_PENDING;
    if (n == 0)
        return SPAWN_RUNNING;
    const char *name = command->argv[0];
    if (n != (ssize_t)sizeof told) {
        err_set(err, ERR_SYSTEM, n < 0 ? errno : EPROTO,
                "cannot tell whether '%s' started: its report has %zd bytes", name, n);
        return SPAWN_FAILED;
    }
    told.text[sizeof told.text - 1] = '\0';
    bool is_exec = told.code != ERR_SYSTEM;
    err_set(err, (enum err_code)told.code, 0, "cannot %s '%s'%s%s: %s%s",
            is_exec ? "execute" : "start", name, is_exec ? "" : ", ", is_exec ? "" : told.text,
            strerror(told.sys_errno), is_exec ? spawn_advice(command, told.sys_errno) : "");
    err->sys_errno = told.sys_errno;
    return SPAWN_FAILED;
}

static void close_if_inherited(int fd)
{
    int flags = fcntl(fd, F_GETFD);
    if (flags >= 0 && !(flags & FD_CLOEXEC))
        close(fd);
}

void spawn_close_inherited(void)
{
    DIR *dir = opendir("/proc/self/fd");
    if (!dir) {
        long max = sysconf(_SC_OPEN_MAX);
        for (int fd = 3; fd < (max > 0 && max < 65536 ? max : 65536); fd++)
            close_if_inherited(fd);
        return;
    }
    struct dirent *entry;
    int64_t fd;
    while ((entry = readdir(dir)))
        if (str_to_i64(entry->d_name, 3, INT_MAX, &fd))
            close_if_inherited((int)fd);
    closedir(dir);
}

void spawn_let_go(void)
{
    FD_CLEANUP int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
    }
    spawn_close_inherited();
    if (chdir("/") != 0)
        errno = 0; /* harmless: the directory stays in use */
}
