/* SPDX-License-Identifier: Apache-2.0
 *
 * tail: the first and the last lines of a stream of bytes, in a fixed amount of memory.
 *
 * A line ends with '\n'. Text after a '\r', as of a progress bar, replaces the text before it in
 * the line. A struct tail owns nothing and holds no pointer, so two processes can share it; only
 * one of them may add. Cannot fail.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TAIL_FIRST_MAX 4096 /* bytes */
#define TAIL_LAST_MAX  8192

struct tail {
    uint32_t lines; /* how many first lines to keep */
    uint32_t first_lines, first_len;
    char first[TAIL_FIRST_MAX];
    /* A ring of the last bytes: it holds bytes [from, end) of the stream, without those that a '\r'
     * replaced. */
    uint64_t from, end, line; /* `line`: the start of the line that has no end yet */
    bool has_cr;              /* the last byte was a '\r' */
    char last[TAIL_LAST_MAX];
};

/* At first `tail` must be zeroed, but for `lines`. */
void tail_add(struct tail *tail, const char *bytes, size_t n);

/* The first or last lines (at most `lines`) with '\n' between them and a NUL at the end; a NUL
 * inside becomes '?'. "..." stands for the cut part of a line. Writes at most `size` bytes,
 * whatever `tail` holds. Return text. */
char *tail_first(const struct tail *tail, char *text, size_t size);
char *tail_last(const struct tail *tail, uint32_t lines, char *text, size_t size);
/* A size that is enough for both. */
#define TAIL_TEXT_MAX (TAIL_LAST_MAX + 8)
