/* SPDX-License-Identifier: Apache-2.0
 *
 * watch: descriptors and deadlines, over libevent: the only file of this room that includes it
 * (libevent, too, has a struct event). A watch calls its function from the loop until watch_end(),
 * which may be called from that function. Main thread.
 */
#ifndef PCHRUN_RUN_WATCH_H
#define PCHRUN_RUN_WATCH_H

#include "base/err.h"

#include <stdint.h>

struct event_base;

typedef void watch_fn(void *ctx);

/* Set fn and ctx, then begin it with watch_fd() or watch_clock(). */
struct watch {
    watch_fn *fn;
    void *ctx;
    void *handle; /* NULL: watches nothing */
    int64_t at;   /* when a clock rings; CLOCK_NEVER: it does not */
};

MUST_CHECK struct event_base *watch_open(struct err *err);
void watch_close(struct event_base *base);
/* Until watch_stop(). False: libevent cannot go on. */
MUST_CHECK bool watch_run(struct event_base *base);
void watch_stop(struct event_base *base);

/* Whenever the descriptor can be read, or has come to its end. */
MUST_CHECK bool watch_fd(struct watch *watch, struct event_base *base, int fd, struct err *err);
/* A clock that is set by watch_at() and rings once for each time that it is set. */
MUST_CHECK bool watch_clock(struct watch *watch, struct event_base *base, struct err *err);
/* Rings at this time of CLOCK_MONOTONIC, never at CLOCK_NEVER; the last call counts. */
void watch_at(struct watch *watch, int64_t at_ns);
void watch_end(struct watch *watch);

#endif
