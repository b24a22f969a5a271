/* SPDX-License-Identifier: Apache-2.0
 *
 * watch: descriptors and deadlines, over libevent. It is the only file of this room that includes
 * libevent, which has a struct event, too. A watch calls its function from the loop until
 * watch_end(), which that function may call. Main thread.
 */
#pragma once

#include "base/err.h"

#include <stdint.h>

struct event_base;

typedef void watch_fn(void *ctx);

/* Set fn and ctx, then call watch_fd(), watch_writable() or watch_clock(). */
struct watch {
    watch_fn *fn;
    void *ctx;
    void *handle; /* NULL: watches nothing */
    int64_t at;   /* when the clock fires; CLOCK_NEVER: it does not */
};

MUST_CHECK struct event_base *watch_open(struct err *err);
void watch_close(struct event_base *base);
/* One iteration of the loop: waits for the next event, and calls all watches that are due. False:
 * libevent has failed. */
MUST_CHECK bool watch_turn(struct event_base *base);

/* Calls fn whenever the descriptor is readable or at its end. */
MUST_CHECK bool watch_fd(struct watch *watch, struct event_base *base, int fd, struct err *err);
/* For a descriptor that is full: after each watch_arm(), calls fn once when it can be written to.
 */
MUST_CHECK bool watch_writable(struct watch *watch, struct event_base *base, int fd,
                               struct err *err);
MUST_CHECK bool watch_arm(struct watch *watch);
/* A clock for watch_at(): it fires once each time that it is set. */
MUST_CHECK bool watch_clock(struct watch *watch, struct event_base *base, struct err *err);
/* Sets the time of CLOCK_MONOTONIC to fire at; CLOCK_NEVER: never. The last call counts. */
void watch_at(struct watch *watch, int64_t at_ns);
void watch_end(struct watch *watch);
