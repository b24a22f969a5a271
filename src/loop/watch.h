/* SPDX-License-Identifier: Apache-2.0
 *
 * watch: descriptors and deadlines, over libevent. In this room only watch.c includes libevent,
 * because libevent has a struct event, too. A watch waits for a time, or after watch_fd() for a
 * descriptor. The loop calls its function until watch_end(), which that function may call. A struct
 * watch must not move in memory. Main thread.
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
    int64_t at;      /* when the clock fires; CLOCK_NEVER: never */
    int64_t tick_ns; /* see watch_within() */
    int ticks;       /* that are left after this one */
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
/* Sets the time of CLOCK_MONOTONIC to fire at; CLOCK_NEVER: never. A new call replaces the time. */
void watch_at(struct watch *watch, int64_t at_ns);
/* Fires in `wait_ns`, like watch_at(), for the deadline of a process. A standstill of the machine
 * counts for an eighth of that time at most, since the process stood still, too. */
void watch_within(struct watch *watch, int64_t wait_ns);
/* A clock that is set fires at that time at the latest. */
void watch_by(struct watch *watch, int64_t at_ns);
/* Call after watch_init() or watch_end(). Now the watch is no clock: it calls fn whenever the
 * descriptor is readable or at its end. */
MUST_CHECK bool watch_fd(struct watch *watch, int fd, struct err *err);
/* Like watch_fd(), but for writing: after each watch_arm(), calls fn once when bytes can be
 * written. */
void watch_writable(struct watch *watch, int fd);
MUST_CHECK bool watch_arm(struct watch *watch);
void watch_end(struct watch *watch);
