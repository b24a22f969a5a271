/* SPDX-License-Identifier: Apache-2.0
 * See doctor.h.
 */
#include "doctor/doctor.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "os/proc.h"
#include "os/reap.h"
#include "os/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* How long to wait for the program. */
struct patience {
    int64_t until;
    int signals; /* readable: a signal is about to end this process; -1: none */
    int ends;    /* readable: a child has ended */
};

static int64_t asked_until;

/* Stores the signals that would end this process; an ignored one does not. Ctrl-C does not reach
 * the program's own process group, so this process must kill that group first. */
static void ask_ending_signals(sigset_t *set)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    struct sigaction now;
    sigemptyset(set);
    for (size_t i = 0; i < ARRAY_LEN(ending); i++)
        if (sigaction(ending[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(set, ending[i]);
}

/* False: the program has not closed its output in time. Stops reading when `text` is full. */
static bool ask_read_all(int from, const struct patience *patience, char *text, size_t size)
{
    size_t len = 0;
    ssize_t n = 1;
    while (n != 0 && len < size - 1 && fd_wait(from, patience->signals, patience->until) == from) {
        n = read(from, text + len, size - 1 - len);
        if (n < 0 && errno != EINTR)
            break;
        len += n > 0 ? (size_t)n : 0;
    }
    text[len] = '\0';
    return n == 0 || len == size - 1;
}

struct asked {
    pid_t pid;
    int status;
};

/* The program is not reaped yet, so no other process can have its pid. */
static void ask_on_end(void *ctx, enum reap_what what, int status)
{
    struct asked *asked = ctx;
    if (what != REAP_EXITED)
        return;
    asked->status = status;
    proc_kill_group(asked->pid, SIGKILL);
}

/* The program's status; REAP_LOST: it has not ended in time. Its group is killed. */
static int ask_await_end(pid_t pid, const struct patience *patience)
{
    struct asked asked = {pid, REAP_LOST};
    struct reap reap = {0};
    struct reap_watch watch = {.pid = pid, .fn = ask_on_end, .ctx = &asked};
    struct signalfd_siginfo info;
    reap_watch(&reap, &watch);
    reap_all(&reap);
    while (watch.pid &&
           fd_wait(patience->ends, patience->signals, patience->until) == patience->ends) {
        while (read(patience->ends, &info, sizeof info) > 0) {
        }
        reap_all(&reap);
    }
    if (watch.pid)
        proc_kill_group(pid, SIGKILL);
    return asked.status;
}

static int ask_run(char **argv, const struct patience *patience, char *text, size_t size,
                   struct err *err)
{
    struct spawn_request request = {.argv = argv,
                                    .path = getenv("PATH"),
                                    .env = environ,
                                    .streams = {SPAWN_NULL, SPAWN_NULL, SPAWN_NULL},
                                    .tty = -1,
                                    .is_apart = true};
    int pipe[2], report;
    text[0] = '\0';
    if (pipe2(pipe, O_CLOEXEC) != 0) {
        err_set(err, ERR_SYSTEM, errno, "no pipe to it");
        return REAP_LOST;
    }
    FD_CLEANUP int from = pipe[0];
    request.streams[1] = pipe[1];
    pid_t pid = spawn_start(&request, &report, err);
    close(pipe[1]);
    if (!pid)
        return REAP_LOST;
    struct patience left = *patience;
    if (!ask_read_all(from, patience, text, size))
        left.until = 0;
    fd_close(&from); /* if `text` is full, the program may print no more */
    int status = ask_await_end(pid, &left);
    if (spawn_result(report, argv[0], err) == SPAWN_FAILED)
        status = REAP_LOST;
    else if (status == REAP_LOST)
        err_set(err, ERR_SYSTEM, 0, "%s has no answer in time", argv[0]);
    fd_close(&report);
    return status;
}

void ask_until(int64_t until)
{
    asked_until = until;
}

int ask_status(char **argv, int64_t wait_ns, char *text, size_t size, struct err *err)
{
    struct patience patience = {.until = clock_min(clock_now_ns() + wait_ns, asked_until)};
    sigset_t ending, child, blocked, before;
    ask_ending_signals(&ending);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigorset(&blocked, &ending, &child);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    patience.signals = signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK);
    patience.ends = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    int status = ask_run(argv, &patience, text, size, err);
    fd_close(&patience.ends);
    fd_close(&patience.signals);
    sigprocmask(SIG_SETMASK, &before, NULL); /* a pending signal ends this process here */
    return status;
}

bool ask(char **argv, int64_t wait_ns, char *text, size_t size, struct err *err)
{
    if (ask_status(argv, wait_ns, text, size, err) == REAP_LOST)
        return false;
    return text[0] ||
           err_set(err, ERR_SYSTEM, 0, "%s says nothing; run it yourself to see why", argv[0]);
}
