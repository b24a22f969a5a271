/* SPDX-License-Identifier: Apache-2.0
 *
 * stream: the bytes of one connection, plain or encrypted (tls.h). conn.c sees only this.
 *
 * A stream owns its descriptor: stream_close() ends it. Nothing here blocks. Main thread.
 */
#ifndef PCHRUN_LINK_STREAM_H
#define PCHRUN_LINK_STREAM_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What read, write and handshake return when no byte was moved. */
enum stream_result {
    STREAM_END = 0,         /* read only: the other side has closed */
    STREAM_WANT_READ = -1,  /* again when the descriptor is readable */
    STREAM_WANT_WRITE = -2, /* again when it is writable */
    STREAM_FAILED = -3,     /* the error says why; nothing more can be sent */
    STREAM_FOREIGN = -4,    /* handshake only: the other side speaks without encryption, and so does
                               the stream from here on; some of what it sent is lost */
};

struct stream;
struct tls_session;

struct stream_kind {
    /* Before the first byte: 1 when done. NULL where there is nothing to do. */
    ssize_t (*handshake)(struct stream *stream, struct err *err);
    /* How many bytes. After WANT_READ or WANT_WRITE the same is called again; a write then begins
     * with the same bytes. */
    ssize_t (*read)(struct stream *stream, void *data, size_t size, struct err *err);
    ssize_t (*write)(struct stream *stream, const void *data, size_t size, struct err *err);
    /* Does it hold bytes for a read, though the descriptor may not be readable? To be asked after a
     * handshake or read that went well: what it holds may still wait for more, and then the read
     * says so. The rest may be NULL: then it does not, and there is nothing to do. */
    bool (*has_more)(const struct stream *stream);
    /* Nothing more will be written; before the socket is shut down for that. */
    void (*end)(struct stream *stream);
    void (*close)(struct stream *stream);
};

struct stream {
    int fd;
    const struct stream_kind *kind;
    struct tls_session *session; /* owned; NULL: plain */
};

extern const struct stream_kind stream_plain;

/* Takes the descriptor of a connected TCP socket. */
struct stream stream_open(const struct stream_kind *kind, int fd);
void stream_close(struct stream *stream);

/* Options for a TCP socket of ours: small messages leave at once and, lost, again soon, and the
 * kernel gives up a peer that has not acknowledged anything for `silence_ns` (0: as the system has
 * it). */
void stream_tune(int fd, int64_t silence_ns);

#endif
