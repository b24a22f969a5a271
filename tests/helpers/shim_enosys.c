/* SPDX-License-Identifier: Apache-2.0
 *
 * shim_enosys: an old kernel: the system calls named in SHIM_ENOSYS
 * ("pidfd_open,close_range") fail with ENOSYS, through syscall(2) and through their C functions. Or
 * a file system without locks: flock(2) fails so in the directory SHIM_NO_LOCKS.
 */
#include "shim.h"

#include <signal.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/syscall.h>

static const struct {
    const char *name;
    long number;
} calls[] = {
    {"pidfd_open", SYS_pidfd_open},
    {"pidfd_send_signal", SYS_pidfd_send_signal},
    {"close_range", SYS_close_range},
    {"futex_waitv", SYS_futex_waitv},
};

static bool is_missing(long number)
{
    const char *list = getenv("SHIM_ENOSYS");
    if (!list || !shim_is_on())
        return false;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        if (calls[i].number == number && strstr(list, calls[i].name)) {
            errno = ENOSYS;
            return true;
        }
    return false;
}

SHIM_API long syscall(long number, ...)
{
    va_list ap;
    long a[6];
    va_start(ap, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(ap, long);
    va_end(ap);
    if (is_missing(number))
        return -1;
    return SHIM_NEXT(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

SHIM_API int close_range(unsigned first, unsigned last, int flags)
{
    if (is_missing(SYS_close_range))
        return -1;
    return SHIM_NEXT(close_range)(first, last, flags);
}

SHIM_API int flock(int fd, int operation)
{
    const char *dir = getenv("SHIM_NO_LOCKS");
    char link[32], path[512] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (dir && shim_is_on() && readlink(link, path, sizeof path - 1) > 0 &&
        strncmp(path, dir, strlen(dir)) == 0) {
        errno = ENOSYS;
        return -1;
    }
    return SHIM_NEXT(flock)(fd, operation);
}

SHIM_API int pidfd_open(pid_t pid, unsigned flags);

SHIM_API int pidfd_open(pid_t pid, unsigned flags)
{
    return (int)syscall(SYS_pidfd_open, pid, flags);
}

SHIM_API int pidfd_send_signal(int fd, int number, siginfo_t *info, unsigned flags);

SHIM_API int pidfd_send_signal(int fd, int number, siginfo_t *info, unsigned flags)
{
    return (int)syscall(SYS_pidfd_send_signal, fd, number, info, flags);
}
