/* SPDX-License-Identifier: Apache-2.0
 * See stream.h.
 */
#include "web/stream.h"

#include "base/clock.h"
#include "base/str.h"
#include "web/status.h"

#include <event2/buffer.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>

/* How long a reader may take no byte. */
enum { WRITE_TIMEOUT_S = 20 };
/* Nothing is added while so many bytes wait for a reader. */
enum { UNREAD_MAX = 64 * 1024 };
/* A reader hears this often that it is still connected. */
#define CONTACT_NS (900 * NS_PER_MS)

static size_t stream_unread(const struct stream *stream)
{
    struct evhttp_connection *evcon = evhttp_request_get_connection(stream->request);
    return evbuffer_get_length(bufferevent_get_output(evhttp_connection_get_bufferevent(evcon)));
}

/* --- what is sent --- */

static void stream_add_picture(const struct stream_source *source, struct stream *stream,
                               struct evbuffer *out)
{
    const struct asker_picture *picture = &source->picture;
    if (picture->at == stream->picture_at)
        return;
    if (stream->layout != source->layout)
        evbuffer_add_printf(out, "event: layout\ndata: %s\n\n", picture->layout);
    evbuffer_add_printf(out, "event: state\ndata: %s\n\n", picture->state);
    stream->layout = source->layout;
    stream->picture_at = picture->at;
}

static void stream_add_timeline(const struct stream_source *source, struct stream *stream,
                                struct evbuffer *out)
{
    if (source->timeline.number != stream->timeline)
        evbuffer_add_printf(out, "event: timeline\ndata: %s\n\n", source->timeline.text);
    stream->timeline = source->timeline.number;
}

static void stream_add_lines(const struct stream_source *source, struct stream *stream,
                             struct evbuffer *out)
{
    const struct kept *lines = &source->lines;
    char id[KEPT_ID_SIZE];
    if (stream->line < kept_first(lines))
        stream->line = kept_first(lines);
    for (; stream->line <= lines->last && evbuffer_get_length(out) < UNREAD_MAX; stream->line++)
        evbuffer_add_printf(out, "event: line\nid: %s\ndata: %s\n\n",
                            kept_id(lines, stream->line, id), kept_at(lines, stream->line)->text);
}

/* Also the sign of life of this program. */
static void stream_add_contact(const struct stream_source *source, struct stream *stream,
                               int64_t now, struct evbuffer *out)
{
    bool is_due = now - stream->contact_at >= CONTACT_NS || evbuffer_get_length(out) > 0;
    size_t len;
    char *text = is_due ? status_contact(&source->picture, &source->contact, now, &len) : NULL;
    if (text)
        evbuffer_add_printf(out, "event: contact\ndata: %s\n\n", text);
    if (text)
        stream->contact_at = now;
    free(text);
}

static void stream_feed(const struct stream_source *source, struct stream *stream)
{
    struct evbuffer *out = stream_unread(stream) < UNREAD_MAX ? evbuffer_new() : NULL;
    if (!out)
        return;
    stream_add_picture(source, stream, out);
    stream_add_timeline(source, stream, out);
    stream_add_lines(source, stream, out);
    stream_add_contact(source, stream, clock_now_ns(), out);
    if (evbuffer_get_length(out) > 0)
        evhttp_send_reply_chunk(stream->request, out);
    evbuffer_free(out);
}

void streams_feed(struct streams *streams)
{
    for (int i = 0; i < STREAMS_MAX; i++)
        if (streams->list[i].request)
            stream_feed(streams->source, &streams->list[i]);
}

void streams_take_timeline(struct stream_source *source, const char *text, const char *why)
{
    struct stream_timeline *timeline = &source->timeline;
    size_t len = text ? strlen(text) - 1 : 0; /* without its newline */
    char *new = text ? strndup(text, len) : status_why(why);
    if (!new || (timeline->text && str_is(timeline->text, new))) {
        free(new);
        return;
    }
    free(timeline->text);
    timeline->text = new;
    timeline->number++;
}

/* --- begin and end --- */

/* The client has closed the connection. evhttp leaves the request to its owner. */
static void stream_on_closed(void *ctx)
{
    struct stream *stream = ctx;
    evhttp_request_free(stream->request);
    *stream = (struct stream){0};
}

/* A reader's machine may vanish. libevent's limit begins when the socket's buffer is full, which
 * takes minutes. The kernel's limit begins when the reader acknowledges nothing any more. */
static void stream_limit(struct evhttp_connection *evcon)
{
    const struct timeval patience = {.tv_sec = WRITE_TIMEOUT_S};
    const unsigned ms = WRITE_TIMEOUT_S * 1000;
    struct bufferevent *out = evhttp_connection_get_bufferevent(evcon);
    /* Without this option the reader's place is only freed later. */
    (void)setsockopt(bufferevent_getfd(out), IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
    /* A reader sends nothing: only the wait until it takes bytes has a limit. */
    bufferevent_set_timeouts(out, NULL, &patience);
}

bool streams_begin(struct streams *streams, struct conn *conn, struct evhttp_request *request,
                   const char *last_id)
{
    struct stream *stream = streams->list;
    while (stream < streams->list + STREAMS_MAX && stream->request)
        stream++;
    if (stream == streams->list + STREAMS_MAX)
        return false;
    *stream =
        (struct stream){.request = request, .line = kept_after(&streams->source->lines, last_id)};
    conn->on_closed = stream_on_closed;
    conn->ctx = stream;
    evhttp_add_header(evhttp_request_get_output_headers(request), "Content-Type", STREAM_TYPE);
    evhttp_send_reply_start(request, HTTP_OK, "OK");
    stream_limit(conn->evcon);
    stream_feed(streams->source, stream);
    return true;
}

bool streams_are_read(const struct streams *streams)
{
    for (int i = 0; i < STREAMS_MAX; i++)
        if (streams->list[i].request)
            return true;
    return false;
}
