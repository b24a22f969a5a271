/* SPDX-License-Identifier: Apache-2.0
 * See spawn.h.
 */
#include "os/spawn.h"

#include "base/fd.h"
#include "base/str.h"
#include "os/cpus.h"
#include "os/limits.h"
#include "os/rawcall.h"
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
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#define IS_SANITIZED                                                        \
    (__has_feature(address_sanitizer) || __has_feature(memory_sanitizer) || \
     __has_feature(thread_sanitizer))
#else
#define IS_SANITIZED 0
#endif

#ifdef HAVE_VALGRIND
#include <valgrind/valgrind.h>
#else
#define RUNNING_ON_VALGRIND 0
#endif

static const char default_path[] = "/bin:/usr/bin";
static char shell_path[] = "/bin/sh";

/* All data that a child reads and writes; it shares none of it. */
struct spawn_start {
    struct spawn_request request;
    pid_t parent;
    int parent_pidfd; /* -1: not supported by the kernel */
    int child_end;    /* of the pipe for the report */
    bool joins;       /* the child must move itself into its control group */
    _Alignas(16) char stack[16 * 1024];
    char *script_argv[]; /* for a script without a "#!" line: sh, the path, the arguments */
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
    bool is_path = strchr(argv[0], '/') || !*argv[0];
    command->argv = argv;
    command->paths =
        is_path ? single_list(argv[0]) : search_list(argv[0], path ? path : default_path);
    return command->paths ||
           err_set(err, ERR_SYSTEM, ENOMEM, "cannot prepare the start of '%s'", argv[0]);
}

void spawn_command_free(struct spawn_command *command)
{
    free(command->paths);
    *command = (struct spawn_command){0};
}

/* From here to child_run(): runs in the child, which may share our memory. So it writes only to its
 * stack, its `struct spawn_start` and its own_pid, and does not use errno. */

#define ARG(pointer) ((long)(uintptr_t)(pointer))

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
static bool child_is_orphan(const struct spawn_start *start)
{
    pid_t now = getppid();
    struct pollfd ended = {.fd = start->parent_pidfd, .events = POLLIN};
    struct timespec at_once = {0};
    return now != start->parent &&
           (now != 0 ||
            (start->parent_pidfd >= 0 && rawcall(SYS_ppoll, ARG(&ended), 1, ARG(&at_once), 0) > 0));
}

/* Like shells: a file whose first line has no NUL is text, and sh may run it. */
static bool child_is_text(const char *path)
{
    char data[128] = "";
    long fd = rawcall(SYS_openat, AT_FDCWD, ARG(path), O_RDONLY | O_CLOEXEC, 0);
    long n = fd < 0 ? -1 : rawcall(SYS_read, fd, ARG(data), sizeof data, 0);
    for (long i = 0; i < n && data[i] != '\n'; i++)
        if (data[i] == '\0')
            return false;
    return n >= 0;
}

/* Tries one path; returns the errno. */
static int child_try(struct spawn_start *start, char *path)
{
    const struct spawn_request *request = &start->request;
    long why = rawcall(SYS_execve, ARG(path), ARG(request->command->argv), ARG(request->env), 0);
    if (why != -ENOEXEC || !child_is_text(path))
        return (int)-why;
    start->script_argv[1] = path;
    return (int)-rawcall(SYS_execve, ARG(shell_path), ARG(start->script_argv), ARG(request->env),
                         0);
}

/* Like execvp(3): skips directories of PATH without the program or without permission to run it. If
 * no other is found, the missing permission is reported. */
static int child_exec(struct spawn_start *start)
{
    const struct spawn_command *command = start->request.command;
    int kept = ENOENT;
    if (command->paths[0] == command->argv[0])
        return child_try(start, command->paths[0]);
    for (char **path = command->paths; *path; path++) {
        int why = child_try(start, *path);
        if (why == EACCES)
            kept = why;
        else if (why != ENOENT && why != ENOTDIR && why != ESTALE && why != ENODEV &&
                 why != ETIMEDOUT)
            return why;
    }
    return kept;
}

static _Noreturn void child_fail(const struct spawn_start *start, enum err_code code, long why,
                                 const char *stage)
{
    struct err err;
    err_set_raw(&err, code, (int)why, stage);
    long written = rawcall(SYS_write, start->child_end, ARG(&err), sizeof err, 0);
    _exit(written == (long)sizeof err ? 127 : 125);
}

/* A program apart gets nothing that was inherited for the job. Never runs in shared memory. */
static void child_go_apart(const struct spawn_apart *apart)
{
    for (int fd = 0; fd <= 2; fd++)
        dup2(apart->streams[fd], fd);
    fd_range(3, FD_RANGE_CLOEXEC, NULL, 0);
    if (apart->dir && chdir(apart->dir) != 0)
        errno = 0;
}

/* False: *ret_why says why not. */
static bool child_set_output(const int *output, long *ret_why)
{
    for (int i = 0; i < 2; i++) {
        *ret_why = rawcall(SYS_dup3, output[i], STDOUT_FILENO + i, 0, 0);
        if (*ret_why < 0)
            return false;
    }
    return true;
}

static void child_unblock_all(void)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* May fail: the tree (tree.h) finds the child, too. */
static void child_join(const struct spawn_start *start)
{
    long fd =
        rawcall(SYS_openat, start->request.cgroup, ARG("cgroup.procs"), O_WRONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return;
    rawcall(SYS_write, fd, ARG("0"), 1, 0);
    rawcall(SYS_close, fd, 0, 0, 0);
}

static _Noreturn void child_run(struct spawn_start *start)
{
    const struct spawn_request *request = &start->request;
    if (start->joins)
        child_join(start);
    long why = request->new_session ? rawcall(SYS_setsid, 0, 0, 0, 0)
                                    : rawcall(SYS_setpgid, 0, request->group, 0, 0);
    if (why < 0)
        child_fail(start, ERR_SYSTEM, -why, "process group");
    why = rawcall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0);
    if (why < 0)
        child_fail(start, ERR_SYSTEM, -why, "PR_SET_PDEATHSIG");
    if (child_is_orphan(start))
        _exit(125);
    /* SIGTTOU is still blocked. May fail: a terminal is a convenience. */
    pid_t group = getpgrp();
    if (request->tty >= 0)
        rawcall(SYS_ioctl, request->tty, TIOCSPGRP, ARG(&group), 0);
    if (request->own_pid)
        child_write_pid(request->own_pid);
    if (request->cpus) /* may fail: an administrator may have withdrawn them */
        rawcall(SYS_sched_setaffinity, 0, sizeof *request->cpus, ARG(request->cpus), 0);
    if (request->has_output && !child_set_output(request->output, &why))
        child_fail(start, ERR_SYSTEM, -why, "its standard output and error");
    for (int fd = 0; fd <= (request->has_output ? STDIN_FILENO : STDERR_FILENO); fd++)
        if (request->closed & 1U << fd)
            rawcall(SYS_close, fd, 0, 0, 0);
    if (request->apart)
        child_go_apart(request->apart);
    limits_restore();
    signals_restore();
    if (request->apart) {
        signals_tell_of_children();
        child_unblock_all();
    }
    why = child_exec(start);
    child_fail(start, why == ENOENT ? ERR_NOT_FOUND : ERR_NOT_EXEC, why, "exec");
}

static int child_main(void *start)
{
    child_run(start);
}

/* In the parent again */

static struct spawn_start *start_new(const struct spawn_request *request, int child_end)
{
    size_t argc = count(request->command->argv);
    struct spawn_start *start = malloc(sizeof *start + (argc + 2) * sizeof start->script_argv[0]);
    if (!start)
        return NULL;
    start->request = *request;
    start->child_end = child_end;
    start->joins = false;
    start->parent = getpid();
    start->parent_pidfd = (int)syscall(SYS_pidfd_open, start->parent, 0);
    start->script_argv[0] = shell_path;
    for (size_t i = 1; i <= argc; i++) /* also the NULL */
        start->script_argv[i + 1] = request->command->argv[i];
    return start;
}

/* Sanitizers and Valgrind do not support CLONE_VM. A program apart needs more setup, and its start
 * need not be fast. */
static bool can_share(const struct spawn_start *start)
{
    return RAWCALL_EXISTS && !IS_SANITIZED && !RUNNING_ON_VALGRIND && !start->request.apart;
}

/* Fields of clone3(2)'s argument, by number, in the first version that can name a control group. */
enum { INTO_FLAGS, INTO_EXIT_SIGNAL = 4, INTO_STACK, INTO_STACK_SIZE, INTO_GROUP = 10, INTO_COUNT };
#define INTO_CGROUP UINT64_C(0x200000000)

/* Starts the child inside its control group: a later move takes the kernel some milliseconds. */
static pid_t clone_into(struct spawn_start *start)
{
    uint64_t args[INTO_COUNT] = {[INTO_FLAGS] = CLONE_VM | INTO_CGROUP,
                                 [INTO_EXIT_SIGNAL] = SIGCHLD,
                                 [INTO_STACK] = (uint64_t)(uintptr_t)start->stack,
                                 [INTO_STACK_SIZE] = sizeof start->stack,
                                 [INTO_GROUP] = (uint64_t)start->request.cgroup};
    return (pid_t)rawclone(args, sizeof args, child_main, start);
}

/* Sets *start to NULL if the child has its own copy. An emulator or sandbox may support clone()
 * only as fork() and threads use it. Returns -1 and sets errno on failure. */
static pid_t start_child(struct spawn_start **start)
{
    char *stack_end = (*start)->stack + sizeof(*start)->stack;
    bool has_cgroup = (*start)->request.cgroup > 0;
    pid_t pid = has_cgroup && can_share(*start) ? clone_into(*start) : -1;
    if (pid > 0)
        return pid;
    (*start)->joins = has_cgroup;
    pid = can_share(*start) ? clone(child_main, stack_end, CLONE_VM | SIGCHLD, *start) : -1;
    if (pid > 0)
        return pid;
    pid = fork();
    if (pid == 0)
        child_run(*start);
    int why = errno;
    spawn_release(*start);
    *start = NULL;
    errno = why;
    return pid;
}

void spawn_release(struct spawn_start *start)
{
    free(start);
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
    struct spawn_start *start = start_new(request, child_end);
    if (!start)
        return err_set(err, ERR_SYSTEM, ENOMEM, "cannot start '%s'", name);
    int parent = start->parent_pidfd;
    pid_t pid = start_child(&start);
    int why = errno;
    fd_close(&parent); /* the child has its own */
    if (pid < 0)
        return err_set(err, ERR_SYSTEM, why,
                       "cannot start '%s': fork failed; check the limits on processes and memory",
                       name);
    pid_t group = request->group && !request->new_session ? request->group : pid;
    /* Parent and child both do this, so that the group exists before any signal to it. */
    if (!request->new_session)
        setpgid(pid, group);
    *ret = (struct spawn_child){
        .pid = pid, .group = group, .report = fd_take(&report), .start = start};
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
        errno = 0; /* harmless: the directory stays in use */
}
