/* SPDX-License-Identifier: Apache-2.0
 *
 * server: answers browsers and Prometheus. It knows these paths: the files of the page, /healthz,
 * /metrics, /api/v1/status and /api/v1/events. It only reads, answers GET and HEAD, and bounds all
 * that a client sends. One event loop, in which nothing blocks: the asker has a thread of its own.
 * Owns its loop, evhttp and what it knows of the job. Main thread.
 */
#pragma once

#include "web/guard.h"
#include "web/stream.h"

enum { SERVER_WAITING_MAX = 8 };

/* A request that waits for a new picture, or for new metrics. */
struct server_waiting {
    struct evhttp_request *request; /* NULL: none */
    struct conn *conn;
    bool is_of_metrics;
    int64_t until;
};

struct server {
    struct guard guard; /* set before server_open(), as the next */
    struct asker *asker;
    /* private from here on */
    struct event_base *base;
    struct evhttp *http;
    struct event *tick, *news, *term, *interrupt;
    struct conns conns;
    struct streams streams;
    struct stream_source source;
    struct asker_metrics metrics; /* the newest */
    struct server_waiting waiting[SERVER_WAITING_MAX];
};

/* Listens at guard.listen. False: *err. Call server_free() in either case. */
MUST_CHECK bool server_open(struct server *server, struct err *err);
/* Returns at SIGTERM or SIGINT. The asker must have been started. False: the loop has failed. */
MUST_CHECK bool server_run(struct server *server, struct err *err);
void server_free(struct server *server);
