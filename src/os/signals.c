/* SPDX-License-Identifier: Apache-2.0
 * See signals.h.
 */
#include "os/signals.h"

#include "base/fd.h"
#include "base/str.h"
#include "os/proc.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum plan {
    PLAN_TAKE,            /* blocked, read from the signalfd */
    PLAN_TAKE_UNLESS_OFF, /* the same, unless it was ignored when we were started (nohup) */
    PLAN_TAKE_FAULT,      /* the same, unless it has a handler, as of a sanitizer; our own fault
                             still kills us: the kernel unblocks the signal */
    PLAN_LEAVE,           /* harmless, or cannot be caught: untouched */
    PLAN_IGNORE,          /* SIGPIPE: a failed write reports the same, too */
    PLAN_CHILD,           /* SIGCHLD: taken; default here, inherited setting in the command */
};

/* All other signals have PLAN_TAKE, also SIGRTMIN..SIGRTMAX (not 32 and 33, which libc uses). */
static const enum plan plans[32] = {
    [SIGHUP] = PLAN_TAKE_UNLESS_OFF,
    [SIGINT] = PLAN_TAKE_UNLESS_OFF,
    [SIGQUIT] = PLAN_TAKE_UNLESS_OFF,
    [SIGILL] = PLAN_TAKE_FAULT,
    [SIGTRAP] = PLAN_TAKE_FAULT,
    [SIGABRT] = PLAN_TAKE_FAULT,
    [SIGBUS] = PLAN_TAKE_FAULT,
    [SIGFPE] = PLAN_TAKE_FAULT,
    [SIGSEGV] = PLAN_TAKE_FAULT,
    [SIGSYS] = PLAN_TAKE_FAULT,
    [SIGKILL] = PLAN_LEAVE,
    [SIGSTOP] = PLAN_LEAVE,
    [SIGURG] = PLAN_LEAVE,
    [SIGPIPE] = PLAN_IGNORE,
    [SIGCHLD] = PLAN_CHILD,
};

static struct {
    bool pipe_was_ignored, child_was_ignored; /* SIGPIPE, SIGCHLD: inherited as ignored */
    sigset_t inherited_mask, taken, kept;
} the_signals;

static void begin_one(int number, enum plan plan)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN}, dfl = {.sa_handler = SIG_DFL};
    struct sigaction old = dfl;
    sigaction(number, NULL, &old);
    bool is_off = old.sa_handler == SIG_IGN;
    bool has_handler = !is_off && old.sa_handler != SIG_DFL;
    if (plan == PLAN_LEAVE || (plan == PLAN_TAKE_UNLESS_OFF && is_off) ||
        (plan == PLAN_TAKE_FAULT && has_handler))
        return;
    if (plan == PLAN_IGNORE) {
        sigaction(number, &ignore, NULL);
        the_signals.pipe_was_ignored = is_off;
        return;
    }
    if (plan == PLAN_CHILD) {
        sigaction(number, &dfl, NULL);
        the_signals.child_was_ignored = is_off;
    }
    sigaddset(&the_signals.taken, number);
}

void signals_begin(void)
{
    sigemptyset(&the_signals.taken);
    sigemptyset(&the_signals.kept);
    for (int number = 1; number < (int)ARRAY_LEN(plans); number++)
        begin_one(number, plans[number]);
    for (int number = SIGRTMIN; number <= SIGRTMAX; number++)
        sigaddset(&the_signals.taken, number);
    sigprocmask(SIG_BLOCK, &the_signals.taken, &the_signals.inherited_mask);
}

int signals_open(struct err *err)
{
    int fd = signalfd(-1, &the_signals.taken, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        err_set(err, ERR_SYSTEM, errno, "cannot open a descriptor for signals (signalfd)");
    return fd;
}

/* The kernel sends Ctrl-C, Ctrl-\, Ctrl-Z and window size changes, without a sender's pid. */
static bool is_from_terminal(const struct signalfd_siginfo *info)
{
    return info->ssi_code == SI_KERNEL && info->ssi_pid == 0 &&
           (info->ssi_signo == SIGINT || info->ssi_signo == SIGQUIT || info->ssi_signo == SIGTSTP ||
            info->ssi_signo == SIGWINCH);
}

/* A signal of pchrun's group has another code, and so has one of the kernel for a failed write. */
static bool was_kept(const struct signalfd_siginfo *info)
{
    return info->ssi_code == SI_TKILL && (pid_t)info->ssi_pid == getpid();
}

bool signals_read(int fd, struct signals_info *ret)
{
    struct signalfd_siginfo info;
    if (read(fd, &info, sizeof info) != (ssize_t)sizeof info)
        return false;
    *ret = (struct signals_info){.number = (int)info.ssi_signo,
                                 .sender = was_kept(&info) ? 0 : (pid_t)info.ssi_pid};
    if (is_from_terminal(&info))
        ret->from = SIGNAL_FROM_TERMINAL;
    else if (info.ssi_signo != SIGCHLD && proc_is_descendant(ret->sender))
        ret->from = SIGNAL_FROM_JOB;
    return true;
}

void signals_keep(int number)
{
    sigaddset(&the_signals.kept, number);
}

void signals_close(int *fd)
{
    fd_close(fd);
    for (int number = 1; number <= SIGRTMAX; number++)
        if (sigismember(&the_signals.kept, number) == 1)
            raise(number); /* blocked, so it is pending */
    sigemptyset(&the_signals.kept);
}

void signals_restore(bool is_own)
{
    sigset_t none;
    const struct sigaction ignore = {.sa_handler = SIG_IGN}, dfl = {.sa_handler = SIG_DFL};
    sigaction(SIGPIPE, the_signals.pipe_was_ignored ? &ignore : &dfl, NULL);
    sigaction(SIGCHLD, the_signals.child_was_ignored && !is_own ? &ignore : &dfl, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, is_own ? &none : &the_signals.inherited_mask, NULL);
}

void signals_die_of(int number)
{
    const struct rlimit no_core = {0, 0};
    const struct sigaction dfl = {.sa_handler = SIG_DFL};
    sigset_t only;
    sigemptyset(&only);
    if (getpid() == 1 || sigaddset(&only, number) != 0)
        return;
    setrlimit(RLIMIT_CORE, &no_core);
    sigaction(number, &dfl, NULL);
    sigprocmask(SIG_UNBLOCK, &only, NULL);
    raise(number);
}
