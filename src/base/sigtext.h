/* SPDX-License-Identifier: Apache-2.0
 *
 * sigtext: names of signals, and which of them users send to end a program. Apart from str, because
 * this needs a newer C library than libpch, which uses str, may need. Any thread; cannot fail.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>

#define SIGTEXT_MAX 32

/* "SIGTERM", "SIGRTMIN+3", "signal 99". Returns text. */
const char *sigtext(int number, char text[SIGTEXT_MAX]);
/* The same, valid until the end of the block. */
#define SIGTEXT(number) sigtext((number), (char[SIGTEXT_MAX]){0})

/* Does it end a pchrun that still waits for its start? */
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
