/* SPDX-License-Identifier: Apache-2.0
 *
 * stream: the readers of /api/v1/events. Each gets the newest picture, the newest timeline and
 * every line of the journal, as server-sent events: "layout", "state", "timeline", "contact", and
 * "line" with an id. A reader that is slow misses pictures, but no line that is still kept. A
 * reader that takes no byte for a while is cut off. One event loop; main thread.
 */
#pragma once

#include "web/asker.h"
#include "web/conns.h"
#include "web/kept.h"

enum { STREAMS_MAX = 32 };
#define STREAM_TYPE "text/event-stream"

/* The data that all readers get. */
struct stream_source {
    struct asker_picture picture;
    uint64_t layout; /* changes with the layout of the picture */
    struct asker_contact contact;
    struct kept lines;
    struct stream_timeline {
        char *text;      /* NULL: none so far; without a newline */
        uint64_t number; /* changes with the text */
    } timeline;
};

struct stream {
    struct evhttp_request *request; /* NULL: there is no reader */
    uint64_t line;                  /* the next line to send */
    uint64_t layout, timeline;      /* that it has; 0: none */
    int64_t picture_at, contact_at; /* of what was sent last */
};

struct streams {
    const struct stream_source *source;
    struct stream list[STREAMS_MAX];
};

/* Begins the answer to a request; the headers but for the type are set already. `last_id`: of its
 * last event; NULL: none. False: there are too many readers. */
bool streams_begin(struct streams *streams, struct conn *conn, struct evhttp_request *request,
                   const char *last_id);
bool streams_are_read(const struct streams *streams);
/* Sends what is new to all readers. Call once a second, and when there is news. */
void streams_feed(struct streams *streams);
/* Takes a copy of the new timeline, a line of JSON; NULL: there is none, and why[] says the reason.
 */
void streams_take_timeline(struct stream_source *source, const char *text, const char *why);
