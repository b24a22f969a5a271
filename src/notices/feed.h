/* SPDX-License-Identifier: Apache-2.0
 *
 * feed: lines from a pipe with an untrusted writer.
 *
 * Lines and bytes per second are bounded. At the bound, reading pauses for the rest of the second,
 * and the writer blocks when its pipe is full. Nothing here blocks. Owns the reading end and its
 * memory: feed_close() ends it. Main thread.
 */
#pragma once

#include "base/buf.h"
#include "loop/watch.h"

struct feed_options {
    size_t line_max; /* bytes */
    unsigned lines_per_s;
    size_t bytes_per_s;
};
/* None of these functions may close the feed. */
struct feed_calls {
    void (*line)(void *ctx, const char *line, size_t len); /* NUL-terminated */
    void (*too_long)(void *ctx);                           /* one line is skipped */
    void (*flood)(void *ctx); /* reading pauses for the rest of the second; NULL: not needed */
    void *ctx;
};

struct feed {
    struct feed_options options;
    struct feed_calls calls;
    int fd; /* -1: closed */
    struct watch readable, resume;
    struct lines lines;
    int64_t since; /* CLOCK_MONOTONIC: when this second began */
    unsigned nlines;
    size_t nbytes;
};

/* Makes a pipe; *ret_writer is the caller's. On failure *feed is closed. */
MUST_CHECK bool feed_open(struct feed *feed, struct event_base *base, int *ret_writer,
                          struct err *err);
/* Call after the writers have ended: hands out the last lines, at most as many as in one second. A
 * last line without a newline counts. */
void feed_drain(struct feed *feed);
void feed_close(struct feed *feed);
