/* SPDX-License-Identifier: Apache-2.0
 *
 * bytes: little-endian numbers and texts in and out of a bounded piece of memory.
 *
 * Both sides fail by flag, not by call. After the first access that does not fit, `ok` is false, a
 * reader yields zeros and a writer writes nothing. So the caller encodes or decodes a whole
 * message, and checks it once at its end. Pure; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes_out {
    uint8_t *data;
    size_t len, cap;
    bool ok;
};

struct bytes_in {
    const uint8_t *data;
    size_t at, len;
    bool ok;
    bool is_beyond; /* a number was beyond its bounds */
};

static inline struct bytes_out bytes_out(void *data, size_t cap)
{
    return (struct bytes_out){.data = data, .cap = cap, .ok = true};
}

static inline struct bytes_in bytes_in(const void *data, size_t len)
{
    return (struct bytes_in){.data = data, .len = len, .ok = true};
}

/* Sizes are 1, 2, 4 and 8 bytes. */
void bytes_put(struct bytes_out *out, uint64_t v, unsigned size);
void bytes_put_text(struct bytes_out *out, const char *text); /* length (2), then the letters */

uint64_t bytes_get(struct bytes_in *in, unsigned size);
/* A text that does not fit into `cap` with its NUL, or that holds a NUL, is an error. Where the
 * bytes run out, all of them count as read. */
void bytes_get_text(struct bytes_in *in, char *text, size_t cap);
/* All read and nothing wrong? */
bool bytes_done(const struct bytes_in *in);

/* A field of a message's struct: a text, or a number with its bounds. A list of them serves the
 * encoder and the decoder, so the two cannot differ. */
struct bytes_field {
    uint16_t at, size; /* its place in the struct */
    bool is_text;
    int64_t least, most; /* the decoder takes no other number; least < 0: it is signed */
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

/* Every field of the list, in its order; `n` of them. */
void bytes_put_fields(struct bytes_out *out, const void *from, const struct bytes_field *fields,
                      size_t n);
void bytes_get_fields(struct bytes_in *in, void *to, const struct bytes_field *fields, size_t n);
