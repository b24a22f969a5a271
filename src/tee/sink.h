/* SPDX-License-Identifier: Apache-2.0
 *
 * sink: a place where output goes, and the thread that brings it there, which may hang for as long
 * as that place likes. What arrives for it waits in branches, one for each stream, each bounded.
 *
 * A write that fails loses what was to be written: it is counted, the next is tried a little later,
 * and when one succeeds again a line in the output says how much is missing. In struct branch, what
 * is the reader's is used by the thread that adds, the rest by the sink's own. Nothing is freed:
 * sinks live as long as their process.
 */
#ifndef PCHRUN_TEE_SINK_H
#define PCHRUN_TEE_SINK_H

#include "tee/mixer.h"
#include "tee/ring.h"
#include "tee/rotate.h"

#include <pthread.h>
#include <stdint.h>

/* Read by the supervisor at any time. */
struct branch_state {
    _Atomic uint64_t lost;   /* bytes */
    _Atomic int trouble;     /* errno of the last write, 0: it succeeded */
    _Atomic bool is_full;    /* nothing is taken in time, so what comes is dropped */
    struct ring_marks marks; /* what waits to be written */
};

struct branch {
    struct ring ring;
    struct branch_state *state;
    /* the reader's */
    int64_t full_since; /* 0: it is not */
    uint64_t dropped;   /* since it was full */
    /* the sink's */
    struct rotate file; /* it goes there, if it has a path; else to the descriptor */
    int fd;
    struct mixer_stream mixed;
    uint64_t missing; /* since writes fail */
    int64_t retry_at;
    size_t seen;        /* how much had come when its last line was found to have no end */
    int64_t partial_at; /* when that line goes out nevertheless; 0: there is none */
};

/* Who waits for what sinks do. */
struct bell {
    int event;               /* an eventfd: rung when something was taken and somebody waits */
    _Atomic bool is_awaited; /* so is that, as long as this is set */
    int supervisor;          /* a socket: gets a byte when a state has changed */
};

struct sink {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct bell *bell;
    struct branch **branches;
    size_t count, next;
    bool by_line; /* what has no path: its branches do not interrupt each other's lines */
    struct mixer mixer;
    _Atomic bool is_closing, is_done;
};

MUST_CHECK bool branch_init(struct branch *branch, size_t size, struct branch_state *state);
/* May `n` bytes be added now? It says no for a while (until *ret_until at the latest) when there is
 * no room; then yes, since they are dropped. The reader's thread. */
bool branch_accepts(struct branch *branch, size_t n, int64_t now, int64_t *ret_until);
/* After it has said yes. */
void branch_add(struct sink *sink, struct branch *branch, const char *bytes, size_t n);

/* For so many branches, which are put in before it is started. */
MUST_CHECK bool sink_init(struct sink *sink, size_t max, bool by_line, struct bell *bell);
void sink_put_in(struct sink *sink, struct branch *branch);
/* False: errno says why. */
MUST_CHECK bool sink_start(struct sink *sink);
/* Something was added. */
void sink_wake(struct sink *sink);
/* Nothing is added any more: all is written or lost, and then it is done. */
void sink_close(struct sink *sink);
bool sink_is_done(const struct sink *sink);

void bell_ring(struct bell *bell);

#endif
