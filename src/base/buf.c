/* SPDX-License-Identifier: Apache-2.0
 * See buf.h.
 */
#include "base/buf.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void buf_init(struct buf *buf, size_t max)
{
    *buf = (struct buf){.max = max};
}

void buf_free(struct buf *buf)
{
    free(buf->data);
    buf_init(buf, buf->max);
}

bool buf_add(struct buf *buf, const void *data, size_t n)
{
    size_t len = buf_len(buf);
    if (n > buf->max || len > buf->max - n)
        return false;
    if (buf->start > 0 && buf->end + n > buf->cap) {
        memmove(buf->data, buf->data + buf->start, len);
        buf->start = 0;
        buf->end = len;
    }
    if (len + n > buf->cap || !buf->data) {
        size_t cap = buf->cap ? buf->cap : 256;
        while (cap < len + n)
            cap *= 2;
        uint8_t *more = realloc(buf->data, cap);
        if (!more)
            return false;
        buf->data = more;
        buf->cap = cap;
    }
    if (n > 0)
        memcpy(buf->data + buf->end, data, n);
    buf->end += n;
    return true;
}

void buf_drop(struct buf *buf, size_t n)
{
    assert(n <= buf_len(buf));
    buf->start += n;
    if (buf->start == buf->end)
        buf_free(buf);
}

/* ---- lines: a newline becomes the NUL of its line, in place ---- */

void lines_init(struct lines *lines, size_t max, size_t chunk)
{
    *lines = (struct lines){.max = max};
    buf_init(&lines->buf, max + chunk + 1); /* + 1: the NUL after the last line */
}

void lines_free(struct lines *lines)
{
    buf_free(&lines->buf);
}

/* Drops the line that the last call returned. */
static void drop_taken(struct lines *lines)
{
    buf_drop(&lines->buf, lines->taken);
    lines->taken = 0;
}

bool lines_add(struct lines *lines, const void *data, size_t n)
{
    drop_taken(lines);
    if (buf_add(&lines->buf, data, n))
        return true;
    buf_drop(&lines->buf, buf_len(&lines->buf));
    lines->looked_at = 0;
    lines->is_skipping = true;
    return false;
}

enum lines_result lines_next(struct lines *lines, char **ret_line, size_t *ret_len)
{
    for (;;) {
        drop_taken(lines);
        size_t n = buf_len(&lines->buf), looked = lines->looked_at;
        char *data = (char *)buf_bytes(&lines->buf);
        char *end = n > looked ? memchr(data + looked, '\n', n - looked) : NULL;
        size_t len = end ? (size_t)(end - data) : n;
        bool is_rest = lines->is_skipping, is_long = len > lines->max;
        lines->looked_at = n;
        if (!end && !is_rest && !is_long)
            return LINES_NONE;
        lines->looked_at = 0;
        lines->taken = len + (end != NULL);
        lines->is_skipping = !end;
        if (is_long && !is_rest)
            return LINES_TOO_LONG;
        if (!is_rest) {
            *end = '\0';
            *ret_line = data;
            *ret_len = len;
            return LINES_ONE;
        }
        if (!end)
            return LINES_NONE;
    }
}

enum lines_result lines_last(struct lines *lines, char **ret_line, size_t *ret_len)
{
    enum lines_result result = lines_next(lines, ret_line, ret_len);
    if (result != LINES_NONE || lines->is_skipping || buf_len(&lines->buf) == 0)
        return result;
    if (!lines_add(lines, "\n", 1))
        return LINES_NONE;
    return lines_next(lines, ret_line, ret_len);
}
