/* SPDX-License-Identifier: Apache-2.0
 *
 * buf: a queue of bytes with an upper bound, for one direction of one connection. It allocates when
 * bytes are added, and frees when it is empty. The buffer owns its memory: buf_free() ends it. One
 * thread at a time.
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
