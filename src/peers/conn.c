/* SPDX-License-Identifier: Apache-2.0
 * See conn.h.
 */
#include "peers/conn.h"

#include "base/clock.h"
#include "base/str.h"
#include "net/tls.h"

#include <assert.h>
#include <event2/event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#define ONE_KEY  "all nodes need the same cluster.key_file"
#define ASK_PORT "does node 0 run there, and is cluster.port right?"

enum { READ_BYTES = FRAME_MAX }; /* per wake-up, so that one peer does not delay the others */

static void conn_arm(struct event *timer, int64_t ns)
{
    struct timeval tv = {.tv_sec = ns / NS_PER_S, .tv_usec = ns % NS_PER_S / 1000};
    evtimer_add(timer, &tv);
}

/* ---- proxies ---- */

/* The addresses of both ends, as this side or the other side sees them; "": unknown. */
static void describe_line(const struct conn *conn, bool is_from_there, char *ret, size_t size)
{
    union netaddr here, there;
    socklen_t here_size = sizeof here, there_size = sizeof there;
    char a[NETADDR_TEXT_MAX], b[NETADDR_TEXT_MAX];
    ret[0] = '\0';
    if (getsockname(conn->stream.fd, &here.any, &here_size) != 0 ||
        getpeername(conn->stream.fd, &there.any, &there_size) != 0)
        return;
    netaddr_text(is_from_there ? &there : &here, a, sizeof a);
    netaddr_text(is_from_there ? &here : &there, b, sizeof b);
    str_addf(ret, size, "%s>%s", a, b);
}

/* Behind a proxy or NAT the other side sees other addresses. */
static void learn_line(struct conn *conn, const struct peermsg *msg)
{
    char line[sizeof msg->hello.line];
    if (msg->type == PEERMSG_HELLO) {
        describe_line(conn, true, line, sizeof line);
        conn->is_direct = line[0] != '\0' && str_is(line, msg->hello.line);
    } else if (msg->type == PEERMSG_WELCOME) {
        conn->is_direct = msg->welcome.is_direct;
    }
}

static void tell_line(const struct conn *conn, struct peermsg *msg)
{
    if (msg->type == PEERMSG_HELLO)
        describe_line(conn, false, msg->hello.line, sizeof msg->hello.line);
    else if (msg->type == PEERMSG_WELCOME)
        msg->welcome.is_direct = conn->is_direct;
}

/* ---- the end ---- */

/* A FIN would look like this supervisor's death, but it lives. So send a reset instead. */
static void reset_when_closed(const struct conn *conn)
{
    struct linger linger = {.l_onoff = 1};
    (void)setsockopt(conn->stream.fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
}

static void conn_stop(struct conn *conn)
{
    event_del(&conn->readable);
    event_del(&conn->writable);
    event_del(&conn->deadline);
    stream_close(&conn->stream);
}

static void break_off(struct conn *conn)
{
    if (conn->state == CONN_BROKEN)
        return;
    conn->state = CONN_BROKEN;
    conn_stop(conn);
    event_active(&conn->deadline, EV_TIMEOUT, 0);
}

/* Keeps the first reason. */
static void note(struct conn *conn, const char *why)
{
    if (conn->why[0] == '\0')
        str_addf(conn->why, sizeof conn->why, "%s: %s", conn->name, why);
    str_printable(conn->why);
}

void conn_fail(struct conn *conn, const char *fmt, ...)
{
    char why[sizeof conn->why];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    /* Node 0 learns from HELLO whether a proxy lies between; a member learns it from WELCOME. */
    bool may_be_direct = conn->is_direct || (conn->is_ours && conn->state == CONN_OPEN);
    if (may_be_direct && !conn->has_ended)
        reset_when_closed(conn);
    note(conn, why);
    break_off(conn);
}

void conn_free(struct conn *conn)
{
    conn_stop(conn);
    buf_free(&conn->in);
    buf_free(&conn->out);
    free(conn);
}

/* ---- sending ---- */

/* The other side may have sent a reason before it stopped reading, so reading goes on. */
static void stop_writing(struct conn *conn, const struct err *err)
{
    note(conn, err->text);
    buf_free(&conn->out);
    shutdown(conn->stream.fd, SHUT_RD); /* SHUT_WR would look like our death */
}

static void start_lingering(struct conn *conn)
{
    if (conn->stream.kind->end)
        conn->stream.kind->end(&conn->stream);
    shutdown(conn->stream.fd, SHUT_WR);
}

/* Sends as much of the queue as the kernel takes; an event sends the rest. */
static void conn_flush(struct conn *conn)
{
    struct err err;
    ssize_t n = 1;
    while (n > 0 && buf_len(&conn->out) > 0) {
        n = conn->stream.kind->write(&conn->stream, buf_bytes(&conn->out), buf_len(&conn->out),
                                     &err);
        buf_drop(&conn->out, n > 0 ? (size_t)n : 0);
    }
    if (n == STREAM_WANT_WRITE)
        event_add(&conn->writable, NULL);
    else if (n == STREAM_FAILED)
        stop_writing(conn, &err);
    if (conn->state == CONN_CLOSING && buf_len(&conn->out) == 0)
        start_lingering(conn);
}

void conn_send(struct conn *conn, const struct peermsg *msg)
{
    if (conn->state != CONN_OPEN || conn->why[0] != '\0')
        return;
    uint8_t frame[FRAME_MAX];
    struct peermsg with_line = *msg;
    tell_line(conn, &with_line);
    size_t size = peermsg_encode(&with_line, frame, FRAME_MAX);
    assert(size > 0);
    if (!buf_add(&conn->out, frame, size))
        conn_fail(conn,
                  buf_len(&conn->out) > 0 ? "does not read: %zu bytes are waiting for it"
                                          : "no memory for a message to it (%zu bytes wait)",
                  buf_len(&conn->out));
    else if (buf_len(&conn->out) == size) /* else an event will send the bytes */
        conn_flush(conn);
}

static void flush_and_linger(struct conn *conn)
{
    conn->state = CONN_CLOSING;
    conn_arm(&conn->deadline, conn->rules->close_wait_ns);
    if (buf_len(&conn->out) == 0)
        start_lingering(conn);
}

void conn_close(struct conn *conn)
{
    if (conn->state >= CONN_CLOSING)
        return;
    if (conn->state != CONN_OPEN || conn->is_stranger || conn->why[0] != '\0') {
        break_off(conn);
        return;
    }
    flush_and_linger(conn);
}

/* Only one side has a key. Node 0 answers in plain text, whether it has a key or not. A member
 * without a key accepts that answer. A member with a key concludes from plain text that node 0 has
 * none. */
static void refuse_unequal(struct conn *conn, bool has_key)
{
    const char *ours = has_key ? "a key" : "no key", *theirs = has_key ? "no key" : "a key";
    if (conn->is_ours) {
        conn_fail(conn, "node 0 has %s, this node has %s; " ONE_KEY, theirs, ours);
        return;
    }
    struct peermsg msg = {.type = PEERMSG_REFUSED};
    conn->is_strange = true;
    snprintf(msg.refused.why, sizeof msg.refused.why, "node 0 has %s, this node has %s; " ONE_KEY,
             ours, theirs);
    conn->state = CONN_OPEN;
    conn_send(conn, &msg);
    snprintf(msg.refused.why, sizeof msg.refused.why, "it has %s, this node has %s; " ONE_KEY,
             theirs, ours);
    note(conn, msg.refused.why);
    flush_and_linger(conn);
}

/* ---- receiving ---- */

static bool is_from_chief(unsigned type)
{
    return type == PEERMSG_WELCOME || type == PEERMSG_REFUSED || type == PEERMSG_ORDER ||
           type == PEERMSG_LOOK || type == PEERMSG_STANDBY;
}

/* True if this message may come now. If not, the connection ends. */
static bool check(struct conn *conn, const struct peermsg *msg)
{
    if (msg->type != PEERMSG_BYE && is_from_chief(msg->type) != conn->is_ours)
        conn_fail(conn, "sent %s, which it must not send", peermsg_name(msg->type));
    else if (conn->is_stranger && msg->type != PEERMSG_HELLO)
        conn_fail(conn, "began with %s instead of HELLO", peermsg_name(msg->type));
    else if (!conn->is_stranger && msg->type == PEERMSG_HELLO)
        conn_fail(conn, "sent HELLO a second time");
    return conn->state == CONN_OPEN;
}

static void take_frame(struct conn *conn, const struct frame *frame)
{
    struct peermsg msg;
    if (!peermsg_decode(frame, &msg)) {
        conn->is_strange = frame->version != PEERMSG_VERSION;
        if (conn->is_strange)
            conn_fail(conn,
                      "speaks version %u of the protocol, this pchrun speaks %d; install the same "
                      "pchrun on every node",
                      frame->version, PEERMSG_VERSION);
        else
            conn_fail(conn, "sent a malformed message (%s, type %u, %u bytes): %s",
                      peermsg_name(frame->type), frame->type, frame->len, peermsg_flaw(frame));
        return;
    }
    if (!check(conn, &msg))
        return;
    learn_line(conn, &msg);
    if (conn->is_stranger) {
        event_del(&conn->deadline);
        conn->is_stranger = false;
    }
    conn->rules->on_message(conn, &msg);
}

/* The other side is no pchrun. A member has called the wrong port, or node 0 does not run. */
static void fail_as_foreign(struct conn *conn, const char *why)
{
    conn_fail(conn, "is not a pchrun: %s%s", why, conn->is_ours ? "; " ASK_PORT : "");
}

/* The first bytes help the user to identify the other program. */
static void fail_by_bytes(struct conn *conn, const uint8_t *data, size_t len)
{
    size_t n = 0;
    char hex[16] = "", why[96];
    while (n < len && n < 40 && data[n] >= 0x20 && data[n] < 0x7f)
        n++;
    for (size_t i = 0; i < len && i < 4; i++)
        str_addf(hex, sizeof hex, " %02x", data[i]);
    if (n >= 4)
        snprintf(why, sizeof why, "it began with \"%.*s\"", (int)n, (const char *)data);
    else
        snprintf(why, sizeof why, "it began with the bytes%s; a message begins with 43 50", hex);
    fail_as_foreign(conn, why);
}

/* This node has a key, and the other side does not encrypt. */
static void refuse_plain(struct conn *conn)
{
    struct frame frame;
    struct err err;
    size_t size;
    uint8_t first[64];
    ssize_t n = conn->stream.kind->read(&conn->stream, first, sizeof first, &err);
    if (n > 0 && frame_parse(FRAME_PEER, first, (size_t)n, &frame, &size) == FRAME_BAD_MAGIC)
        fail_by_bytes(conn, first, (size_t)n);
    else
        refuse_unequal(conn, true);
}

/* Handles all whole frames and returns their size. After a callback closes the connection, the rest
 * is dropped. */
static size_t take_frames(struct conn *conn, const uint8_t *data, size_t len)
{
    size_t taken = 0;
    while (conn->state == CONN_OPEN) {
        struct frame frame;
        size_t size;
        switch (frame_parse(FRAME_PEER, data + taken, len - taken, &frame, &size)) {
        case FRAME_OK:
            take_frame(conn, &frame);
            taken += size;
            break;
        case FRAME_MORE:
            return taken;
        case FRAME_BAD_MAGIC:
            if (tls_is_record(data + taken, len - taken))
                refuse_unequal(conn, false);
            else
                fail_by_bytes(conn, data + taken, len - taken);
            break;
        case FRAME_TOO_LONG:
            conn_fail(conn, "sent a message of %u bytes, more than %d", frame.len,
                      FRAME_PAYLOAD_MAX);
            break;
        }
    }
    return taken;
}

static void conn_take(struct conn *conn, const uint8_t *data, size_t len)
{
    if (!buf_add(&conn->in, data, len))
        conn_fail(conn, "no memory for its messages");
    else
        buf_drop(&conn->in, take_frames(conn, buf_bytes(&conn->in), buf_len(&conn->in)));
}

/* Reads the rest in the next iteration of the loop, so that one peer does not delay the others. */
static void receive_more_later(struct conn *conn)
{
    if (conn->stream.kind->has_more && conn->stream.kind->has_more(&conn->stream))
        event_active(&conn->readable, EV_READ, 1);
}

/* After a failed write this side may have caused the end, so the end does not prove a death. */
static void conn_end(struct conn *conn)
{
    conn->has_ended = conn->is_direct && conn->why[0] == '\0';
    conn_fail(conn, "closed by the other side%s",
              buf_len(&conn->in) > 0 ? " in the middle of a message" : "");
}

/* Once this side has closed, it reads only to see the other side close. */
static void conn_receive(struct conn *conn)
{
    uint8_t data[READ_BYTES];
    struct err err;
    ssize_t n = conn->stream.kind->read(&conn->stream, data, sizeof data, &err);
    bool is_over = n == STREAM_END || n == STREAM_FAILED;
    if (conn->state != CONN_OPEN && is_over)
        break_off(conn);
    if (conn->state != CONN_OPEN)
        return;
    if (n > 0)
        conn_take(conn, data, (size_t)n);
    else if (n == STREAM_END)
        conn_end(conn);
    else if (n == STREAM_FAILED)
        conn_fail(conn, "%s", err.text);
    if (n > 0 && conn->state == CONN_OPEN)
        receive_more_later(conn);
}

/* ---- the life of a connection ---- */

static void handshake(struct conn *conn)
{
    struct err err;
    ssize_t n = 1;
    if (conn->stream.kind->handshake)
        n = conn->stream.kind->handshake(&conn->stream, &err);
    if (n == STREAM_WANT_WRITE)
        event_add(&conn->writable, NULL);
    else if (n == STREAM_FOREIGN)
        refuse_plain(conn);
    else if (n == STREAM_FAILED && err.code == ERR_PROTOCOL)
        fail_as_foreign(conn, err.text);
    else if (n == STREAM_FAILED) {
        conn->is_strange = err.code == ERR_USAGE;
        conn_fail(conn, "%s", err.text);
    }
    if (n <= 0)
        return;
    conn->state = CONN_OPEN;
    receive_more_later(conn);
    if (conn->is_ours) {
        event_del(&conn->deadline);
        conn->rules->on_up(conn);
    }
}

static void conn_on_ready(evutil_socket_t fd, short what, void *arg)
{
    struct conn *conn = arg;
    if (conn->state == CONN_HANDSHAKE)
        handshake(conn);
    else if (what & EV_READ)
        conn_receive(conn);
    else
        conn_flush(conn);
}

static void conn_on_deadline(evutil_socket_t fd, short what, void *arg)
{
    struct conn *conn = arg;
    char text[32];
    if (conn->state == CONN_BROKEN)
        conn->rules->on_broken(conn);
    else if (conn->is_stranger)
        conn_fail(conn, "no HELLO within %s",
                  str_duration(conn->rules->hello_wait_ns, text, sizeof text));
    else if (conn->state == CONN_HANDSHAKE)
        conn_fail(conn, "no answer within %s; " ASK_PORT,
                  str_duration(conn->rules->handshake_wait_ns, text, sizeof text));
    else
        break_off(conn);
}

struct conn *conn_new(const struct conn_rules *rules, int fd, const union netaddr *peer,
                      bool is_ours)
{
    struct stream stream = {.fd = fd, .kind = &stream_plain};
    if (rules->tls && !tls_stream(rules->tls, fd, is_ours, &stream))
        return NULL;
    struct conn *conn = calloc(1, sizeof *conn);
    if (!conn) {
        stream_close(&stream);
        return NULL;
    }
    conn->rules = rules;
    conn->is_ours = is_ours;
    conn->is_stranger = !is_ours;
    conn->stream = stream;
    buf_init(&conn->in, FRAME_MAX + READ_BYTES);
    buf_init(&conn->out, rules->queue_max);
    netaddr_text(peer, conn->name, sizeof conn->name);
    event_assign(&conn->readable, rules->base, fd, EV_READ | EV_PERSIST, conn_on_ready, conn);
    event_assign(&conn->writable, rules->base, fd, EV_WRITE, conn_on_ready, conn);
    evtimer_assign(&conn->deadline, rules->base, conn_on_deadline, conn);
    if (event_add(&conn->readable, NULL) != 0) {
        conn_free(conn);
        return NULL;
    }
    return conn;
}

void conn_start(struct conn *conn)
{
    const struct conn_rules *rules = conn->rules;
    conn_arm(&conn->deadline, conn->is_ours ? rules->handshake_wait_ns : rules->hello_wait_ns);
    handshake(conn);
}
