/* SPDX-License-Identifier: Apache-2.0
 *
 * mixer: merges several streams into one, line by line, each line with its stream's prefix.
 *
 * A line ends with '\n'. After a lone '\r', which moves a terminal's cursor back, the prefix is
 * written again. If another stream must interrupt an open line, the mixer ends that line first.
 * Owns nothing; loses and changes no byte. Cannot fail.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct mixer_stream {
    const char *prefix; /* may be empty; shorter than MIXER_PREFIX_MAX */
    bool is_in_line;    /* the prefix of its line has been written */
    bool has_cr;        /* the last byte was a '\r' */
};
#define MIXER_PREFIX_MAX 32

struct mixer {
    struct mixer_stream *open; /* the stream whose line is open in the output; NULL: none */
};

/* The length up to the last '\n' or '\r', which it includes. */
size_t mixer_whole_lines(const char *bytes, size_t n);

/* The most bytes that n bytes can become: each may be a line. */
#define MIXER_MAX(n) ((n) * (size_t)MIXER_PREFIX_MAX + 1)

/* Writes bytes of `stream` to `out`, which has room for MIXER_MAX(n); returns how many it wrote. */
size_t mixer_add(struct mixer *mixer, struct mixer_stream *stream, const char *bytes, size_t n,
                 char *out);
