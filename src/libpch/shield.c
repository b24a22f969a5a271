/* SPDX-License-Identifier: Apache-2.0
 * See shield.h. Read first: signal-safety(7). The frames are encoded in advance, because a handler
 * may call few functions and has a small stack. Each frame is one packet, so it cannot split a
 * message of the interrupted thread.
 */
#include "libpch/shield.h"

#include "libpch/line.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SIGNALS = 64, NOTICE_BYTES = FRAME_HEADER_BYTES + 8 };

#define SIGNAL_BIT(number) (UINT64_C(1) << ((number)-1))

static struct {
    _Atomic(const struct pch *) job;       /* NULL: not raised, or in a fork */
    uint64_t raised;                       /* bit n - 1: signal n */
    uint8_t frames[SIGNALS][NOTICE_BYTES]; /* [n - 1]: of signal n */
    pid_t supervisor;                      /* 0: not visible from here */
    pid_t process;                         /* the process that raised the shield */
    pid_t forker;                          /* in a helper: its parent; 0: not a helper */
    pid_t owner; /* in a helper: the process that it serves, often its parent */
    struct sigaction covered[SIGNALS]; /* [n - 1]: of signal n; all zero: the default */
} shield;

/* The signal is delivered when the handler has returned. */
static void take_default(int number)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigaction(number, &action, NULL);
    raise(number);
}

/* A program that reinstalls our handler with signal(3) loses SA_SIGINFO; then `info` may be
 * invalid. 0: unknown sender. */
static pid_t sender_of(int number, const siginfo_t *info)
{
    struct sigaction now;
    bool has_info = sigaction(number, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO);
    return has_info && info->si_code <= 0 ? info->si_pid : 0;
}

/* False: no supervisor, or the supervisor itself sent the signal. */
static bool pass_on(const struct pch *job, int number, const siginfo_t *info)
{
    if (!job || !job_can_talk(job_live(job)) || !line_is_ours(job))
        return false;
    pid_t sender = sender_of(number, info);
    if (sender && sender == shield.supervisor)
        return false;
    return send(job->fd, shield.frames[number - 1], NOTICE_BYTES, MSG_NOSIGNAL | MSG_DONTWAIT) >=
               0 ||
           errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM;
}

/* True for a signal to the whole job. False after the parent's end, which ends the helper, too. */
static bool is_for_all(int number, const siginfo_t *info)
{
    pid_t sender = sender_of(number, info), parent = getppid();
    if (!sender || !shield.supervisor || parent != (shield.forker ? shield.forker : shield.process))
        return false;
    return sender != parent && sender != shield.owner && sender != shield.supervisor &&
           sender != getpid();
}

static void step_aside(int number, siginfo_t *info, void *context)
{
    const struct sigaction *covered = &shield.covered[number - 1];
    if (covered->sa_flags & SA_SIGINFO)
        covered->sa_sigaction(number, info, context);
    else if (covered->sa_handler == SIG_DFL)
        take_default(number);
    else if (covered->sa_handler != SIG_IGN)
        covered->sa_handler(number);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    /* In a forked child the pid differs even before shield_fork() has run. */
    bool is_helper = shield.forker || getpid() != shield.process;
    bool is_taken =
        is_helper ? is_for_all(number, info) : pass_on(atomic_load(&shield.job), number, info);
    if (!is_taken)
        step_aside(number, info, context);
    errno = saved;
}

static bool shield_is_ours(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == on_signal;
}

bool shield_is_wanted(int number)
{
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 &&
           (shield_is_ours(&now) || (!(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL));
}

static bool take_over(int number, struct sigaction *ret_before)
{
    struct sigaction action = {.sa_sigaction = on_signal,
                               .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    sigfillset(&action.sa_mask);
    return sigaction(number, &action, ret_before) == 0;
}

static void raise_over_all(uint64_t signals)
{
    for (int number = 1; number <= SIGNALS; number++) {
        struct procmsg msg = {.type = PROCMSG_NOTICE, .number = number};
        uint8_t *frame = shield.frames[number - 1];
        if ((signals & SIGNAL_BIT(number)) &&
            procmsg_encode(&msg, frame, NOTICE_BYTES) == NOTICE_BYTES && shield_is_wanted(number) &&
            take_over(number, NULL))
            shield.raised |= SIGNAL_BIT(number);
    }
}

void shield_raise(const struct pch *job, uint64_t signals)
{
    shield_lower(); /* a fork inherits the parent's handlers */
    shield.supervisor = job->supervisor_pid;
    shield.process = getpid();
    atomic_store(&shield.job, job);
    raise_over_all(signals);
}

void shield_lower(void)
{
    struct sigaction now;
    for (int number = 1; number <= SIGNALS; number++)
        if ((shield.raised & SIGNAL_BIT(number)) && sigaction(number, NULL, &now) == 0 &&
            shield_is_ours(&now))
            sigaction(number, &shield.covered[number - 1], NULL);
    memset(shield.covered, 0, sizeof shield.covered);
    shield.raised = 0;
    shield.forker = shield.owner = 0;
    atomic_store(&shield.job, NULL);
}

void shield_fork(void)
{
    shield.forker = shield.owner = getppid();
    atomic_store(&shield.job, NULL);
}

uint64_t shield_over(pid_t *ret_supervisor)
{
    *ret_supervisor = shield.supervisor;
    return shield.raised;
}

void shield_help(pid_t owner, pid_t supervisor, uint64_t signals)
{
    shield.supervisor = supervisor;
    shield.forker = getppid();
    shield.owner = owner;
    raise_over_all(signals);
}

void shield_cover(void)
{
    struct sigaction now;
    for (int number = 1; number <= SIGNALS && shield.forker; number++)
        if ((shield.raised & SIGNAL_BIT(number)) && sigaction(number, NULL, &now) == 0 &&
            !shield_is_ours(&now))
            take_over(number, &shield.covered[number - 1]);
}
