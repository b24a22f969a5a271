/* SPDX-License-Identifier: Apache-2.0
 * See shield.h. Read first: signal-safety(7). The frames are made beforehand, since a handler may
 * do little, on a small stack; each is one packet, so it cannot land in the middle of what the
 * interrupted thread sends.
 */
#include "libpch/shield.h"

#include "libpch/line.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/socket.h>

enum { SIGNALS = 64, NOTICE_BYTES = FRAME_HEADER_BYTES + 8 };

#define SIGNAL_BIT(number) (UINT64_C(1) << ((number)-1))

static struct {
    _Atomic(const struct pch *) job;       /* NULL: lowered */
    uint64_t raised;                       /* bit n - 1: over signal n */
    uint8_t frames[SIGNALS][NOTICE_BYTES]; /* those raised; of signal n: n - 1 */
} shield;

/* Delivered as soon as the handler has returned. */
static void take_default(int number)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigaction(number, &action, NULL);
    raise(number);
}

/* A program that puts our handler back with signal(3) loses SA_SIGINFO; some processors are then
 * given nothing in place of `info`. */
static bool is_from(int number, const siginfo_t *info, pid_t supervisor)
{
    struct sigaction now;
    bool has_info = sigaction(number, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO);
    return has_info && info->si_code <= 0 && info->si_pid != 0 && info->si_pid == supervisor;
}

/* False: nobody is there to be told, or it is the supervisor who says it. */
static bool pass_on(const struct pch *job, int number, const siginfo_t *info)
{
    if (!job || !job_can_talk(job_live(job)) || !line_is_ours(job))
        return false;
    if (is_from(number, info, job->supervisor_pid))
        return false;
    return send(job->fd, shield.frames[number - 1], NOTICE_BYTES, MSG_NOSIGNAL | MSG_DONTWAIT) >=
               0 ||
           errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    if (!pass_on(atomic_load(&shield.job), number, info))
        take_default(number);
    errno = saved;
}

bool shield_is_wanted(int number)
{
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) &&
           now.sa_handler == SIG_DFL;
}

static void raise_over(int number)
{
    struct procmsg msg = {.type = PROCMSG_NOTICE, .number = number};
    struct sigaction action = {.sa_sigaction = on_signal,
                               .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    sigfillset(&action.sa_mask);
    if (procmsg_encode(&msg, shield.frames[number - 1], NOTICE_BYTES) == NOTICE_BYTES &&
        shield_is_wanted(number) && sigaction(number, &action, NULL) == 0)
        shield.raised |= SIGNAL_BIT(number);
}

void shield_raise(const struct pch *job, uint64_t signals)
{
    atomic_store(&shield.job, job);
    for (int number = 1; number <= SIGNALS; number++)
        if (signals & SIGNAL_BIT(number))
            raise_over(number);
}

void shield_lower(void)
{
    struct sigaction now, usual = {.sa_handler = SIG_DFL};
    for (int number = 1; number <= SIGNALS; number++)
        if ((shield.raised & SIGNAL_BIT(number)) && sigaction(number, NULL, &now) == 0 &&
            (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_signal)
            sigaction(number, &usual, NULL);
    shield.raised = 0;
    atomic_store(&shield.job, NULL);
}
