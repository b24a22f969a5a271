/* SPDX-License-Identifier: Apache-2.0
 * See loop.h.
 */
#include "watch/loop.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* Signals that end the loop. All others keep their default action. */
static const int ending[] = {SIGTERM, SIGINT, SIGHUP};

/* A failed write reports a gone reader. The kernel reaps children. A scheduler may send SIGUSR1 or
 * SIGUSR2 to every process of the job as a notice. */
static const int ignored[] = {SIGPIPE, SIGCHLD, SIGUSR1, SIGUSR2};

static void set_ignored(void (*action)(int))
{
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
        signal(ignored[i], action);
}

bool loop_begin(struct loop *loop, struct err *err)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++)
        sigaddset(&set, ending[i]);
    *loop = (struct loop){.fd = -1, .signals = -1};
    set_ignored(SIG_IGN);
    sigprocmask(SIG_SETMASK, &set, NULL);
    loop->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    return loop->signals >= 0 || err_set(err, ERR_SYSTEM, errno, "cannot watch for signals");
}

void loop_end(struct loop *loop)
{
    http_close();
    fd_close(&loop->signals);
}

void loop_restore_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    set_ignored(SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

void loop_at(struct loop *loop, struct loop_timer *timer, int64_t at_ns)
{
    timer->at_ns = at_ns;
    if (timer->is_listed)
        return;
    timer->is_listed = true;
    timer->next = loop->timers;
    loop->timers = timer;
}

static int64_t next_timer(const struct loop *loop)
{
    int64_t next = CLOCK_NEVER;
    for (const struct loop_timer *timer = loop->timers; timer; timer = timer->next)
        next = clock_min(next, timer->at_ns);
    return next;
}

/* A timer's function may set any timer; no timer leaves the list. */
static void run_timers(struct loop *loop)
{
    int64_t now = clock_now_ns();
    for (struct loop_timer *timer = loop->timers; timer; timer = timer->next)
        if (timer->at_ns <= now) {
            timer->at_ns = CLOCK_NEVER;
            timer->fn(timer->ctx);
        }
}

enum { FD_SIGNALS, FD_OUT, FD_OTHER, FD__COUNT };

bool loop_turn(struct loop *loop)
{
    int64_t next = next_timer(loop), now = clock_now_ns();
    struct pollfd fds[FD__COUNT] = {
        [FD_SIGNALS] = {.fd = loop->signals, .events = POLLIN},
        [FD_OUT] = {.fd = STDOUT_FILENO, .events = loop->wants_out ? POLLOUT : 0},
        [FD_OTHER] = {.fd = loop->fd, .events = POLLIN},
    };
    unsigned n = loop->fd >= 0 ? FD__COUNT : FD_OTHER;
    http_wait(fds, n, next > now ? next - now : 0);
    if (fds[FD_SIGNALS].revents || (fds[FD_OUT].revents & (POLLERR | POLLHUP | POLLNVAL)))
        return false;
    if (n > FD_OTHER && fds[FD_OTHER].revents)
        loop->on_fd(loop->ctx);
    run_timers(loop);
    return true;
}
