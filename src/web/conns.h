/* SPDX-License-Identifier: Apache-2.0
 *
 * conns: the connections of browsers, which libevent 2.1 neither counts nor bounds in time. A
 * connection has some seconds for each request and its answer, however slowly its bytes come. If
 * all places are in use, the connection that is idle for longest gives way to the new one. One
 * event loop; main thread. Owns nothing but its table; evhttp owns the connections.
 */
#pragma once

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <stdbool.h>
#include <stdint.h>

enum { CONNS_MAX = 64 };

struct conn {
    struct evhttp_connection *evcon; /* NULL: not known yet, or there is no connection */
    struct bufferevent *stream;      /* a reference, until evcon is known */
    int64_t since;                   /* the start, or the last request; CLOCK_MONOTONIC */
    /* While a request waits for its answer: called once if the client closes the connection. Such a
     * connection has no time limit, and never gives way. */
    void (*on_closed)(void *ctx);
    void *ctx;
};

struct conns {
    struct conn list[CONNS_MAX];
    struct event *settle;
};

/* False: no memory. Call conns_free() after evhttp_free(). */
bool conns_init(struct conns *conns, struct event_base *base, struct evhttp *http);
/* Before evhttp_free(): from now on no connection is reported as closed. */
void conns_end(struct conns *conns);
void conns_free(struct conns *conns);
/* The connection of a request that has come; its time begins again. NULL: it is not known. */
struct conn *conns_begin(struct conns *conns, struct evhttp_request *request);
/* Closes the connections whose time is over. Call once a second. */
void conns_sweep(struct conns *conns);
