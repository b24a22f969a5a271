/* SPDX-License-Identifier: Apache-2.0
 *
 * bytes: little-endian numbers and texts in and out of a bounded piece of memory.
 *
 * Both sides fail by flag, not by call. After the first access that does not fit, `ok` is false, a
 * reader yields zeros and a writer writes nothing. So the caller encodes or decodes a whole
 * message, and checks it once at its end. Pure; any thread.
 */
#ifndef PCHRUN_WIRE_BYTES_H
#define PCHRUN_WIRE_BYTES_H

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
void bytes_put_number(struct bytes_out *out, const void *number, unsigned size);
void bytes_put_text(struct bytes_out *out, const char *text); /* length (2), then the letters */

uint64_t bytes_get(struct bytes_in *in, unsigned size);
void bytes_get_number(struct bytes_in *in, void *number, unsigned size);
/* A text that does not fit into `cap` with its NUL, or that holds a NUL, is an error. Where the
 * bytes run out, all of them count as read. */
void bytes_get_text(struct bytes_in *in, char *text, size_t cap);
/* All read and nothing wrong? */
bool bytes_done(const struct bytes_in *in);

#endif
