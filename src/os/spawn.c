/* SPDX-License-Identifier: Apache-2.0
 * See spawn.h.
 */
#include "os/spawn.h"

#include "base/fd.h"
#include "base/str.h"
#include "os/signals.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

static const char default_path[] = "/bin:/usr/bin";
static char shell_path[] = "/bin/sh";

/* What the child needs to know about us, found out before fork. */
struct parent {
    pid_t pid;
    int pidfd; /* -1: the kernel has none */
};

static size_t count(char **list)
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
        /* An empty entry is the current directory. */
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

bool spawn_command_init(struct spawn_command *command, char **argv, const char *path,
                        struct err *err)
{
    size_t argc = count(argv);
    bool is_path = strchr(argv[0], '/') || !*argv[0];
    command->argv = argv;
    command->paths =
        is_path ? single_list(argv[0]) : search_list(argv[0], path ? path : default_path);
    command->script_argv = calloc(argc + 2, sizeof *command->script_argv);
    if (!command->paths || !command->script_argv) {
        spawn_command_free(command);
        return err_set(err, ERR_SYSTEM, ENOMEM, "cannot prepare the start of '%s'", argv[0]);
    }
    command->script_argv[0] = shell_path;
    for (size_t i = 1; i < argc; i++)
        command->script_argv[i + 1] = argv[i];
    return true;
}

void spawn_command_free(struct spawn_command *command)
{
    free(command->paths);
    free(command->script_argv);
    *command = (struct spawn_command){0};
}

/* From here on to child_run(): in the child, async-signal-safe. */

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

/* If we died between fork and prctl, no signal comes. The parent's pid tells, except where we are
 * in another PID namespace than our child (unshare --pid without --fork): there it is 0. */
static bool child_is_orphan(const struct parent *parent)
{
    pid_t now = getppid();
    struct pollfd ended = {.fd = parent->pidfd, .events = POLLIN};
    return now != parent->pid && (now != 0 || (parent->pidfd >= 0 && poll(&ended, 1, 0) > 0));
}

/* A first line without a NUL: a text, which a shell may try to run, as shells judge it. */
static bool child_is_text(const char *path)
{
    char data[128];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, data, sizeof data);
    for (ssize_t i = 0; i < n && data[i] != '\n'; i++)
        if (data[i] == '\0')
            return false;
    return n >= 0;
}

/* Tries one path; returns why it did not work. */
static int child_try(const struct spawn_request *request, char *path)
{
    const struct spawn_command *command = request->command;
    execve(path, command->argv, request->env);
    if (errno != ENOEXEC || !child_is_text(path))
        return errno;
    command->script_argv[1] = path;
    execve(shell_path, command->script_argv, request->env);
    return errno;
}

/* As execvp(3): a directory of PATH where it is not is passed over, and so is one where it may not
 * be run, but the latter is what is reported if it is nowhere else. */
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

static _Noreturn void child_fail(int report, enum err_code code, int why, const char *stage)
{
    struct err err;
    err_set_raw(&err, code, why, stage);
    ssize_t written = write(report, &err, sizeof err);
    _exit(written == (ssize_t)sizeof err ? 127 : 125);
}

static _Noreturn void child_run(const struct spawn_request *request, const struct parent *parent,
                                int report)
{
    if (request->new_session ? setsid() < 0 : setpgid(0, request->group) != 0)
        child_fail(report, ERR_SYSTEM, errno, "process group");
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        child_fail(report, ERR_SYSTEM, errno, "PR_SET_PDEATHSIG");
    if (child_is_orphan(parent))
        _exit(125);
    /* SIGTTOU is still blocked. It may fail: a terminal is a convenience. */
    if (request->tty >= 0 && tcsetpgrp(request->tty, getpgrp()) != 0)
        errno = 0;
    if (request->own_pid)
        child_write_pid(request->own_pid);
    for (int fd = 0; fd <= 2; fd++)
        if (request->closed & 1U << fd)
            close(fd);
    signals_restore();
    int why = child_exec(request);
    child_fail(report, why == ENOENT ? ERR_NOT_FOUND : ERR_NOT_EXEC, why, "exec");
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
    struct parent parent = {.pid = getpid(), .pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0)};
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        child_run(request, &parent, child_end);
    int why = errno;
    fd_close(&parent.pidfd);
    if (pid < 0)
        return err_set(err, ERR_SYSTEM, why,
                       "cannot start '%s': fork failed; look at the limits on processes and memory",
                       name);
    pid_t group = request->group && !request->new_session ? request->group : pid;
    /* The child does the same; whoever comes first, no signal to the group is lost. */
    if (!request->new_session)
        setpgid(pid, group);
    *ret = (struct spawn_child){.pid = pid, .group = group, .report = fd_take(&report)};
    return true;
}

static const char *advice(const struct spawn_command *command, int why)
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
            strerror(told.sys_errno), is_exec ? advice(command, told.sys_errno) : "");
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
        errno = 0; /* it pins a directory, no more */
}
