/* SPDX-License-Identifier: Apache-2.0
 * See stream.h.
 */
#include "net/stream.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

bool stream_is_again(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

static ssize_t plain_read(struct stream *stream, void *data, size_t size, struct err *err)
{
    ssize_t n = recv(stream->fd, data, size, 0);
    if (n >= 0)
        return n;
    if (stream_is_again(errno))
        return STREAM_WANT_READ;
    err_set(err, ERR_PEER, errno, "cannot read");
    return STREAM_FAILED;
}

static ssize_t plain_write(struct stream *stream, const void *data, size_t size, struct err *err)
{
    ssize_t n = send(stream->fd, data, size, MSG_NOSIGNAL);
    if (n >= 0)
        return n;
    if (stream_is_again(errno))
        return STREAM_WANT_WRITE;
    err_set(err, ERR_PEER, errno, "cannot write");
    return STREAM_FAILED;
}

const struct stream_kind stream_plain = {.read = plain_read, .write = plain_write};

void stream_close(struct stream *stream)
{
    if (stream->fd >= 0 && stream->kind->close)
        stream->kind->close(stream);
    fd_close(&stream->fd);
}

#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44 /* Linux 6.15 */
#endif

/* Ignores errors: without the option a network failure is found, too, but later, by heartbeats. */
static void set_option(int fd, int level, int name, int value)
{
    (void)setsockopt(fd, level, name, &value, sizeof value);
}

void stream_tune(int fd, int64_t silence_ns)
{
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    /* Our messages are few and urgent. BBR is not used: after a second of heavy loss it may almost
     * stop a connection for half a minute. With linear timeouts a lost segment is sent again six
     * times at equal intervals. After that TCP_RTO_MAX_MS bounds the interval, so that TCP soon
     * notices when the network works again. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", strlen("reno"));
    set_option(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, 1);
    set_option(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, 1000);
    if (silence_ns <= 0)
        return;
    int64_t ms = silence_ns / NS_PER_MS;
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, ms < 1 ? 1 : ms < INT_MAX ? (int)ms : INT_MAX);
    /* Three keepalive probes fit into silence_ns; then the user timeout ends the connection. */
    int64_t s = silence_ns / (3 * NS_PER_S);
    int probe = s < 1 ? 1 : s < 3600 ? (int)s : 3600;
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, probe);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, probe);
}
