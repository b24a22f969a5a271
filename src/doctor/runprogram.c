/* SPDX-License-Identifier: Apache-2.0
 * See doctor.h.
 */
#include "doctor/doctor.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "os/proc.h"
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
};

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

static bool ask_run(char **argv, const struct patience *patience, char *text, size_t size,
                    struct err *err)
{
    struct spawn_request request = {.argv = argv,
                                    .path = getenv("PATH"),
                                    .env = environ,
                                    .streams = {SPAWN_NULL, SPAWN_NULL, SPAWN_NULL},
                                    .tty = -1,
                                    .is_apart = true};
    int pipe[2], report;
    if (pipe2(pipe, O_CLOEXEC) != 0)
        return err_set(err, ERR_SYSTEM, errno, "no pipe to it");
    FD_CLEANUP int from = pipe[0];
    request.streams[1] = pipe[1];
    pid_t pid = spawn_start(&request, &report, err);
    close(pipe[1]);
    if (!pid)
        return false;
    bool is_whole = ask_read_all(from, patience, text, size);
    bool is_run = spawn_result(report, argv[0], err) != SPAWN_FAILED;
    proc_kill_group(pid, SIGKILL); /* the program is not reaped, so no other process can have the
                                    * pid */
    fd_close(&report);
    if (!is_run)
        return false;
    if (!is_whole)
        return err_set(err, ERR_SYSTEM, 0, "%s has no answer in time", argv[0]);
    return text[0] ||
           err_set(err, ERR_SYSTEM, 0, "%s says nothing; run it yourself to see why", argv[0]);
}

bool ask(char **argv, int64_t wait_ns, char *text, size_t size, struct err *err)
{
    struct patience patience = {.until = clock_now_ns() + wait_ns};
    sigset_t ending, before;
    ask_ending_signals(&ending);
    sigprocmask(SIG_BLOCK, &ending, &before);
    patience.signals = signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK);
    bool ok = ask_run(argv, &patience, text, size, err);
    fd_close(&patience.signals);
    sigprocmask(SIG_SETMASK, &before, NULL); /* a pending signal ends this process here */
    return ok;
}
