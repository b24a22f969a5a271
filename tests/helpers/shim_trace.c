/* SPDX-License-Identifier: Apache-2.0
 *
 * shim_trace: writes down what a launcher does to processes, in order, one line per call, to the
 * file SHIM_TRACE (append): "fork TID PID", "kill PID SIGNAL", "reap PID", "exit PID" where a
 * process leaves through exit handlers. A call that failed leaves no line.
 */
#include "shim.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>

static void trace(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void trace(const char *fmt, ...)
{
    const char *path = getenv("SHIM_TRACE");
    int saved = errno;
    if (!path || !shim_is_on())
        return;
    char line[128];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line, (size_t)n) != n)
        _exit(99);
    close(fd);
    errno = saved;
}

__attribute__((destructor)) static void at_exit(void)
{
    trace("exit %d\n", getpid());
}

SHIM_API pid_t fork(void)
{
    pid_t tid = gettid();
    pid_t pid = SHIM_NEXT(fork)();
    if (pid > 0)
        trace("fork %d %d\n", tid, pid);
    return pid;
}

/* The target is written down before the call: a wrong target must be seen even if it does harm. */
SHIM_API int kill(pid_t pid, int number)
{
    if (number != 0)
        trace("kill %d %d\n", pid, number);
    return SHIM_NEXT(kill)(pid, number);
}

SHIM_API int killpg(pid_t pgid, int number)
{
    if (number != 0)
        trace("kill %d %d\n", -pgid, number);
    return SHIM_NEXT(killpg)(pgid, number);
}

SHIM_API pid_t waitpid(pid_t pid, int *status, int options)
{
    int seen = 0;
    pid_t result = SHIM_NEXT(waitpid)(pid, &seen, options);
    if (result > 0 && (WIFEXITED(seen) || WIFSIGNALED(seen)))
        trace("reap %d\n", result);
    if (status && result > 0)
        *status = seen;
    return result;
}

SHIM_API int waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
    siginfo_t seen = {0};
    int result = SHIM_NEXT(waitid)(type, id, &seen, options);
    bool is_end =
        seen.si_code == CLD_EXITED || seen.si_code == CLD_KILLED || seen.si_code == CLD_DUMPED;
    if (result == 0 && seen.si_pid > 0 && is_end && !(options & WNOWAIT))
        trace("reap %d\n", seen.si_pid);
    if (info)
        *info = seen;
    return result;
}
