/* SPDX-License-Identifier: Apache-2.0
 *
 * loop: the one event loop, and the one way to the core.
 *
 * Every part of pchrun posts its news as events, and the core gets them at once. Events that the
 * core's actions cause are queued and handed over in order when the core returns, so the core is
 * never entered twice. When the queue is empty, the timer is set to the core's next deadline and
 * `settled` is called.
 *
 * No part reports that it has become idle: the shell asks all parts after each iteration of the
 * loop. A spare has its own, smaller machine in the core's place. Owns the machine and the event
 * base. Main thread.
 */
#pragma once

#include "core/core.h"
#include "core/spare/spare.h"
#include "loop/watch.h"

struct loop_item;

struct loop {
    core_act_fn *act;           /* performs an action of the core */
    void (*settled)(void *ctx); /* the core has handled an event and all events that it caused */
    void *ctx;
    struct event_base *base;
    struct core *core;   /* NULL until loop_open_core() */
    struct spare *spare; /* NULL until loop_open_spare() */
    struct watch timer;
    struct loop_item *queue; /* a ring of LOOP_QUEUE_MAX */
    unsigned first, count;
    bool is_busy;
    bool is_over;     /* set it after ACT_EXIT: the core gets no more events */
    bool has_changed; /* the report must be written again, after this iteration */
};

/* One action causes a bounded number of events: one or two for each child. */
#define LOOP_QUEUE_MAX (2 * CORE_CHILDREN_MAX + 64)

/* Set act, settled and ctx first, and zero the rest. */
MUST_CHECK bool loop_open(struct loop *loop, struct err *err);
/* Makes the core. Call before the first loop_post(). */
MUST_CHECK bool loop_open_core(struct loop *loop, const struct core_params *params,
                               struct err *err);
/* Makes the machine of a spare, in the core's place. */
MUST_CHECK bool loop_open_spare(struct loop *loop, const struct core_params *params,
                                struct err *err);
void loop_free(struct loop *loop);

/* Fills in `event->now` and `wall`. The event's pointers must be valid during the call. An event
 * that is posted by an action is queued with a copy of its err or why; it must have no message. */
void loop_post(struct loop *loop, const struct event *event);
