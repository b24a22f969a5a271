/* SPDX-License-Identifier: Apache-2.0
 *
 * loop: waits for all that a watch waits for: timers, descriptors, HTTP requests, the signals that
 * end it, and the end of whoever reads its standard output.
 *
 * Owns the mask and the dispositions of signals from loop_begin() on. Timers belong to who set
 * them; the monotonic clock. Main thread.
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
    struct http *http;
    struct loop_timer *timers;
    int signals; /* a signalfd */
    int out;     /* its reader's end is ours */
    bool wants_out;
    int fd; /* one more to be read; -1: none */
    void (*on_fd)(void *ctx);
    void *ctx;
};

/* Before anything that may start a thread. */
MUST_CHECK bool loop_begin(struct loop *loop, int out, struct err *err);
void loop_end(struct loop *loop);
/* In a child that was forked: the signals as any program wants them. Async-signal-safe. */
void loop_restore_signals(void);

/* Calls fn once, at that time; a timer that is set already is set anew. CLOCK_NEVER: not at all. */
void loop_at(struct loop *loop, struct loop_timer *timer, int64_t at_ns);

enum loop_end { LOOP_GOES_ON, LOOP_SIGNAL, LOOP_READER_GONE };
/* Waits for something to happen, and tells who wants to know. */
MUST_CHECK enum loop_end loop_turn(struct loop *loop);

#endif
