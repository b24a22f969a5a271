/* SPDX-License-Identifier: Apache-2.0
 *
 * inquiry: a helper (os/helper.h) whose whole answer is awaited in the event loop, with a deadline.
 * Owns its memory and its helper: inquiry_free(). Main thread.
 */
#pragma once

#include "base/buf.h"
#include "loop/watch.h"
#include "os/helper.h"

struct inquiry {
    helper_fn *fn;
    const void *arg;
    struct event_base *base;
    int64_t wait_ns; /* see watch_within() */
    size_t max;      /* of the answer; the rest is not read */
    /* The helper has ended, or missed its deadline and was killed. `text` has its answer so far.
     * May free the inquiry. */
    void (*on_over)(void *ctx, bool is_late);
    void *ctx;
    struct helper helper; /* set helper.reap first, too */
    /* private from here on */
    struct buf text;
    struct watch readable, deadline;
};

/* Set the public fields first. False: no helper could be started, or the previous one still hangs;
 * on_over() is not called. */
MUST_CHECK bool inquiry_start(struct inquiry *inquiry, struct err *err);
/* Kills the helper and keeps the text; on_over() is not called. */
void inquiry_stop(struct inquiry *inquiry);
void inquiry_free(struct inquiry *inquiry);
