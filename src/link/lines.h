/* SPDX-License-Identifier: Apache-2.0
 *
 * lines: a stream of bytes, taken apart into lines, with a bound on how long one may be. What goes
 * beyond it is skipped up to the next newline. Owns its memory: lines_free(). One thread at a time.
 */
#ifndef PCHRUN_LINK_LINES_H
#define PCHRUN_LINK_LINES_H

#include "base/buf.h"

struct lines {
    struct buf buf;
    size_t max;       /* of one line, without its newline */
    size_t looked_at; /* so many bytes of the buffer hold no newline */
    size_t taken;     /* those of the last line that was given out */
    bool is_skipping; /* a line that is too long */
};

enum lines_result {
    LINES_NONE,     /* the next line is not whole yet */
    LINES_ONE,      /* *ret_line, which ends with a NUL and lives until the next call */
    LINES_TOO_LONG, /* one that is left out; told once for each */
};

/* At most `chunk` bytes are added at a time. */
void lines_init(struct lines *lines, size_t max, size_t chunk);
void lines_free(struct lines *lines);
/* After LINES_NONE. False: out of memory; the bytes are lost, and so is the line that they are of.
 */
MUST_CHECK bool lines_add(struct lines *lines, const void *data, size_t n);
enum lines_result lines_next(struct lines *lines, char **ret_line, size_t *ret_len);
/* Nothing more will come: what is there without a newline is a line, too. */
enum lines_result lines_last(struct lines *lines, char **ret_line, size_t *ret_len);

#endif
