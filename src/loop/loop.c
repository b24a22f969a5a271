/* SPDX-License-Identifier: Apache-2.0
 * See loop.h.
 */
#include "loop/loop.h"

#include "base/clock.h"
#include "base/str.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

struct loop_item {
    struct event event;
    struct err err;
};

static void on_timer(void *ctx)
{
    loop_post(ctx, &(struct event){.type = EV_TIMER});
}

bool loop_open(struct loop *loop, struct err *err)
{
    loop->base = watch_open(err);
    if (loop->base)
        watch_init(&loop->timer, loop->base, on_timer, loop);
    return loop->base;
}

static void set_timer(struct loop *loop)
{
    int64_t at = loop->is_over ? CLOCK_NEVER
                 : loop->spare ? spare_wake_at(loop->spare)
                               : core_wake_at(loop->core);
    watch_at(&loop->timer, at);
}

static bool open_queue(struct loop *loop, struct err *err)
{
    loop->queue = calloc(LOOP_QUEUE_MAX, sizeof *loop->queue);
    if (!loop->queue || (!loop->core && !loop->spare))
        return err_set(err, ERR_SYSTEM, ENOMEM, "cannot start");
    set_timer(loop);
    return true;
}

bool loop_open_core(struct loop *loop, const struct core_params *params, struct err *err)
{
    loop->core = core_new(params, loop->act, loop->ctx);
    return open_queue(loop, err);
}

bool loop_open_spare(struct loop *loop, const struct core_params *params, struct err *err)
{
    loop->spare = spare_new(params, loop->act, loop->ctx);
    return open_queue(loop, err);
}

void loop_free(struct loop *loop)
{
    watch_end(&loop->timer);
    watch_close(loop->base);
    core_free(loop->core);
    spare_free(loop->spare);
    free(loop->queue);
    *loop = (struct loop){0};
}

/* Copies the event, and its err or why: the caller may free them before the event is handled. */
static void enqueue(struct loop *loop, const struct event *event)
{
    assert(loop->count < LOOP_QUEUE_MAX);
    assert(event->type != EV_PROC_MESSAGE && event->type != EV_PEER_MESSAGE &&
           event->type != EV_NOTICE);
    struct loop_item *item = &loop->queue[(loop->first + loop->count++) % LOOP_QUEUE_MAX];
    item->event = *event;
    if (event->type == EV_CHILD_FAILED) {
        item->err = *event->child.err;
        item->event.child.err = &item->err;
    } else if ((event->type == EV_PREPARED || event->type == EV_COMMITTED) && event->unwritten) {
        item->err = *event->unwritten;
        item->event.unwritten = &item->err;
    } else if ((event->type == EV_PEER_DOWN || event->type == EV_PEER_STRANGE) && event->peer.why) {
        str_copy(item->err.text, sizeof item->err.text, event->peer.why);
        item->event.peer.why = item->err.text;
    } else if (event->type == EV_PROC_LOST) {
        str_copy(item->err.text, sizeof item->err.text, event->proc.why);
        item->event.proc.why = item->err.text;
    }
}

static void hand_over(struct loop *loop, const struct event *event)
{
    struct event timed = *event;
    if (loop->is_over)
        return;
    timed.now = clock_now_ns();
    timed.wall = clock_real_ns();
    loop->is_busy = true;
    if (loop->spare)
        spare_handle(loop->spare, &timed);
    else
        core_handle(loop->core, &timed);
    loop->is_busy = false;
}

void loop_post(struct loop *loop, const struct event *event)
{
    if (loop->is_busy) {
        enqueue(loop, event);
        return;
    }
    hand_over(loop, event);
    while (loop->count > 0) {
        hand_over(loop, &loop->queue[loop->first].event);
        loop->first = (loop->first + 1) % LOOP_QUEUE_MAX;
        loop->count--;
    }
    set_timer(loop);
    loop->settled(loop->ctx);
}
