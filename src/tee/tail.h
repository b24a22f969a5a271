/* SPDX-License-Identifier: Apache-2.0
 *
 * tail: the first and the last lines of a stream of bytes, in a fixed amount of memory.
 *
 * A line ends with '\n'. What a '\r' begins anew, as a progress bar does, takes the place of what
 * its line held. A struct tail owns nothing and holds no pointer, so it can lie in memory that two
 * processes share; one of them adds. Cannot fail.
 */
#ifndef PCHRUN_TEE_TAIL_H
#define PCHRUN_TEE_TAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TAIL_FIRST_MAX 4096 /* bytes */
#define TAIL_LAST_MAX  8192

struct tail {
    uint32_t lines; /* how many first ones are kept */
    uint32_t first_lines, first_len;
    char first[TAIL_FIRST_MAX];
    /* The last bytes, as a ring: bytes [from, end) of the stream are in it, as far as they were not
     * taken back. */
    uint64_t from, end, line; /* where the line begins that has no end yet */
    bool has_cr;              /* a '\r' has come, and not yet what is behind it */
    char last[TAIL_LAST_MAX];
};

/* All else must be zero. */
void tail_init(struct tail *tail, uint32_t lines);
void tail_add(struct tail *tail, const char *bytes, size_t n);

/* The first or last lines (at most `lines` of them) with '\n' between them and a NUL behind; a NUL
 * in them becomes '?'. "..." stands for what is missing of a line that was too long. Whatever is in
 * `tail`, nothing beyond `size` is written. Return text. */
char *tail_first(const struct tail *tail, char *text, size_t size);
char *tail_last(const struct tail *tail, uint32_t lines, char *text, size_t size);
/* Fits each of them. */
#define TAIL_TEXT_MAX (TAIL_LAST_MAX + 8)

#endif
