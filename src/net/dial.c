/* SPDX-License-Identifier: Apache-2.0
 * See dial.h. One event waits first for the look-up, then for the socket. One timer bounds each of
 * these steps.
 */
#include "net/dial.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "net/resolve.h"
#include "net/stream.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct dial {
    struct dial_options options;
    struct address where;
    bool is_numeric; /* no name to look up */
    int64_t deadline;
    int lookup; /* of the look-up; -1: none */
    struct netaddr_list list;
    size_t next;         /* of the list */
    int fd;              /* of the attempt at list.all[next - 1] */
    struct event wait;   /* for lookup or fd */
    struct event expiry; /* of the current step */
    struct err err;      /* of the last attempt */
};

static void try_next(struct dial *dial);

static void stop_waiting(struct dial *dial)
{
    event_del(&dial->wait);
    evtimer_del(&dial->expiry);
}

void dial_free(struct dial *dial)
{
    if (!dial)
        return;
    stop_waiting(dial);
    fd_close(&dial->lookup);
    fd_close(&dial->fd);
    free(dial);
}

static void dial_finish(struct dial *dial)
{
    struct dial_options options = dial->options;
    int fd = fd_take(&dial->fd);
    struct err err = dial->err;
    union netaddr peer = {.any.sa_family = AF_INET};
    if (dial->next > 0)
        peer = dial->list.all[dial->next - 1];
    dial_free(dial);
    options.on_done(options.arg, fd, &peer, &err);
}

static bool dial_wait_for(struct dial *dial, int fd, short what, event_callback_fn fn)
{
    return event_assign(&dial->wait, dial->options.base, fd, what, fn, dial) == 0 &&
           event_add(&dial->wait, NULL) == 0;
}

static void dial_arm(struct dial *dial, int64_t ns)
{
    if (ns < 0)
        ns = 0;
    struct timeval tv = {.tv_sec = ns / NS_PER_S, .tv_usec = ns % NS_PER_S / 1000};
    evtimer_add(&dial->expiry, &tv);
}

static void attempt_failed(struct dial *dial, int error)
{
    char text[NETADDR_TEXT_MAX];
    const union netaddr *to = &dial->list.all[dial->next - 1];
    netaddr_text(to, text, sizeof text);
    if (dial->is_numeric)
        err_set(&dial->err, ERR_PEER, error, "cannot connect to %s%s", text, netaddr_lacks(to));
    else
        err_set(&dial->err, ERR_PEER, error, "cannot connect to %s (%s)", dial->where.host, text);
    fd_close(&dial->fd);
}

/* A connection to a local port on which no process listens can connect to itself: the kernel may
 * choose the same port for our end. */
static bool is_to_itself(int fd)
{
    union netaddr own, peer;
    memset(&own, 0, sizeof own);
    memset(&peer, 0, sizeof peer);
    socklen_t own_size = sizeof own, peer_size = sizeof peer;
    return getsockname(fd, &own.any, &own_size) == 0 &&
           getpeername(fd, &peer.any, &peer_size) == 0 && own_size == peer_size &&
           memcmp(&own, &peer, own_size) == 0;
}

static void on_connected(evutil_socket_t fd, short what, void *arg)
{
    struct dial *dial = arg;
    stop_waiting(dial);
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        error = errno;
    if (error == 0 && is_to_itself(fd))
        error = ECONNREFUSED;
    if (error != 0) {
        attempt_failed(dial, error);
        try_next(dial);
        return;
    }
    dial_finish(dial);
}

/* Starts a connection to the next address. False: it failed at once. */
static bool try_one(struct dial *dial)
{
    const union netaddr *to = &dial->list.all[dial->next++];
    bool is_under_way = false;
    dial->fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (dial->fd >= 0) {
        stream_tune(dial->fd, dial->options.silence_ns);
        /* The loop also reports a connection that succeeds at once. */
        is_under_way =
            (connect(dial->fd, &to->any, netaddr_size(to)) == 0 || errno == EINPROGRESS) &&
            dial_wait_for(dial, dial->fd, EV_WRITE, on_connected);
    }
    if (!is_under_way) {
        attempt_failed(dial, errno);
        return false;
    }
    int64_t left_ns = dial->deadline - clock_now_ns();
    dial_arm(dial, left_ns / (int64_t)(dial->list.n - dial->next + 1));
    return true;
}

static void try_next(struct dial *dial)
{
    while (dial->next < dial->list.n)
        if (try_one(dial))
            return;
    dial_finish(dial);
}

static void on_resolved(evutil_socket_t fd, short what, void *arg)
{
    struct dial *dial = arg;
    stop_waiting(dial);
    if (resolve_take(&dial->lookup, &dial->list, &dial->err))
        try_next(dial);
    else
        dial_finish(dial);
}

/* The current step took too long. With a numeric address the first attempt starts here. */
static void on_expiry(evutil_socket_t fd, short what, void *arg)
{
    struct dial *dial = arg;
    stop_waiting(dial);
    if (dial->lookup >= 0) {
        char text[32];
        err_set(&dial->err, ERR_PEER, 0, "cannot look up '%s': no answer within %s",
                dial->where.host, str_duration(dial->options.wait_ns, text, sizeof text));
        dial_finish(dial);
        return;
    }
    if (dial->fd >= 0)
        attempt_failed(dial, ETIMEDOUT);
    try_next(dial);
}

struct dial *dial_start(const struct dial_options *options, const struct address *where)
{
    struct dial *dial = calloc(1, sizeof *dial);
    if (!dial)
        return NULL;
    dial->options = *options;
    dial->where = *where;
    dial->fd = dial->lookup = -1;
    dial->deadline = clock_now_ns() + options->wait_ns;
    evtimer_assign(&dial->wait, options->base, on_expiry, dial); /* not in use yet */
    evtimer_assign(&dial->expiry, options->base, on_expiry, dial);
    dial->is_numeric = netaddr_numeric(where, &dial->list);
    if (!dial->is_numeric)
        dial->lookup = resolve_start(where, &dial->err);
    if (dial->lookup >= 0 && !dial_wait_for(dial, dial->lookup, EV_READ, on_resolved)) {
        dial_free(dial);
        return NULL;
    }
    dial_arm(dial, dial->lookup >= 0 ? options->wait_ns : 0);
    return dial;
}
