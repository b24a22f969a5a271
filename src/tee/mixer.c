/* SPDX-License-Identifier: Apache-2.0
 * See mixer.h.
 */
#include "tee/mixer.h"

#include <string.h>

size_t mixer_whole_lines(const char *bytes, size_t n)
{
    while (n > 0 && bytes[n - 1] != '\n' && bytes[n - 1] != '\r')
        n--;
    return n;
}

/* The length up to the first '\n' or '\r', which it includes. */
static size_t piece_len(const char *bytes, size_t n)
{
    size_t len = 0;
    while (len < n && bytes[len] != '\n' && bytes[len] != '\r')
        len++;
    return len < n ? len + 1 : n;
}

/* A '\n' that follows a '\r' begins no line, so it gets no prefix. Returns the end of what it
 * wrote. */
static char *begin_piece(struct mixer *mixer, struct mixer_stream *stream, char first, char *out)
{
    bool closes_other = mixer->open && mixer->open != stream;
    if (stream->has_cr && first != '\n')
        stream->is_in_line = false;
    if (closes_other) {
        *out++ = '\n';
        mixer->open->is_in_line = mixer->open->has_cr = false;
    }
    if (!stream->is_in_line)
        out = stpcpy(out, stream->prefix);
    stream->is_in_line = true;
    mixer->open = stream;
    return out;
}

size_t mixer_add(struct mixer *mixer, struct mixer_stream *stream, const char *bytes, size_t n,
                 char *out)
{
    char *at = out;
    for (size_t done = 0, len; done < n; done += len) {
        at = begin_piece(mixer, stream, bytes[done], at);
        len = piece_len(bytes + done, n - done);
        at = mempcpy(at, bytes + done, len);
        char last = bytes[done + len - 1];
        stream->has_cr = last == '\r';
        if (last != '\n')
            continue;
        stream->is_in_line = false;
        mixer->open = NULL;
    }
    return (size_t)(at - out);
}
