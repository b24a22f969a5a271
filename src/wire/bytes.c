/* SPDX-License-Identifier: Apache-2.0
 * See bytes.h.
 */
#include "wire/bytes.h"

#include <string.h>

void bytes_put(struct bytes_out *out, uint64_t v, unsigned size)
{
    if (!out->ok || out->cap - out->len < size) {
        out->ok = false;
        return;
    }
    for (unsigned i = 0; i < size; i++)
        out->data[out->len++] = (uint8_t)(v >> (8 * i));
}

void bytes_put_text(struct bytes_out *out, const char *text)
{
    size_t n = strlen(text);
    if (n > UINT16_MAX || !out->ok || out->cap - out->len < n + 2) {
        out->ok = false;
        return;
    }
    bytes_put(out, n, 2);
    if (n > 0)
        memcpy(out->data + out->len, text, n);
    out->len += n;
}

static uint64_t run_out(struct bytes_in *in)
{
    in->ok = false;
    in->at = in->len;
    return 0;
}

uint64_t bytes_get(struct bytes_in *in, unsigned size)
{
    if (!in->ok)
        return 0;
    if (in->len - in->at < size)
        return run_out(in);
    uint64_t v = 0;
    for (unsigned i = 0; i < size; i++)
        v |= (uint64_t)in->data[in->at++] << (8 * i);
    return v;
}

void bytes_get_text(struct bytes_in *in, char *text, size_t cap)
{
    size_t n = (size_t)bytes_get(in, 2);
    text[0] = '\0';
    if (in->ok && in->len - in->at < n)
        run_out(in);
    if (!in->ok || n >= cap || memchr(in->data + in->at, 0, n)) {
        in->ok = false;
        return;
    }
    if (n > 0)
        memcpy(text, in->data + in->at, n);
    text[n] = '\0';
    in->at += n;
}

bool bytes_done(const struct bytes_in *in)
{
    return in->ok && in->at == in->len;
}
