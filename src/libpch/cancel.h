/* SPDX-License-Identifier: Apache-2.0
 *
 * cancel: blocks cancellation (pthread_cancel) of a thread inside libpch.
 */
#ifndef PCHRUN_LIBPCH_CANCEL_H
#define PCHRUN_LIBPCH_CANCEL_H

#include <pthread.h>

/* If the thread that reads the socket were cancelled, the other waiting threads would have no
 * reader. */
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
