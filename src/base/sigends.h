/* SPDX-License-Identifier: Apache-2.0
 *
 * sigends: which signals are sent to end a program. A pchrun that still waits for its start ends by
 * them. Any thread; cannot fail.
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
