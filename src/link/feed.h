/* SPDX-License-Identifier: Apache-2.0
 *
 * feed: lines from a pipe whose writer nobody trusts.
 *
 * So many lines and bytes are taken in each second; for the rest of it nothing is read, and the
 * writer waits when its pipe is full. Nothing here blocks. Owns the descriptor and its memory:
 * feed_close() ends it. Main thread.
 */
#ifndef PCHRUN_LINK_FEED_H
#define PCHRUN_LINK_FEED_H

#include "link/lines.h"

struct event;
struct event_base;

struct feed_options {
    size_t line_max; /* bytes */
    unsigned lines_per_s;
    size_t bytes_per_s;
};
/* None of these may close the feed. */
struct feed_calls {
    void (*line)(void *ctx, char *line, size_t len); /* ends with a NUL, too */
    void (*too_long)(void *ctx);                     /* one line is left out */
    void (*flood)(void *ctx);                        /* nothing is read for the rest of a second */
    void *ctx;
};

struct feed {
    struct feed_options options;
    struct feed_calls calls;
    int fd; /* -1: closed */
    struct event *readable, *resume;
    struct lines lines;
    int64_t since; /* CLOCK_MONOTONIC: when this second began */
    unsigned nlines;
    size_t nbytes;
    bool is_paused;
};

/* Takes the descriptor, even where it fails; *feed is closed then. */
MUST_CHECK bool feed_open(struct feed *feed, struct event_base *base, int fd, struct err *err);
/* Its writers have ended: what they have left behind, a last line without a newline included, but
 * no more than is taken in a second. */
void feed_drain(struct feed *feed);
void feed_close(struct feed *feed);

#endif
