/* SPDX-License-Identifier: Apache-2.0
 *
 * shim_refuse: the system has run out of something: kinds "fork", "threads" and "descriptors" (all
 * functions that make one) of shim_refuse.h.
 */
#include "shim_refuse.h"

#include <dirent.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

SHIM_API pid_t fork(void)
{
    return shim_refuses("fork", EAGAIN) ? -1 : SHIM_NEXT(fork)();
}

/* "descriptors" are all functions that make one, counted together. */
#define NO_DESCRIPTOR() shim_refuses("descriptors", EMFILE)

SHIM_API int open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    return NO_DESCRIPTOR() ? -1 : SHIM_NEXT(open)(path, flags, mode);
}

SHIM_API int openat(int dir, const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    return NO_DESCRIPTOR() ? -1 : SHIM_NEXT(openat)(dir, path, flags, mode);
}

SHIM_API FILE *fopen(const char *path, const char *mode)
{
    return NO_DESCRIPTOR() ? NULL : SHIM_NEXT(fopen)(path, mode);
}

SHIM_API DIR *opendir(const char *path)
{
    return NO_DESCRIPTOR() ? NULL : SHIM_NEXT(opendir)(path);
}

SHIM_API int socket(int domain, int type, int protocol)
{
    return NO_DESCRIPTOR() ? -1 : SHIM_NEXT(socket)(domain, type, protocol);
}

SHIM_API int accept4(int fd, struct sockaddr *restrict address, socklen_t *restrict size, int flags)
{
    return NO_DESCRIPTOR() ? -1 : SHIM_NEXT(accept4)(fd, address, size, flags);
}

SHIM_API int pipe2(int fds[2], int flags)
{
    return NO_DESCRIPTOR() ? -1 : SHIM_NEXT(pipe2)(fds, flags);
}

SHIM_API int dup(int fd)
{
    return NO_DESCRIPTOR() ? -1 : SHIM_NEXT(dup)(fd);
}

SHIM_API int memfd_create(const char *name, unsigned flags)
{
    return NO_DESCRIPTOR() ? -1 : SHIM_NEXT(memfd_create)(name, flags);
}

SHIM_API int eventfd(unsigned value, int flags)
{
    return NO_DESCRIPTOR() ? -1 : SHIM_NEXT(eventfd)(value, flags);
}

SHIM_API int signalfd(int fd, const sigset_t *mask, int flags)
{
    return NO_DESCRIPTOR() ? -1 : SHIM_NEXT(signalfd)(fd, mask, flags);
}

SHIM_API int timerfd_create(int clock, int flags)
{
    return NO_DESCRIPTOR() ? -1 : SHIM_NEXT(timerfd_create)(clock, flags);
}

SHIM_API int epoll_create1(int flags)
{
    return NO_DESCRIPTOR() ? -1 : SHIM_NEXT(epoll_create1)(flags);
}

SHIM_API int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes,
                            void *(*run)(void *), void *restrict arg)
{
    return shim_refuses("threads", EAGAIN)
               ? EAGAIN
               : SHIM_NEXT(pthread_create)(thread, attributes, run, arg);
}
