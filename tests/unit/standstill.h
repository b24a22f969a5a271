/* SPDX-License-Identifier: Apache-2.0
 *
 * standstill: pchrun was stopped in a write, or the machine was, and the writer with it.
 */
#pragma once

#include "unit.h"

#include "base/clock.h"
#include "base/err.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Called in the writer, which stands still until standstill_end(). */
static inline bool standstill_begin(void *ctx, struct err *err)
{
    return kill(getpid(), SIGSTOP) == 0;
}

static inline void standstill_await(pid_t writer)
{
    siginfo_t info;
    cr_assert_eq(waitid(P_PID, (id_t)writer, &info, WSTOPPED | WNOWAIT), 0);
}

static inline void standstill_last(int64_t ns)
{
    nanosleep(&(struct timespec){.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S}, NULL);
}

/* The writer goes on, and its end is there to be reaped. */
static inline void standstill_end(pid_t writer)
{
    siginfo_t info;
    kill(writer, SIGCONT);
    cr_assert_eq(waitid(P_PID, (id_t)writer, &info, WEXITED | WNOWAIT), 0);
}
