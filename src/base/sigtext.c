/* SPDX-License-Identifier: Apache-2.0
 * See sigtext.h. glibc has sigabbrev_np() only since 2.32.
 */
#include "base/sigtext.h"

#include "base/str.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

const char *sigabbrev(int number)
{
    static const char *const names[] = {
        [SIGHUP] = "HUP",   [SIGINT] = "INT",       [SIGQUIT] = "QUIT", [SIGILL] = "ILL",
        [SIGTRAP] = "TRAP", [SIGABRT] = "ABRT",     [SIGBUS] = "BUS",   [SIGFPE] = "FPE",
        [SIGKILL] = "KILL", [SIGUSR1] = "USR1",     [SIGSEGV] = "SEGV", [SIGUSR2] = "USR2",
        [SIGPIPE] = "PIPE", [SIGALRM] = "ALRM",     [SIGTERM] = "TERM", [SIGSTKFLT] = "STKFLT",
        [SIGCHLD] = "CHLD", [SIGCONT] = "CONT",     [SIGSTOP] = "STOP", [SIGTSTP] = "TSTP",
        [SIGTTIN] = "TTIN", [SIGTTOU] = "TTOU",     [SIGURG] = "URG",   [SIGXCPU] = "XCPU",
        [SIGXFSZ] = "XFSZ", [SIGVTALRM] = "VTALRM", [SIGPROF] = "PROF", [SIGWINCH] = "WINCH",
        [SIGIO] = "IO",     [SIGPWR] = "PWR",       [SIGSYS] = "SYS",
    };
    return number > 0 && (size_t)number < ARRAY_LEN(names) ? names[number] : NULL;
}

const char *sigtext(int number, char text[SIGTEXT_MAX])
{
    const char *name = sigabbrev(number);
    if (name)
        snprintf(text, SIGTEXT_MAX, "SIG%s", name);
    else if (number >= SIGRTMIN && number <= SIGRTMAX)
        snprintf(text, SIGTEXT_MAX, "SIGRTMIN+%d", number - SIGRTMIN);
    else
        snprintf(text, SIGTEXT_MAX, "signal %d", number);
    return text;
}

bool sigends(int number)
{
    static const int ending[] = {SIGHUP,  SIGINT, SIGQUIT, SIGTERM, SIGILL, SIGTRAP,
                                 SIGABRT, SIGBUS, SIGFPE,  SIGSEGV, SIGSYS, 0};
    const int *at = ending;
    while (*at && *at != number)
        at++;
    return *at;
}

char *sigtext_of_status(int status, char *text, size_t size)
{
    if (WIFEXITED(status))
        snprintf(text, size, "exit code %d", WEXITSTATUS(status));
    else if (WIFSIGNALED(status))
        snprintf(text, size, "signal %d (%s%s)", WTERMSIG(status), strsignal(WTERMSIG(status)),
                 WCOREDUMP(status) ? ", core dumped" : "");
    else
        snprintf(text, size, "unknown status %#x", (unsigned)status);
    return text;
}
