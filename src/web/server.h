/* SPDX-License-Identifier: Apache-2.0
 *
 * server: answers browsers and Prometheus. It knows these paths: the files of the page, /healthz,
 * /metrics, /api/v1/status, /api/v1/events and /api/v1/history. It only reads, answers GET and
 * HEAD, and bounds all that a client sends. One event loop, in which nothing blocks: the asker has
 * a thread of its own, and the reader of the ledger a process. Owns its loop, evhttp and what it
 * knows of the job. Main thread.
 */
#pragma once

#include "web/guard.h"
#include "web/past.h"
#include "web/stream.h"

enum { SERVER_WAITING_MAX = 8 };

enum server_topic { SERVER_STATUS, SERVER_METRICS, SERVER_HISTORY, SERVER__TOPICS };

/* A request that waits for news of its topic. */
struct server_waiting {
    struct evhttp_request *request; /* NULL: none */
    struct conn *conn;
    enum server_topic topic;
    int64_t until;
};

struct server {
    struct guard guard; /* set before server_open(), as the next two */
    struct asker *asker;
    const char *state_dir; /* whose ledger is read; NULL: that of the job */
    /* private from here on */
    struct event_base *base;
    struct evhttp *http;
    struct event *tick, *news, *term, *interrupt;
    struct conns conns;
    struct streams streams;
    struct stream_source source;
    struct asker_metrics metrics; /* the newest */
    struct reap reap;             /* of the helpers of the next three */
    struct past past, timeline, last_metrics;
    int64_t timeline_at; /* the timeline may be read again then, CLOCK_MONOTONIC */
    bool has_new_lines;  /* since it was read last */
    struct server_waiting waiting[SERVER_WAITING_MAX];
};

/* Listens at guard.listen. False: *err. Call server_free() in either case. */
MUST_CHECK bool server_open(struct server *server, struct err *err);
/* Returns at SIGTERM or SIGINT. The asker must have been started. False: the loop has failed. */
MUST_CHECK bool server_run(struct server *server, struct err *err);
void server_free(struct server *server);
