/* SPDX-License-Identifier: Apache-2.0
 * See dial.h. One event waits first for the look-up, then for the socket of each attempt. It limits
 * the time of each step.
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
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct dial {
    struct dial_options options;
    struct address where;
    bool is_numeric; /* no name to look up */
    int64_t wait_ns, deadline;
    int lookup; /* of the look-up; -1: none */
    struct netaddr_list list;
    size_t next;       /* of the list */
    int fd;            /* of the attempt at list.all[next - 1]; -1: none */
    struct event wait; /* for lookup, fd, or the first attempt */
    struct err err;    /* of the last attempt */
};

void dial_stop(struct dial *dial)
{
    event_del(&dial->wait);
    fd_close(&dial->lookup);
    fd_close(&dial->fd);
}

void dial_free(struct dial *dial)
{
    if (dial)
        dial_stop(dial);
    free(dial);
}

/* Copies what it reports, since the callee may dial again. */
static void dial_finish(struct dial *dial)
{
    int fd = fd_take(&dial->fd);
    struct err err = dial->err;
    union netaddr peer = {.any.sa_family = AF_INET};
    if (dial->next > 0)
        peer = dial->list.all[dial->next - 1];
    dial_stop(dial);
    dial->options.on_done(dial->options.arg, fd, &peer, &err);
}

static void on_wait(evutil_socket_t fd, short what, void *arg);

/* Calls on_wait() when the descriptor is ready, or after this time. */
static bool dial_wait_for(struct dial *dial, int fd, short what, int64_t ns)
{
    ns = ns > 0 ? ns : 0;
    struct timeval tv = {.tv_sec = ns / NS_PER_S, .tv_usec = ns % NS_PER_S / 1000};
    return event_assign(&dial->wait, dial->options.base, fd, what, on_wait, dial) == 0 &&
           event_add(&dial->wait, &tv) == 0;
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

/* 0: the attempt has succeeded; else an errno. */
static int error_of(int fd)
{
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        return errno;
    return error == 0 && is_to_itself(fd) ? ECONNREFUSED : error;
}

/* Starts a connection to the next address. False: it failed at once. */
static bool try_one(struct dial *dial)
{
    const union netaddr *to = &dial->list.all[dial->next++];
    bool is_under_way = false;
    dial->fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (dial->fd >= 0) {
        stream_tune(dial->fd, dial->options.silence_ns);
        int64_t left_ns = dial->deadline - clock_now_ns();
        /* The loop also reports a connection that succeeds at once. */
        is_under_way =
            (connect(dial->fd, &to->any, netaddr_size(to)) == 0 || errno == EINPROGRESS) &&
            dial_wait_for(dial, dial->fd, EV_WRITE,
                          left_ns / (int64_t)(dial->list.n - dial->next + 1));
    }
    if (!is_under_way)
        attempt_failed(dial, errno);
    return is_under_way;
}

/* A step that is done in time counts, even if the loop sees it after its time. With a numeric
 * address the first attempt starts here. */
static void on_wait(evutil_socket_t fd, short what, void *arg)
{
    struct dial *dial = arg;
    struct pollfd p = {.fd = fd, .events = dial->fd >= 0 ? POLLOUT : POLLIN};
    bool is_late = poll(&p, 1, 0) <= 0;
    char text[32];
    if (dial->fd >= 0) {
        int error = is_late ? ETIMEDOUT : error_of(dial->fd);
        if (error == 0) {
            dial_finish(dial);
            return;
        }
        attempt_failed(dial, error);
    } else if (dial->lookup >= 0 && is_late) {
        err_set(&dial->err, ERR_PEER, 0, "cannot look up '%s': no answer within %s",
                dial->where.host, str_duration(dial->wait_ns, text, sizeof text));
    } else if (dial->lookup >= 0 && !resolve_take(&dial->lookup, &dial->list, &dial->err)) {
        dial->list.n = 0;
    }
    while (dial->next < dial->list.n)
        if (try_one(dial))
            return;
    dial_finish(dial);
}

struct dial *dial_new(const struct dial_options *options)
{
    struct dial *dial = calloc(1, sizeof *dial);
    if (!dial)
        return NULL;
    dial->options = *options;
    dial->fd = dial->lookup = -1;
    evtimer_assign(&dial->wait, options->base, on_wait, dial);
    return dial;
}

void dial_start(struct dial *dial, const struct address *where, int64_t wait_ns)
{
    dial->where = *where;
    dial->wait_ns = wait_ns;
    dial->deadline = clock_now_ns() + wait_ns;
    dial->next = dial->list.n = 0;
    dial->is_numeric = netaddr_numeric(where, &dial->list);
    if (!dial->is_numeric)
        dial->lookup = resolve_start(where, &dial->err);
    if (dial->lookup >= 0 && dial_wait_for(dial, dial->lookup, EV_READ, wait_ns))
        return;
    if (dial->lookup >= 0)
        err_set(&dial->err, ERR_SYSTEM, ENOMEM, "cannot look up '%s'", where->host);
    fd_close(&dial->lookup);
    /* If memory for the timer is missing, begin at once. */
    if (!dial_wait_for(dial, -1, 0, 0))
        event_active(&dial->wait, EV_TIMEOUT, 0);
}
