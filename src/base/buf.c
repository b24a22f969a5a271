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

/* Makes room for n bytes behind the queue. False: the bound or memory does not allow it. */
static bool buf_make_room(struct buf *buf, size_t n)
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
        uint8_t *data = realloc(buf->data, cap);
        if (!data)
            return false;
        buf->data = data;
        buf->cap = cap;
    }
    return true;
}

bool buf_add(struct buf *buf, const void *data, size_t n)
{
    if (!buf_make_room(buf, n))
        return false;
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
