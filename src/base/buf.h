/* SPDX-License-Identifier: Apache-2.0
 *
 * buf: a queue of bytes with an upper bound, for one direction of one connection, and a reader of
 * lines. It allocates when bytes are added, and frees when it is empty. The buffer owns its memory:
 * buf_free() ends it. One thread at a time.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct buf {
    uint8_t *data;
    size_t start, end, cap; /* bytes [start, end) are queued */
    size_t max;             /* bytes; buf_add() fails if more would be queued */
};

void buf_init(struct buf *buf, size_t max);
void buf_free(struct buf *buf);
static inline size_t buf_len(const struct buf *buf)
{
    return buf->end - buf->start;
}
static inline const uint8_t *buf_bytes(const struct buf *buf)
{
    return buf->start > 0 ? buf->data + buf->start : buf->data; /* NULL + 0 is undefined */
}
/* False: the bound or memory does not allow it. */
MUST_CHECK bool buf_add(struct buf *buf, const void *data, size_t n);
/* Drops the first n bytes. */
void buf_drop(struct buf *buf, size_t n);

/* Splits a stream of bytes into lines of bounded length. Skips a longer line up to its newline. */
struct lines {
    struct buf buf;
    size_t max;       /* of one line, without its newline */
    size_t looked_at; /* bytes at the front that hold no newline */
    size_t taken;     /* bytes of the line that the last call returned */
    bool is_skipping; /* the current line is too long */
};

enum lines_result {
    LINES_NONE,     /* the next line is not whole yet */
    LINES_ONE,      /* *ret_line, NUL-terminated, valid until the next call */
    LINES_TOO_LONG, /* a line is skipped; reported once per line */
};

/* At most `chunk` bytes are added at a time. */
void lines_init(struct lines *lines, size_t max, size_t chunk);
void lines_free(struct lines *lines);
/* Call after LINES_NONE. False: no memory; the bytes and the rest of their line are lost. */
MUST_CHECK bool lines_add(struct lines *lines, const void *data, size_t n);
enum lines_result lines_next(struct lines *lines, char **ret_line, size_t *ret_len);
/* At the end of the stream: bytes without a newline count as a line. */
enum lines_result lines_last(struct lines *lines, char **ret_line, size_t *ret_len);
