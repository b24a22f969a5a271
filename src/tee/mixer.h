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

struct mixer_out {
    char *bytes;
    size_t size, len; /* len: how much is in it already */
};

struct mixer_in {
    const char *bytes;
    size_t n;
    bool all; /* also take a line that has no end yet */
};

/* Takes bytes of `stream` and writes them to out->bytes; returns how many. If `out` is full, it
 * takes fewer. */
size_t mixer_add(struct mixer *mixer, struct mixer_stream *stream, const struct mixer_in *in,
                 struct mixer_out *out);
