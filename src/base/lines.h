/* SPDX-License-Identifier: Apache-2.0
 *
 * lines: splits a stream of bytes into lines of bounded length. A longer line is skipped up to its
 * newline. Owns its memory: lines_free(). One thread at a time.
 */
#pragma once

#include "base/buf.h"

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
