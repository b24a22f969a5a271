/* SPDX-License-Identifier: Apache-2.0
 *
 * thread: starts a thread that handles no signal. Its stack has a fixed size, because `ulimit -s`,
 * the default, may say gigabytes.
 */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/* Returns an errno. */
static inline int thread_start(pthread_t *ret, size_t stack_bytes, void *(*fn)(void *), void *arg)
{
    pthread_attr_t attr;
    sigset_t all, before;
    sigfillset(&all);
    int rc = pthread_attr_init(&attr);
    if (rc != 0)
        return rc;
    rc = pthread_attr_setstacksize(&attr, stack_bytes);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the thread inherits this mask */
    if (rc == 0)
        rc = pthread_create(ret, &attr, fn, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return rc;
}
