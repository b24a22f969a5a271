/* SPDX-License-Identifier: Apache-2.0
 * See helper.h.
 */
#include "os/helper.h"

#include "base/fd.h"
#include "os/proc.h"
#include "os/proclimit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

static bool no_process(struct err *err)
{
    err_set(err, ERR_SYSTEM, errno, "cannot start a helper process");
    return proclimit_explain(err);
}

bool helper_start(struct reap *reap, void (*fn)(const void *arg), const void *arg, struct err *err)
{
    pid_t pid = fork();
    if (pid == 0) {
        fd_range(0, FD_RANGE_CLOSE, NULL, 0);
        fn(arg);
        _exit(0);
    }
    if (pid < 0)
        return no_process(err);
    reap_keep(reap, pid);
    return true;
}

/* Replaces even the standard streams: their readers would wait for the helper's end. */
static void leave(int kept, bool keeps_dir)
{
    fd_silence(1U << STDIN_FILENO | 1U << STDOUT_FILENO | 1U << STDERR_FILENO);
    fd_range(3, FD_RANGE_CLOSE, &kept, 1);
    if (!keeps_dir && chdir("/") != 0) /* harmless: the directory stays in use */
        return;
}

bool helper_ask(struct helper *helper, helper_fn *fn, const void *arg, struct err *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return err_set(err, ERR_SYSTEM, errno, "cannot start a helper process: no socket");
    FD_CLEANUP int ours = ends[0];
    FD_CLEANUP int theirs = ends[1];
    if (!fd_set_nonblock(ours, err))
        return false;
    fflush(NULL);
    pid_t us = getpid(), pid = fork();
    if (pid == 0) {
        /* A dead supervisor's helper must not lock or write the files of a later supervisor. */
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != us)
            _exit(1);
        leave(theirs, helper->keeps_dir);
        fn(arg, theirs);
        _exit(0);
    }
    if (pid < 0)
        return no_process(err);
    helper->answer = fd_take(&ours);
    helper->watch.pid = pid;
    helper->watch.kind = REAP_HELPER;
    reap_watch(helper->reap, &helper->watch);
    return true;
}

enum helper_news helper_read(const struct helper *helper, int signals, int64_t until, void *ret,
                             size_t size)
{
    for (size_t got = 0; got < size;) {
        int fd = fd_wait(helper->answer, signals, until);
        if (fd != helper->answer)
            return fd < 0 ? HELPER_LATE : HELPER_SIGNAL;
        ssize_t n = read(fd, (char *)ret + got, size - got);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return HELPER_ENDED;
        got += n > 0 ? (size_t)n : 0;
    }
    return HELPER_ANSWER;
}

/* Drops the rest of the answer, until the helper closes its socket, at the latest at `until`. */
static enum helper_news wait_for_end(const struct helper *helper, int64_t until)
{
    enum helper_news news = HELPER_ANSWER;
    char rest[256];
    while (news == HELPER_ANSWER)
        news = helper_read(helper, -1, until, rest, sizeof rest);
    return news;
}

void helper_end(struct helper *helper, bool is_killed, int64_t until)
{
    pid_t pid = helper->watch.pid;
    if (is_killed)
        proc_kill(pid, SIGKILL);
    else if (helper->answer > 0)
        shutdown(helper->answer, SHUT_WR);
    if (helper->answer > 0 && wait_for_end(helper, until) == HELPER_LATE)
        proc_kill(pid, SIGKILL);
    if (helper->answer > 0)
        fd_close(&helper->answer);
    if (!pid)
        return;
    reap_forget(helper->reap, &helper->watch);
    reap_keep(helper->reap, pid);
}
