/* SPDX-License-Identifier: Apache-2.0
 * See mixer.h.
 */
#include "tee/mixer.h"

#include <string.h>

static size_t room(const struct mixer_out *out)
{
    return out->size - out->len;
}

static void mixer_put(struct mixer_out *out, const char *bytes, size_t n)
{
    memcpy(out->bytes + out->len, bytes, n);
    out->len += n;
}

/* The length up to the last '\n' or '\r', which it includes. */
static size_t whole_lines(const struct mixer_in *in)
{
    size_t n = in->n;
    while (!in->all && n > 0 && in->bytes[n - 1] != '\n' && in->bytes[n - 1] != '\r')
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

/* False: no room. A '\n' that follows a '\r' begins no line, so it gets no prefix. */
static bool begin_piece(struct mixer *mixer, struct mixer_stream *stream, char first,
                        struct mixer_out *out)
{
    size_t len = strlen(stream->prefix);
    bool closes_other = mixer->open && mixer->open != stream;
    if (stream->has_cr && first != '\n')
        stream->is_in_line = false;
    if (room(out) < len + 2)
        return false;
    if (closes_other) {
        mixer_put(out, "\n", 1);
        mixer->open->is_in_line = mixer->open->has_cr = false;
    }
    if (!stream->is_in_line)
        mixer_put(out, stream->prefix, len);
    stream->is_in_line = true;
    mixer->open = stream;
    return true;
}

size_t mixer_add(struct mixer *mixer, struct mixer_stream *stream, const struct mixer_in *in,
                 struct mixer_out *out)
{
    size_t n = whole_lines(in), done = 0;
    while (done < n && begin_piece(mixer, stream, in->bytes[done], out)) {
        size_t len = piece_len(in->bytes + done, n - done);
        if (len > room(out))
            len = room(out);
        mixer_put(out, in->bytes + done, len);
        done += len;
        char last = in->bytes[done - 1];
        stream->has_cr = last == '\r';
        if (last != '\n')
            continue;
        stream->is_in_line = false;
        mixer->open = NULL;
    }
    return done;
}
