/* SPDX-License-Identifier: Apache-2.0
 * See watch.h.
 */
#include "loop/watch.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>

enum { TICKS = 8 }; /* of watch_within() */

_Static_assert(sizeof(struct event) <= sizeof((struct watch *)NULL)->event, "it has the space");

/* By default libevent writes to standard error. */
static void on_libevent_log(int severity, const char *text)
{
    if (severity >= EVENT_LOG_WARN)
        log_warn("loop", "libevent: %s", text);
}

struct event_base *watch_open(struct err *err)
{
    enum { FDS = 4 }; /* for epoll, its timer, and a signal pair; libevent exits without them */
    event_set_log_callback(on_libevent_log);
    if (!fd_probe(FDS, err)) {
        err_wrap(err, "cannot set up the event loop");
        return NULL;
    }
    /* One thread needs no locks. The job's EVENT_* variables must not change this loop. */
    struct event_config *config = event_config_new();
    struct event_base *base = NULL;
    if (config) {
        event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_IGNORE_ENV);
        base = event_base_new_with_config(config);
        event_config_free(config);
    }
    if (!base)
        err_set(err, ERR_SYSTEM, errno, "cannot set up the event loop");
    return base;
}

void watch_close(struct event_base *base)
{
    if (base)
        event_base_free(base);
    libevent_global_shutdown();
}

bool watch_turn(struct event_base *base)
{
    return event_base_loop(base, EVLOOP_ONCE | EVLOOP_NO_EXIT_ON_EMPTY) == 0;
}

static struct event *event_of(struct watch *watch)
{
    return (struct event *)(void *)watch->event;
}

static void watch_set(struct watch *watch, int64_t at_ns)
{
    watch->at = at_ns;
    int64_t left = at_ns - clock_now_ns();
    if (left < 0)
        left = 0;
    /* Round up: after an early end of the timer the core would ask for the same time again. */
    int64_t us = (left + 999) / 1000;
    struct timeval wait = {.tv_sec = us / 1000000, .tv_usec = us % 1000000};
    /* If memory for the timer is missing, fire at once: too early is better than never. */
    if (event_add(event_of(watch), &wait) != 0)
        event_active(event_of(watch), EV_TIMEOUT, 0);
}

/* Each tick begins when this process has seen the last one. */
static void on_event(evutil_socket_t fd, short what, void *arg)
{
    struct watch *watch = arg;
    if (watch->ticks > 0) {
        watch->ticks--;
        watch_set(watch, clock_now_ns() + watch->tick_ns);
        return;
    }
    watch->at = CLOCK_NEVER;
    watch->fn(watch->ctx);
}

static void assign(struct watch *watch, struct event_base *base, int fd, short what)
{
    (void)event_assign(event_of(watch), base, fd, what, on_event, watch);
    watch->at = CLOCK_NEVER;
    watch->ticks = 0;
    watch->is_open = true;
}

void watch_init(struct watch *watch, struct event_base *base, watch_fn *fn, void *ctx)
{
    *watch = (struct watch){.fn = fn, .ctx = ctx};
    assign(watch, base, -1, 0);
}

bool watch_fd(struct watch *watch, int fd, struct err *err)
{
    assign(watch, event_get_base(event_of(watch)), fd, EV_READ | EV_PERSIST);
    return event_add(event_of(watch), NULL) == 0 ||
           err_set(err, ERR_SYSTEM, errno, "cannot watch descriptor %d", fd);
}

void watch_writable(struct watch *watch, int fd)
{
    assign(watch, event_get_base(event_of(watch)), fd, EV_WRITE);
}

bool watch_arm(struct watch *watch)
{
    return event_add(event_of(watch), NULL) == 0;
}

void watch_at(struct watch *watch, int64_t at_ns)
{
    watch->ticks = 0;
    if (!watch->is_open || at_ns == watch->at) /* unchanged, as after most events */
        return;
    if (at_ns != CLOCK_NEVER) {
        watch_set(watch, at_ns);
        return;
    }
    watch->at = CLOCK_NEVER;
    event_del(event_of(watch));
}

void watch_within(struct watch *watch, int64_t wait_ns)
{
    watch->tick_ns = wait_ns / TICKS;
    watch_at(watch, clock_now_ns() + watch->tick_ns);
    watch->ticks = TICKS - 1;
}

void watch_by(struct watch *watch, int64_t at_ns)
{
    if (watch->at != CLOCK_NEVER && watch->at + watch->ticks * watch->tick_ns > at_ns)
        watch_at(watch, at_ns);
}

void watch_end(struct watch *watch)
{
    if (watch->is_open)
        event_del(event_of(watch));
    watch->is_open = false;
}
