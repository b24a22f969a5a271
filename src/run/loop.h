/* SPDX-License-Identifier: Apache-2.0
 *
 * loop: the one event loop, and the one way to the core.
 *
 * Whoever learns something posts an event. The core gets it at once; what its actions make happen
 * is queued and handed over in order when the core has returned, so the core is never entered
 * twice. When the queue is empty the timer is set to the core's next deadline and `settled` is
 * called. Owns the core and the event base. Main thread.
 */
#ifndef PCHRUN_RUN_LOOP_H
#define PCHRUN_RUN_LOOP_H

#include "core/core.h"
#include "run/watch.h"

struct loop_item;

struct loop {
    struct event_base *base; /* NULL until loop_open() */
    struct core *core;
    struct watch timer;
    struct loop_item *queue; /* a ring of LOOP_QUEUE_MAX */
    unsigned first, count;
    bool is_busy, is_over;
    void (*settled)(void *ctx);
    void *ctx;
};

/* What one action can make happen at once is bounded: an event or two for each child. */
#define LOOP_QUEUE_MAX (2 * CORE_CHILDREN_MAX + 64)

MUST_CHECK bool loop_init(struct loop *loop, const struct core_params *params, core_act_fn *act,
                          void *ctx, struct err *err);
void loop_on_settled(struct loop *loop, void (*settled)(void *ctx));
MUST_CHECK bool loop_open(struct loop *loop, struct err *err);
void loop_free(struct loop *loop);

/* `event->now` and `wall` are filled in. What it points to is borrowed for the call. An event that
 * is posted by an action is kept with a copy of its err or why, and must carry no message. */
void loop_post(struct loop *loop, const struct event *event);
/* The core has said EXIT: it gets no more events. */
void loop_close_core(struct loop *loop);
/* Until loop_stop(); false: the loop has failed. */
MUST_CHECK bool loop_run(struct loop *loop);
void loop_stop(struct loop *loop);

#endif
