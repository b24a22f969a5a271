/* SPDX-License-Identifier: Apache-2.0
 *
 * cancel: keeps a thread from being cancelled (pthread_cancel) while it is in a function of libpch.
 */
#ifndef PCHRUN_LIBPCH_CANCEL_H
#define PCHRUN_LIBPCH_CANCEL_H

#include <pthread.h>

/* A thread that is cancelled in one of our waits would leave the others without a reader. */
static inline int cancel_off(void)
{
    int old;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    return old;
}

static inline void cancel_back(const int *old)
{
    pthread_setcancelstate(*old, NULL);
}

#define NOT_CANCELLED \
    const int cancel_state __attribute__((cleanup(cancel_back), unused)) = cancel_off()

#endif
