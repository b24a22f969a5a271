/* SPDX-License-Identifier: Apache-2.0
 *
 * stream: the bytes of one connection, plain or encrypted (tls.h). conn.c uses only this interface.
 *
 * A stream owns its descriptor: stream_close() ends it. Nothing here blocks. Main thread.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Results of read, write and handshake when no byte was moved. */
enum stream_result {
    STREAM_END = 0,         /* read only: the other side has closed */
    STREAM_WANT_READ = -1,  /* call again when the descriptor is readable */
    STREAM_WANT_WRITE = -2, /* call again when it is writable */
    STREAM_FAILED = -3,     /* the error says why; nothing more can be sent */
    STREAM_FOREIGN = -4,    /* handshake only: the other side does not encrypt. The stream is plain
                             * from now on */
};

struct stream;
struct tls_session;

struct stream_kind {
    /* Call before the first read or write. 1: done. NULL: not needed. */
    ssize_t (*handshake)(struct stream *stream, struct err *err);
    /* Return the number of bytes. When the descriptor is ready again, repeat the same call; a write
     * must begin with the same bytes. After the handshake a read never waits for a write, nor a
     * write for a read: TLS 1.3 does not negotiate again. */
    ssize_t (*read)(struct stream *stream, void *data, size_t size, struct err *err);
    ssize_t (*write)(struct stream *stream, const void *data, size_t size, struct err *err);
    /* True if received bytes are buffered; the descriptor may not show them as readable. Call after
     * each successful handshake or read. The next read may still return WANT_READ. This function
     * and those below may be NULL. */
    bool (*has_more)(const struct stream *stream);
    /* Call before shutdown(SHUT_WR). */
    void (*end)(struct stream *stream);
    void (*close)(struct stream *stream);
};

struct stream {
    int fd; /* of a connected TCP socket */
    const struct stream_kind *kind;
    struct tls_session *session; /* owned; NULL: plain */
};

extern const struct stream_kind stream_plain;
/* True if the errno of a read or a write means: again later. */
bool stream_is_again(int error);

void stream_close(struct stream *stream);

/* Sets TCP options: small messages leave at once and are repeated soon after a loss. The kernel
 * ends the connection when the peer acknowledges nothing for `silence_ns` (0: the system's
 * default). */
void stream_tune(int fd, int64_t silence_ns);
