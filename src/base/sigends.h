/* SPDX-License-Identifier: Apache-2.0
 *
 * sigends: the signals that users send to end a program. They end a pchrun that still waits for its
 * start. Any thread; cannot fail.
 */
#ifndef PCHRUN_BASE_SIGENDS_H
#define PCHRUN_BASE_SIGENDS_H

#include <signal.h>
#include <stdbool.h>

static inline bool sigends(int number)
{
    switch (number) {
    case SIGHUP:
    case SIGINT:
    case SIGQUIT:
    case SIGTERM:
    case SIGILL:
    case SIGTRAP:
    case SIGABRT:
    case SIGBUS:
    case SIGFPE:
    case SIGSEGV:
    case SIGSYS:
        return true;
    default:
        return false;
    }
}

#endif
