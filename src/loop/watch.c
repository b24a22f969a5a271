/* SPDX-License-Identifier: Apache-2.0
 * See watch.h.
 */
#include "loop/watch.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"

#include <errno.h>
#include <event2/event.h>

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
    /* One thread needs no locks. The job's EVENT_* variables must not change pchrun's event loop.
     */
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

static void on_event(evutil_socket_t fd, short what, void *arg)
{
    struct watch *watch = arg;
    watch->at = CLOCK_NEVER;
    watch->fn(watch->ctx);
}

static bool begin(struct watch *watch, struct event_base *base, int fd, short what, struct err *err)
{
    struct event *event = event_new(base, fd, what, on_event, watch);
    if (event && (!(what & EV_READ) || event_add(event, NULL) == 0)) {
        watch->handle = event;
        watch->at = CLOCK_NEVER;
        return true;
    }
    if (event)
        event_free(event);
    return err_set(err, ERR_SYSTEM, errno, "cannot watch descriptor %d", fd);
}

bool watch_fd(struct watch *watch, struct event_base *base, int fd, struct err *err)
{
    return begin(watch, base, fd, EV_READ | EV_PERSIST, err);
}

bool watch_writable(struct watch *watch, struct event_base *base, int fd, struct err *err)
{
    return begin(watch, base, fd, EV_WRITE, err);
}

bool watch_arm(struct watch *watch)
{
    return event_add(watch->handle, NULL) == 0;
}

bool watch_clock(struct watch *watch, struct event_base *base, struct err *err)
{
    return begin(watch, base, -1, 0, err);
}

void watch_at(struct watch *watch, int64_t at_ns)
{
    if (!watch->handle || at_ns == watch->at) /* unchanged, as after most events */
        return;
    watch->at = at_ns;
    if (at_ns == CLOCK_NEVER) {
        event_del(watch->handle);
        return;
    }
    int64_t left = at_ns - clock_now_ns();
    if (left < 0)
        left = 0;
    /* Round up: if it fired early, the core would ask for the same time again. */
    int64_t us = (left + 999) / 1000;
    struct timeval wait = {.tv_sec = us / 1000000, .tv_usec = us % 1000000};
    /* Out of memory: fire at once, since early and often is better than never. */
    if (event_add(watch->handle, &wait) != 0)
        event_active(watch->handle, EV_TIMEOUT, 0);
}

void watch_end(struct watch *watch)
{
    if (watch->handle)
        event_free(watch->handle);
    watch->handle = NULL;
}
