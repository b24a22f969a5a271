/* SPDX-License-Identifier: Apache-2.0
 *
 * shim_gate: holds a launcher at a named point between fork and exec until the test lets it go, so
 * that races which need luck happen every time.
 *
 * SHIM_GATES=point,point names the points; SHIM_DIR is a directory. On its way through a point the
 * process creates SHIM_DIR/POINT.reached and waits for SHIM_DIR/POINT.go, for at most 30 seconds.
 * A launcher's child is gated until its exec, so the program after exec is not concerned.
 */
#include "shim.h"

#include <fcntl.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <time.h>

static bool in_child;

static bool is_gate(const char *point)
{
    const char *list = getenv("SHIM_GATES");
    size_t len = strlen(point);
    for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == len && memcmp(at, point, len) == 0)
            return true;
    return false;
}

static void gate(const char *point)
{
    static const struct timespec moment = {.tv_nsec = 2000000};
    const char *dir = getenv("SHIM_DIR");
    int saved = errno;
    if (!dir || !shim_is_on() || !is_gate(point))
        return;
    char path[512];
    snprintf(path, sizeof path, "%s/%s.reached", dir, point);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        _exit(99);
    close(fd);
    snprintf(path, sizeof path, "%s/%s.go", dir, point);
    for (int i = 0; i < 15000 && access(path, F_OK) != 0; i++)
        nanosleep(&moment, NULL);
    errno = saved;
}

SHIM_API pid_t fork(void)
{
    gate("before-fork");
    pid_t pid = SHIM_NEXT(fork)();
    if (pid == 0)
        in_child = true;
    gate(pid == 0 ? "child-after-fork" : "parent-after-fork");
    return pid;
}

SHIM_API int setpgid(pid_t pid, pid_t pgid)
{
    gate(in_child ? "child-before-setpgid" : "parent-before-setpgid");
    int result = SHIM_NEXT(setpgid)(pid, pgid);
    gate(in_child ? "child-after-setpgid" : "parent-after-setpgid");
    return result;
}

SHIM_API int prctl(int option, ...)
{
    va_list ap;
    va_start(ap, option);
    unsigned long a = va_arg(ap, unsigned long), b = va_arg(ap, unsigned long),
                  c = va_arg(ap, unsigned long), d = va_arg(ap, unsigned long);
    va_end(ap);
    bool is_gated = in_child && option == PR_SET_PDEATHSIG;
    if (is_gated)
        gate("before-pdeathsig");
    int result = SHIM_NEXT(prctl)(option, a, b, c, d);
    if (is_gated)
        gate("after-pdeathsig");
    return result;
}

SHIM_API int execve(const char *path, char *const argv[], char *const env[])
{
    if (in_child)
        gate("before-exec");
    return SHIM_NEXT(execve)(path, argv, env);
}
