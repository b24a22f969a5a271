/* SPDX-License-Identifier: Apache-2.0
 * See shield.h. Read first: signal-safety(7). The frame is made beforehand, since a handler may do
 * little; it is one packet, so it cannot land in the middle of what the interrupted thread sends.
 */
#include "libpch/shield.h"

#include "libpch/line.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

static struct {
    _Atomic(const struct pch *) job; /* NULL: lowered */
    uint8_t frame[64];
    size_t size;
} shield;

/* Delivered as soon as the handler has returned. */
static void take_default(int number)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigaction(number, &action, NULL);
    raise(number);
}

/* False: nobody is there to be told, or it is the supervisor who says it. */
static bool pass_on(const struct pch *job, const siginfo_t *info)
{
    if (!job || !job_can_talk(job_live(job)) || !line_is_ours(job))
        return false;
    if (info->si_code <= 0 && info->si_pid != 0 && info->si_pid == job->supervisor_pid)
        return false;
    return send(job->fd, shield.frame, shield.size, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0 ||
           errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    if (!pass_on(atomic_load(&shield.job), info))
        take_default(number);
    errno = saved;
}

bool shield_is_wanted(void)
{
    struct sigaction now;
    return sigaction(SIGTERM, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) &&
           now.sa_handler == SIG_DFL;
}

bool shield_raise(const struct pch *job)
{
    struct procmsg msg = {.type = PROCMSG_NOTICE, .number = SIGTERM};
    uint8_t frame[FRAME_MAX];
    size_t size = procmsg_encode(&msg, frame, sizeof frame);
    if (size == 0 || size > sizeof shield.frame)
        return false;
    memcpy(shield.frame, frame, size);
    shield.size = size;
    atomic_store(&shield.job, job);
    struct sigaction action = {.sa_sigaction = on_signal,
                               .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    sigfillset(&action.sa_mask);
    return shield_is_wanted() && sigaction(SIGTERM, &action, NULL) == 0;
}

void shield_lower(void)
{
    struct sigaction now, usual = {.sa_handler = SIG_DFL};
    if (sigaction(SIGTERM, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
        now.sa_sigaction == on_signal)
        sigaction(SIGTERM, &usual, NULL);
    atomic_store(&shield.job, NULL);
}
