/* SPDX-License-Identifier: Apache-2.0
 *
 * watch: descriptors and deadlines, over libevent. It is the only file of this room that includes
 * libevent, which has a struct event, too. A watch is a clock, or becomes one of a descriptor. It
 * calls its function from the loop until watch_end(), which that function may call. It must not
 * move in memory. Main thread.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct event_base;

typedef void watch_fn(void *ctx);

/* Zeroed: watches nothing. */
struct watch {
    watch_fn *fn;
    void *ctx;
    int64_t at; /* when the clock fires; CLOCK_NEVER: it does not */
    bool is_open;
    _Alignas(max_align_t) char event[128]; /* libevent's struct event */
};

MUST_CHECK struct event_base *watch_open(struct err *err);
void watch_close(struct event_base *base);
/* One iteration of the loop: waits for the next event, and calls all watches that are due. False:
 * libevent has failed. */
MUST_CHECK bool watch_turn(struct event_base *base);

/* A clock for watch_at(): it fires once each time that it is set. */
void watch_init(struct watch *watch, struct event_base *base, watch_fn *fn, void *ctx);
/* Sets the time of CLOCK_MONOTONIC to fire at; CLOCK_NEVER: never. The last call counts. */
void watch_at(struct watch *watch, int64_t at_ns);
/* After watch_init(), or again after watch_end(): no clock any more, but calls fn whenever the
 * descriptor is readable or at its end. */
MUST_CHECK bool watch_fd(struct watch *watch, int fd, struct err *err);
/* The same for a descriptor that is full: after each watch_arm(), calls fn once when it can be
 * written to. */
void watch_writable(struct watch *watch, int fd);
MUST_CHECK bool watch_arm(struct watch *watch);
void watch_end(struct watch *watch);
