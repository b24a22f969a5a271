/* SPDX-License-Identifier: Apache-2.0
 *
 * bytes: the fields of a message's struct as little-endian numbers and texts, in a bounded piece of
 * memory. One list of fields serves the writer and the reader, so the two cannot differ.
 *
 * Writer and reader set a flag when they fail, so not every call is checked. After the first field
 * that does not fit, `ok` is false, and no more is written or read. So the caller encodes or
 * decodes a whole message, and checks it once at its end. Pure; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes {
    uint8_t *to;         /* NULL: it reads */
    const uint8_t *from; /* NULL: it writes */
    size_t at, size;     /* the next byte, and their number */
    bool ok;
    bool is_beyond; /* a number that was read is beyond its bounds */
};

static inline struct bytes bytes_writer(uint8_t *data, size_t size)
{
    return (struct bytes){.to = data, .size = size, .ok = true};
}

static inline struct bytes bytes_reader(const uint8_t *data, size_t size)
{
    return (struct bytes){.from = data, .size = size, .ok = true};
}

/* A field of a message's struct: a text, or a number of 1, 2, 4 or 8 bytes with its bounds. In the
 * bytes a text is its length (2), then its letters. */
struct bytes_field {
    uint16_t at, size; /* its place in the struct */
    bool is_text;
    int64_t least, most; /* the reader takes no other number; least < 0: it is signed */
};
#define BYTES_TEXT(type, f)                                   \
    {                                                         \
        offsetof(type, f), sizeof(((type *)0)->f), true, 0, 0 \
    }
#define BYTES_WITHIN(type, f, least, most)                                \
    {                                                                     \
        offsetof(type, f), sizeof(((type *)0)->f), false, (least), (most) \
    }
#define BYTES_NUMBER(type, f) BYTES_WITHIN(type, f, INT64_MIN, INT64_MAX)

/* Writes or reads every field of the list, in its order; `n` of them. A writer changes nothing in
 * `message`. A text that holds a NUL, or that does not fit into its field with its NUL, is an
 * error. If the bytes end within a field, all bytes count as used. */
void bytes_fields(struct bytes *bytes, void *message, const struct bytes_field *fields, size_t n);
/* True if all bytes were read, without an error. */
bool bytes_done(const struct bytes *bytes);
