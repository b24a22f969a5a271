/* SPDX-License-Identifier: Apache-2.0
 *
 * backoff: how long to wait before a program that has ended is started again: a second, then twice
 * as long each time, at most a minute. A run of a minute or more resets the wait. Pure; zeroed at
 * first.
 */
#ifndef PCHRUN_NOTICES_BACKOFF_H
#define PCHRUN_NOTICES_BACKOFF_H

#include <stdint.h>

#define BACKOFF_MIN_NS  INT64_C(1000000000)
#define BACKOFF_MAX_NS  (60 * BACKOFF_MIN_NS)
#define BACKOFF_GOOD_NS (60 * BACKOFF_MIN_NS)

struct backoff {
    int64_t wait_ns; /* the last wait; 0: none yet */
};

/* The program has ended after ran_ns (0: it could not be started). Returns how long to wait. */
int64_t backoff_ended(struct backoff *backoff, int64_t ran_ns);

#endif
