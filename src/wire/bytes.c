/* SPDX-License-Identifier: Apache-2.0
 * See bytes.h.
 */
#include "wire/bytes.h"

#include <assert.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "x86-64 and aarch64 are");

/* One move instruction for each size. A copy of variable size would be a loop or a call. */
static void copy_number(void *to, const void *from, unsigned size)
{
    switch (size) {
    case 1:
        memcpy(to, from, 1);
        break;
    case 2:
        memcpy(to, from, 2);
        break;
    case 4:
        memcpy(to, from, 4);
        break;
    default:
        assert(size == 8);
        memcpy(to, from, 8);
    }
}

static void put_number(struct bytes_out *out, const void *number, unsigned size)
{
    if (!out->ok || out->cap - out->len < size) {
        out->ok = false;
        return;
    }
    copy_number(out->data + out->len, number, size);
    out->len += size;
}

void bytes_put(struct bytes_out *out, uint64_t v, unsigned size)
{
    put_number(out, &v, size);
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

static void run_out(struct bytes_in *in)
{
    in->ok = false;
    in->at = in->len;
}

static void get_number(struct bytes_in *in, void *number, unsigned size)
{
    if (in->ok && in->len - in->at >= size) {
        copy_number(number, in->data + in->at, size);
        in->at += size;
        return;
    }
    if (in->ok)
        run_out(in);
    memset(number, 0, size);
}

uint64_t bytes_get(struct bytes_in *in, unsigned size)
{
    uint64_t v = 0;
    get_number(in, &v, size);
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
    return in->ok && in->at == in->len && !in->is_beyond;
}

void bytes_put_fields(struct bytes_out *out, const void *from, const struct bytes_field *fields,
                      size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *field = (const char *)from + fields[i].at;
        if (fields[i].is_text)
            bytes_put_text(out, field);
        else
            put_number(out, field, fields[i].size);
    }
}

static bool is_within(const void *number, const struct bytes_field *field)
{
    unsigned unused = 64 - 8 * (unsigned)field->size;
    uint64_t v = 0;
    copy_number(&v, number, field->size);
    int64_t value = field->least < 0 ? (int64_t)(v << unused) >> unused : (int64_t)v;
    return value >= field->least && value <= field->most;
}

void bytes_get_fields(struct bytes_in *in, void *to, const struct bytes_field *fields, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char *field = (char *)to + fields[i].at;
        if (fields[i].is_text) {
            bytes_get_text(in, field, fields[i].size);
        } else {
            get_number(in, field, fields[i].size);
            in->is_beyond = in->is_beyond || !is_within(field, &fields[i]);
        }
    }
}
