/* SPDX-License-Identifier: Apache-2.0
 *
 * mixer: makes one stream of several, line by line, each line with a prefix of its stream's.
 *
 * A line ends with '\n'; after a '\r' alone, which takes the cursor of a terminal back, the prefix
 * is written again. Where a stream has to be interrupted in the middle of a line, the line is ended
 * first. Owns nothing; no byte is lost or changed. Cannot fail.
 */
#ifndef PCHRUN_TEE_MIXER_H
#define PCHRUN_TEE_MIXER_H

#include <stdbool.h>
#include <stddef.h>

struct mixer_stream {
    const char *prefix; /* may be empty; shorter than MIXER_PREFIX_MAX */
    bool is_in_line;    /* the prefix of its line has been written */
    bool has_cr;        /* the last byte was a '\r' */
};
#define MIXER_PREFIX_MAX 32

struct mixer {
    struct mixer_stream *open; /* whose line has not ended in what came out, NULL: nobody's */
};

struct mixer_out {
    char *bytes;
    size_t size, len; /* len: what is in it already */
};

struct mixer_in {
    const char *bytes;
    size_t n;
    bool all; /* also what is no whole line yet */
};

/* Takes bytes of `stream`; returns how many were taken, which may be less than could be where `out`
 * is full. What is taken is in out->bytes. */
size_t mixer_add(struct mixer *mixer, struct mixer_stream *stream, const struct mixer_in *in,
                 struct mixer_out *out);

#endif
