/* SPDX-License-Identifier: Apache-2.0
 *
 * loop: the event loop of a watch: timers, descriptors, HTTP requests, terminating signals, and the
 * end of the reader of standard output.
 *
 * Owns the mask and the dispositions of signals from loop_begin() on. The caller owns its timers;
 * they use the monotonic clock. Main thread.
 */
#ifndef PCHRUN_WATCH_LOOP_H
#define PCHRUN_WATCH_LOOP_H

#include "watch/http.h"

struct loop_timer {
    int64_t at_ns; /* CLOCK_NEVER: not set */
    void (*fn)(void *ctx);
    void *ctx;
    struct loop_timer *next;
    bool is_listed;
};

struct loop {
    struct loop_timer *timers;
    int signals;    /* a signalfd */
    bool wants_out; /* a line waits for standard output */
    int fd;         /* an extra descriptor to read; -1: none */
    void (*on_fd)(void *ctx);
    void *ctx;
};

/* Call before any thread starts. */
MUST_CHECK bool loop_begin(struct loop *loop, struct err *err);
void loop_end(struct loop *loop);
/* In a forked child: resets the signals to their defaults. Async-signal-safe. */
void loop_restore_signals(void);

/* Calls fn once, at that time. Replaces an earlier setting. CLOCK_NEVER: cancels. */
void loop_at(struct loop *loop, struct loop_timer *timer, int64_t at_ns);

/* Waits for events and runs their callbacks. False: a signal has come, or the reader of standard
 * output is gone. */
MUST_CHECK bool loop_turn(struct loop *loop);

#endif
