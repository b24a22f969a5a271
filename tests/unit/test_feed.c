/* SPDX-License-Identifier: Apache-2.0
 *
 * test_feed: lines of a program that is not trusted. feed limits the number of lines in a second;
 * source_next_wait() says when the program is started again.
 */
#include "notices/feed.h"

#include "base/clock.h"
#include "base/str.h"
#include "notices/source.h"
#include "unit.h"

#include <event2/event.h>

/* --- lines --- */

enum { MAX = 8, PIECE = 4 };

/* Feeds `data` in pieces, and returns the lines: each in brackets, "!" for a line that was too
 * long. */
static char *split(const char *data, size_t piece)
{
    static char text[512];
    struct lines lines;
    char *line;
    size_t len, n = strlen(data);
    enum lines_result result;
    lines_init(&lines, MAX, PIECE);
    text[0] = '\0';
    for (size_t at = 0; at < n; at += piece) {
        cr_assert(lines_add(&lines, data + at, n - at < piece ? n - at : piece));
        while ((result = lines_next(&lines, &line, &len)) != LINES_NONE) {
            str_addf(text, sizeof text, result == LINES_ONE ? "[%s]" : "!", line);
            cr_assert(result == LINES_TOO_LONG || strlen(line) == len);
        }
    }
    while ((result = lines_last(&lines, &line, &len)) != LINES_NONE)
        str_addf(text, sizeof text, result == LINES_ONE ? "(%s)" : "!", line);
    lines_free(&lines);
    return text;
}

Test(feed, lines_of_any_pieces)
{
    static const struct {
        const char *in, *want;
    } rows[] = {
        {"", ""},
        {"\n", "[]"},
        {"a\nbc\n\nd", "[a][bc][](d)"},
        {"12345678\n12345678", "[12345678](12345678)"},
        {"123456789\na\n", "![a]"},
        {"1234567890123456789012345678901234567890\na\n123456789\n\nb", "![a]![](b)"},
        {"a\n123456789", "[a]!"},
        {"a\n12345678901234567890", "[a]!"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        for (size_t piece = 1; piece <= PIECE; piece++)
            cr_expect_str_eq(split(rows[i].in, piece), rows[i].want, "row %zu in pieces of %zu: %s",
                             i, piece, split(rows[i].in, piece));
}

/* --- the next start --- */

Test(feed, wait_doubles_up_to_a_minute_and_forgets_after_a_good_one)
{
    static const int want[] = {1, 2, 4, 8, 16, 32, 60, 60};
    int64_t wait = 0;
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        wait = source_next_wait(wait, (int64_t)i * NS_PER_S);
        cr_expect_eq(wait, want[i] * NS_PER_S);
    }
    cr_expect_eq(source_next_wait(wait, 60 * NS_PER_S - 1), 60 * NS_PER_S);
    cr_expect_eq(source_next_wait(wait, 60 * NS_PER_S), NS_PER_S);
    cr_expect_eq(source_next_wait(NS_PER_S, 0), 2 * NS_PER_S);
}

/* --- the pipe --- */

struct seen {
    struct event_base *base;
    struct feed feed;
    int writer;
    unsigned lines, too_long, floods, wanted;
    char last[64];
    int64_t last_at;
};

static void check(struct seen *seen)
{
    if (seen->lines + seen->too_long >= seen->wanted)
        event_base_loopbreak(seen->base);
}

static void on_line(void *ctx, const char *line, size_t len)
{
    struct seen *seen = ctx;
    seen->lines++;
    seen->last_at = clock_now_ns();
    str_copy(seen->last, sizeof seen->last, line);
    check(seen);
}

static void on_too_long(void *ctx)
{
    struct seen *seen = ctx;
    seen->too_long++;
    check(seen);
}

static void on_flood(void *ctx)
{
    struct seen *seen = ctx;
    seen->floods++;
}

static void open_feed(struct seen *seen, struct feed_options options)
{
    struct err err;
    *seen = (struct seen){.base = event_base_new()};
    seen->feed.options = options;
    seen->feed.calls = (struct feed_calls){on_line, on_too_long, on_flood, seen};
    cr_assert(feed_open(&seen->feed, seen->base, &seen->writer, &err), "%s", err.text);
}

static void put(struct seen *seen, const char *text)
{
    cr_assert_eq(write(seen->writer, text, strlen(text)), (ssize_t)strlen(text));
}

/* Runs until `lines` lines have come. */
static void run_until(struct seen *seen, unsigned lines)
{
    struct timeval deadline = {.tv_sec = UNIT_DEADLINE_MS / 1000};
    seen->wanted = lines;
    event_base_loopexit(seen->base, &deadline);
    if (seen->lines + seen->too_long < lines)
        event_base_dispatch(seen->base);
    cr_assert_eq(seen->lines + seen->too_long, lines);
}

static void close_feed(struct seen *seen)
{
    feed_close(&seen->feed);
    feed_close(&seen->feed);
    if (seen->writer >= 0)
        close(seen->writer);
    event_base_free(seen->base);
    libevent_global_shutdown();
}

static struct seen it;

static void close_it(void)
{
    close_feed(&it);
}

Test(feed, gives_lines_as_they_come, .fini = close_it)
{
    open_feed(&it, (struct feed_options){32, 100, 4096});
    put(&it, "one\ntwo\nthr");
    run_until(&it, 2);
    cr_expect_str_eq(it.last, "two");
    put(&it, "ee\n");
    run_until(&it, 3);
    cr_expect_str_eq(it.last, "three");
    cr_expect_eq(it.floods, 0);
}

/* Lines over the limit wait for the next second, and none is lost. */
Test(feed, a_flood_of_lines_waits, .fini = close_it)
{
    open_feed(&it, (struct feed_options){32, 10, 1 << 20});
    int64_t began = clock_now_ns();
    for (int i = 0; i < 15; i++)
        put(&it, "line\n");
    run_until(&it, 10);
    put(&it, "last\n");
    run_until(&it, 16);
    cr_expect_str_eq(it.last, "last");
    cr_expect_eq(it.floods, 1);
    cr_expect_geq(it.last_at - began, NS_PER_S);
}

/* A line without end costs no more memory than a line that is too long. It costs no more time than
 * its share of a second. */
Test(feed, a_line_without_end, .fini = close_it)
{
    static char piece[4096];
    open_feed(&it, (struct feed_options){32, 10, 8192});
    memset(piece, 'x', sizeof piece);
    for (int i = 0; i < 8; i++)
        cr_assert_eq(write(it.writer, piece, sizeof piece), (ssize_t)sizeof piece);
    run_until(&it, 1);
    cr_expect_eq(it.too_long, 1);
    cr_expect_leq(buf_len(&it.feed.lines.buf), 32 + 1);
    put(&it, "\nnext\n");
    run_until(&it, 2);
    cr_expect_str_eq(it.last, "next");
    cr_expect_geq(it.floods, 1);
}

Test(feed, drain_takes_what_is_left, .fini = close_it)
{
    open_feed(&it, (struct feed_options){32, 10, 4096});
    put(&it, "one\n");
    run_until(&it, 1);
    put(&it, "two\nthree");
    close(it.writer);
    it.writer = -1;
    feed_drain(&it.feed);
    cr_expect_eq(it.lines, 3);
    cr_expect_str_eq(it.last, "three");
    feed_drain(&it.feed); /* the feed is closed */
    cr_expect_eq(it.lines, 3);
}

/* A drain, also of a program that flooded, returns at most a second's worth of lines. */
Test(feed, drain_is_bounded, .fini = close_it)
{
    open_feed(&it, (struct feed_options){32, 10, 1 << 20});
    for (int i = 0; i < 50; i++)
        put(&it, "line\n");
    run_until(&it, 10);
    feed_drain(&it.feed);
    cr_expect_eq(it.lines, 20);
}
