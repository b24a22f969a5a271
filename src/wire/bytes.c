/* SPDX-License-Identifier: Apache-2.0
 * See bytes.h.
 */
#include "wire/bytes.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "pchrun needs a little-endian machine");

static bool has_room(struct bytes *bytes, size_t n)
{
    if (bytes->ok && bytes->size - bytes->at < n) {
        bytes->ok = false;
        bytes->at = bytes->size;
    }
    return bytes->ok;
}

/* A case for each size of a number, so that the compiler makes one move instruction. Otherwise
 * every field would call memcpy(). */
static inline void copy(void *to, const void *from, size_t n)
{
    if (n == 8)
        memcpy(to, from, 8);
    else if (n == 4)
        memcpy(to, from, 4);
    else if (n == 2)
        memcpy(to, from, 2);
    else if (n == 1)
        memcpy(to, from, 1);
    else
        memcpy(to, from, n);
}

/* Call after has_room(). */
static inline void move(struct bytes *bytes, void *field, size_t n)
{
    if (bytes->to)
        copy(bytes->to + bytes->at, field, n);
    else
        copy(field, bytes->from + bytes->at, n);
    bytes->at += n;
}

static bool is_within(const void *number, const struct bytes_field *field)
{
    unsigned unused = 64 - 8 * (unsigned)field->size;
    uint64_t v = 0;
    copy(&v, number, field->size);
    int64_t value = field->least < 0 ? (int64_t)(v << unused) >> unused : (int64_t)v;
    return value >= field->least && value <= field->most;
}

static void move_number(struct bytes *bytes, void *number, const struct bytes_field *field)
{
    if (!has_room(bytes, field->size))
        return;
    move(bytes, number, field->size);
    bytes->is_beyond = bytes->is_beyond || (bytes->from && !is_within(number, field));
}

static void move_text(struct bytes *bytes, char *text, size_t cap)
{
    uint16_t n = bytes->to ? (uint16_t)strnlen(text, cap) : 0;
    if (has_room(bytes, sizeof n))
        move(bytes, &n, sizeof n);
    if (!has_room(bytes, n))
        return;
    bytes->ok = n < cap && (bytes->to || !memchr(bytes->from + bytes->at, 0, n));
    if (!bytes->ok)
        return;
    move(bytes, text, n);
    if (bytes->from)
        text[n] = '\0';
}

void bytes_fields(struct bytes *bytes, void *message, const struct bytes_field *fields, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char *field = (char *)message + fields[i].at;
        if (fields[i].is_text)
            move_text(bytes, field, fields[i].size);
        else
            move_number(bytes, field, &fields[i]);
    }
}

bool bytes_done(const struct bytes *bytes)
{
    return bytes->ok && bytes->at == bytes->size && !bytes->is_beyond;
}
