/* SPDX-License-Identifier: Apache-2.0
 * See conns.h. evhttp asks for the bufferevent of each new connection. Its argument is then the
 * struct evhttp_connection, which tells when the connection is closed.
 */
#include "web/conns.h"

#include "base/clock.h"

/* For a request and its answer. */
#define REQUEST_NS (15 * NS_PER_S)

/* Bytes of a client that are read before its request is answered. */
enum { UNREAD_MAX = 64 * 1024 };

static void conn_on_closed(struct evhttp_connection *evcon, void *arg)
{
    struct conn *conn = arg;
    struct conn closed = *conn;
    *conn = (struct conn){0};
    if (closed.on_closed)
        closed.on_closed(closed.ctx);
}

/* evhttp has set the argument of the bufferevent; it is NULL if the connection is closed already.
 */
static void conns_settle(struct conns *conns)
{
    for (int i = 0; i < CONNS_MAX; i++) {
        struct conn *conn = &conns->list[i];
        struct bufferevent *stream = conn->stream;
        void *evcon = NULL;
        if (!stream)
            continue;
        bufferevent_getcb(stream, NULL, NULL, NULL, &evcon);
        conn->stream = NULL;
        conn->evcon = evcon;
        if (evcon)
            evhttp_connection_set_closecb(evcon, conn_on_closed, conn);
        bufferevent_decref(stream);
    }
}

static void conns_on_settle(evutil_socket_t fd, short what, void *arg)
{
    conns_settle(arg);
}

/* --- places --- */

static struct conn *conns_oldest(struct conns *conns)
{
    struct conn *oldest = NULL;
    for (int i = 0; i < CONNS_MAX; i++) {
        struct conn *conn = &conns->list[i];
        if (conn->evcon && !conn->on_closed && (!oldest || conn->since < oldest->since))
            oldest = conn;
    }
    return oldest;
}

/* NULL: requests in all places wait for their answers. */
static struct conn *conns_place(struct conns *conns)
{
    for (int i = 0; i < CONNS_MAX; i++)
        if (!conns->list[i].evcon)
            return &conns->list[i];
    struct conn *oldest = conns_oldest(conns);
    if (oldest)
        evhttp_connection_free(oldest->evcon); /* conn_on_closed() clears the place */
    return oldest;
}

static struct bufferevent *conns_on_accept(struct event_base *base, void *arg)
{
    struct conns *conns = arg;
    conns_settle(conns);
    struct conn *place = conns_place(conns);
    struct bufferevent *stream = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    if (!stream || !place)
        return stream;
    bufferevent_setwatermark(stream, EV_READ, 0, UNREAD_MAX);
    bufferevent_incref(stream);
    *place = (struct conn){.stream = stream, .since = clock_now_ns()};
    event_active(conns->settle, EV_TIMEOUT, 0);
    return stream;
}

/* --- the owner's side --- */

bool conns_init(struct conns *conns, struct event_base *base, struct evhttp *http)
{
    *conns = (struct conns){.settle = event_new(base, -1, 0, conns_on_settle, conns)};
    evhttp_set_bevcb(http, conns_on_accept, conns);
    return conns->settle != NULL;
}

void conns_end(struct conns *conns)
{
    conns_settle(conns);
    for (int i = 0; i < CONNS_MAX; i++)
        if (conns->list[i].evcon)
            evhttp_connection_set_closecb(conns->list[i].evcon, NULL, NULL);
}

void conns_free(struct conns *conns)
{
    if (conns->settle)
        event_free(conns->settle);
    *conns = (struct conns){0};
}

struct conn *conns_begin(struct conns *conns, struct evhttp_request *request)
{
    struct evhttp_connection *evcon = evhttp_request_get_connection(request);
    for (int i = 0; i < CONNS_MAX; i++)
        if (conns->list[i].evcon == evcon) {
            conns->list[i].since = clock_now_ns();
            return &conns->list[i];
        }
    return NULL;
}

void conns_sweep(struct conns *conns)
{
    int64_t limit = clock_now_ns() - REQUEST_NS;
    for (int i = 0; i < CONNS_MAX; i++) {
        struct conn *conn = &conns->list[i];
        if (conn->evcon && !conn->on_closed && conn->since < limit)
            evhttp_connection_free(conn->evcon);
    }
}
