/* SPDX-License-Identifier: Apache-2.0
 * See feed.h.
 */
#include "notices/feed.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <unistd.h>

enum { CHUNK = 16 * 1024 };

static bool is_spent(const struct feed *feed)
{
    return feed->nlines >= feed->options.lines_per_s || feed->nbytes >= feed->options.bytes_per_s;
}

static void begin_second(struct feed *feed)
{
    feed->since = clock_now_ns();
    feed->nlines = 0;
    feed->nbytes = 0;
}

static void pause_reading(struct feed *feed)
{
    watch_end(&feed->readable);
    watch_at(&feed->resume, feed->since + NS_PER_S);
    if (feed->calls.flood)
        feed->calls.flood(feed->calls.ctx);
}

/* Hands out lines within this second's limits. False: a limit is reached. */
static bool give_lines(struct feed *feed)
{
    for (;;) {
        char *line;
        size_t len;
        if (is_spent(feed))
            return false;
        switch (lines_next(&feed->lines, &line, &len)) {
        case LINES_NONE:
            return true;
        case LINES_TOO_LONG:
            feed->calls.too_long(feed->calls.ctx);
            break;
        case LINES_ONE:
            feed->nlines++;
            feed->calls.line(feed->calls.ctx, line, len);
            break;
        }
    }
}

/* Reads one piece. False: no data now, or the end. */
static bool take_piece(struct feed *feed, bool *ret_is_end)
{
    static char chunk[CHUNK]; /* shared by all feeds: its content is copied before the next read */
    ssize_t n;
    do
        n = read(feed->fd, chunk, sizeof chunk);
    while (n < 0 && errno == EINTR);
    *ret_is_end = n == 0 || (n < 0 && errno != EAGAIN);
    if (n <= 0)
        return false;
    feed->nbytes += (size_t)n;
    if (!lines_add(&feed->lines, chunk, (size_t)n))
        feed->calls.too_long(feed->calls.ctx);
    return true;
}

/* False: reading pauses. */
static bool feed_go_on(struct feed *feed)
{
    if (clock_now_ns() - feed->since >= NS_PER_S)
        begin_second(feed);
    if (give_lines(feed))
        return true;
    pause_reading(feed);
    return false;
}

static void feed_on_readable(void *ctx)
{
    struct feed *feed = ctx;
    bool is_end;
    if (take_piece(feed, &is_end))
        (void)feed_go_on(feed);
    else if (is_end)
        watch_end(&feed->readable); /* source.c learns of the writer's end by other means */
}

static void on_resume(void *ctx)
{
    struct feed *feed = ctx;
    begin_second(feed);
    if (feed_go_on(feed) && !watch_fd(&feed->readable, feed->fd, NULL))
        pause_reading(feed); /* and try again */
}

bool feed_open(struct feed *feed, struct event_base *base, int *ret_writer, struct err *err)
{
    int ends[2];
    if (!fd_pipe(ends, 0, err))
        return false;
    feed->fd = ends[0];
    *ret_writer = ends[1];
    watch_init(&feed->readable, base, feed_on_readable, feed);
    watch_init(&feed->resume, base, on_resume, feed);
    lines_init(&feed->lines, feed->options.line_max, CHUNK);
    begin_second(feed);
    if (watch_fd(&feed->readable, feed->fd, err))
        return true;
    feed_close(feed);
    fd_close(ret_writer);
    return false;
}

void feed_drain(struct feed *feed)
{
    char *line;
    size_t len;
    bool is_end;
    if (feed->fd < 0)
        return;
    begin_second(feed);
    while (give_lines(feed) && take_piece(feed, &is_end))
        ;
    if (!is_spent(feed) && lines_last(&feed->lines, &line, &len) == LINES_ONE)
        feed->calls.line(feed->calls.ctx, line, len);
    feed_close(feed);
}

void feed_close(struct feed *feed)
{
    watch_end(&feed->readable);
    watch_end(&feed->resume);
    fd_close(&feed->fd);
    lines_free(&feed->lines);
}
