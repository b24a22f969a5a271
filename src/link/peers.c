/* SPDX-License-Identifier: Apache-2.0
 * See peers.h.
 *
 * A connection that fails is only marked, and put on the list of the broken; on_later() tells and
 * frees, from the loop. So no function here frees what a caller further up still looks at, and no
 * callback runs inside a call.
 */
#include "link/peers.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "link/dial.h"
#include "link/listener.h"
#include "link/resolve.h"
#include "link/stream.h"

#include <assert.h>
#include <event2/event.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

#define NO_MEMORY "no memory for the connection"

enum {
    BUCKETS = 256,
    READ_BYTES = FRAME_MAX, /* per connection and wake-up */
};

enum conn_state {
    STATE_HANDSHAKE,
    STATE_OPEN,
    STATE_FLUSHING,  /* closed by us, sending what is queued; what comes is thrown away */
    STATE_LINGERING, /* all is sent: waits for the other side to close. Closing with unread bytes
                        would reset the connection, and the other side could lose our last words */
    STATE_BROKEN,    /* on its way to on_later() */
};

struct conn {
    TAILQ_ENTRY(conn) link; /* in its bucket, or in peers->broken */
    struct peers *peers;
    int id;
    enum conn_state state;
    bool is_ours;     /* we made it: the other side is the chief */
    bool is_stranger; /* accepted, and no HELLO yet */
    bool is_told;     /* its end concerns the owner of peers */
    struct stream stream;
    struct event *readable, *writable, *deadline;
    struct buf in, out;
    char name[ADDRESS_TEXT_MAX];
    char why[256]; /* it ends, "": it does not */
};

TAILQ_HEAD(conn_list, conn);

struct peers {
    struct peers_options options;
    struct listener *listener;
    struct dial *dial;
    struct event *later;
    struct conn_list buckets[BUCKETS], broken;
    int next_id;
    int conns, strangers;
    bool is_finishing;
    bool is_chief_lost;       /* there was no memory for the dial: to be told by on_later() */
    int64_t stranger_said_at; /* when the log last spoke of one */
    unsigned strangers_unsaid;
};

/* ---- connections ---- */

static struct conn *find(struct peers *peers, int id)
{
    struct conn *conn;
    for (conn = TAILQ_FIRST(&peers->buckets[(unsigned)id % BUCKETS]); conn;
         conn = TAILQ_NEXT(conn, link))
        if (conn->id == id && conn->state <= STATE_OPEN)
            return conn;
    return NULL;
}

static void arm(struct event *timer, int64_t ns)
{
    struct timeval tv = {.tv_sec = ns / NS_PER_S, .tv_usec = ns % NS_PER_S / 1000};
    evtimer_add(timer, &tv);
}

/* It is no stranger any more: known, or gone. */
static void leave_strangers(struct conn *conn)
{
    if (!conn->is_stranger)
        return;
    conn->is_stranger = false;
    conn->peers->strangers--;
    if (conn->peers->listener)
        listener_hold(conn->peers->listener, false);
}

/* Ends it: the reason is told, and the memory freed, by on_later(). */
static void break_off(struct conn *conn)
{
    struct peers *peers = conn->peers;
    if (conn->state == STATE_BROKEN)
        return;
    conn->state = STATE_BROKEN;
    event_del(conn->readable);
    event_del(conn->writable);
    event_del(conn->deadline);
    stream_close(&conn->stream);
    TAILQ_REMOVE(&peers->buckets[(unsigned)conn->id % BUCKETS], conn, link);
    TAILQ_INSERT_TAIL(&peers->broken, conn, link);
    event_active(peers->later, 0, 0);
}

PRINTF_LIKE(2, 3)
static void fail(struct conn *conn, const char *fmt, ...)
{
    if (conn->why[0] == '\0') { /* the first reason counts */
        va_list ap;
        va_start(ap, fmt);
        str_addf(conn->why, sizeof conn->why, "%s: ", conn->name);
        size_t used = strlen(conn->why);
        vsnprintf(conn->why + used, sizeof conn->why - used, fmt, ap);
        va_end(ap);
        str_printable(conn->why);
    }
    break_off(conn);
}

static void conn_free(struct conn *conn)
{
    conn->peers->conns--;
    struct event *events[] = {conn->readable, conn->writable, conn->deadline};
    for (size_t i = 0; i < ARRAY_LEN(events); i++)
        if (events[i])
            event_free(events[i]);
    stream_close(&conn->stream);
    buf_free(&conn->in);
    buf_free(&conn->out);
    free(conn);
}

/* ---- sending ---- */

/* The other side takes nothing any more, but it may have said why: what it sent is still read. */
static void stop_writing(struct conn *conn, const struct err *err)
{
    if (conn->why[0] == '\0')
        str_addf(conn->why, sizeof conn->why, "%s: %s", conn->name, err->text);
    buf_free(&conn->out);
    shutdown(conn->stream.fd, SHUT_RDWR);
}

static void start_lingering(struct conn *conn)
{
    conn->state = STATE_LINGERING;
    shutdown(conn->stream.fd, SHUT_WR);
}

static void flush(struct conn *conn)
{
    while (buf_len(&conn->out) > 0) {
        struct err err;
        ssize_t n = conn->stream.kind->write(&conn->stream, buf_bytes(&conn->out),
                                             buf_len(&conn->out), &err);
        if (n == STREAM_WANT_WRITE) {
            event_add(conn->writable, NULL);
            return;
        }
        if (n < 0)
            stop_writing(conn, &err);
        else
            buf_drop(&conn->out, (size_t)n);
    }
    if (conn->state == STATE_FLUSHING)
        start_lingering(conn);
}

void peers_send(struct peers *peers, int id, const struct peermsg *msg)
{
    struct conn *conn = find(peers, id);
    if (!conn || conn->state != STATE_OPEN || conn->why[0] != '\0')
        return;
    uint8_t frame[FRAME_MAX];
    size_t size = peermsg_encode(msg, frame, sizeof frame);
    assert(size > 0);
    bool was_empty = buf_len(&conn->out) == 0;
    if (!buf_add(&conn->out, frame, size)) {
        fail(conn, "does not read: %zu bytes are waiting for it", buf_len(&conn->out));
        return;
    }
    /* With more in the queue the writable event is pending already. */
    if (was_empty)
        flush(conn);
}

/* ---- receiving ---- */

static bool is_from_chief(unsigned type)
{
    return type == PEERMSG_WELCOME || type == PEERMSG_REFUSED || type == PEERMSG_ORDER;
}

/* Is this message in order here? */
static bool check(struct conn *conn, const struct peermsg *msg)
{
    if (msg->type != PEERMSG_BYE && is_from_chief(msg->type) != conn->is_ours)
        fail(conn, "sent %s, which is not for it to send", peermsg_name(msg->type));
    else if (conn->is_stranger && msg->type != PEERMSG_HELLO)
        fail(conn, "began with %s instead of HELLO", peermsg_name(msg->type));
    return conn->state == STATE_OPEN;
}

static void take_frame(struct conn *conn, const struct frame *frame)
{
    struct peermsg msg;
    if (!peermsg_decode(frame, &msg)) {
        if (frame->version != PEERMSG_VERSION)
            fail(conn, "speaks version %u of the protocol, this pchrun speaks %d", frame->version,
                 PEERMSG_VERSION);
        else
            fail(conn, "sent a malformed message (%s, type %u, %u bytes)",
                 peermsg_name(frame->type), frame->type, frame->len);
        return;
    }
    if (!check(conn, &msg))
        return;
    if (conn->is_stranger) {
        event_del(conn->deadline);
        leave_strangers(conn);
        conn->is_told = true;
    }
    conn->peers->options.on_message(conn->peers->options.arg, conn->id, &msg);
}

/* Takes what is whole. A callback may close the connection: then the rest is nobody's. */
static void take_frames(struct conn *conn)
{
    while (conn->state == STATE_OPEN) {
        struct frame frame;
        size_t size;
        switch (frame_parse(FRAME_PEER, buf_bytes(&conn->in), buf_len(&conn->in), &frame, &size)) {
        case FRAME_OK:
            take_frame(conn, &frame);
            buf_drop(&conn->in, size);
            break;
        case FRAME_MORE:
            return;
        case FRAME_BAD_MAGIC:
            fail(conn, "is not a pchrun: what it sent does not begin as a message does");
            break;
        case FRAME_TOO_LONG:
            fail(conn, "sent a message of %u bytes, more than %d", frame.len, FRAME_PAYLOAD_MAX);
            break;
        }
    }
}

static void receive(struct conn *conn)
{
    uint8_t *room = buf_room(&conn->in, READ_BYTES);
    if (!room) {
        fail(conn, "no memory for its messages");
        return;
    }
    struct err err;
    ssize_t n = conn->stream.kind->read(&conn->stream, room, READ_BYTES, &err);
    if (n > 0) {
        buf_added(&conn->in, (size_t)n);
        take_frames(conn);
    } else if (n == STREAM_END) {
        fail(conn, "closed by the other side");
    } else if (n == STREAM_FAILED) {
        fail(conn, "%s", err.text);
    }
}

/* We have closed: reads only to learn when the other side has. */
static void receive_the_rest(struct conn *conn)
{
    uint8_t ignored[READ_BYTES];
    struct err err;
    ssize_t n = conn->stream.kind->read(&conn->stream, ignored, sizeof ignored, &err);
    if (n == STREAM_END || n == STREAM_FAILED)
        break_off(conn);
}

/* ---- the life of a connection ---- */

static void handshake(struct conn *conn)
{
    struct err err;
    ssize_t n = 1;
    if (conn->stream.kind->handshake)
        n = conn->stream.kind->handshake(&conn->stream, &err);
    if (n == STREAM_WANT_WRITE)
        event_add(conn->writable, NULL);
    if (n == STREAM_FAILED)
        fail(conn, "%s", err.text);
    if (n <= 0)
        return;
    conn->state = STATE_OPEN;
    if (conn->is_ours) {
        event_del(conn->deadline);
        conn->peers->options.on_up(conn->peers->options.arg, conn->id);
    }
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct conn *conn = arg;
    if (conn->state == STATE_HANDSHAKE)
        handshake(conn);
    else if (conn->state == STATE_OPEN)
        receive(conn);
    else
        receive_the_rest(conn);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    struct conn *conn = arg;
    if (conn->state == STATE_HANDSHAKE)
        handshake(conn);
    else
        flush(conn);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
    struct conn *conn = arg;
    char text[32];
    if (conn->is_stranger)
        fail(conn, "no HELLO within %s",
             str_duration(conn->peers->options.hello_wait_ns, text, sizeof text));
    else if (conn->state == STATE_HANDSHAKE)
        fail(conn, "no answer within %s",
             str_duration(conn->peers->options.connect_wait_ns, text, sizeof text));
    else
        break_off(conn);
}

/* Takes the descriptor. NULL: memory is short, and the descriptor is closed. */
static struct conn *conn_new(struct peers *peers, int id, int fd, const union address_socket *peer)
{
    struct stream stream = stream_open(&stream_plain, fd);
    struct conn *conn = calloc(1, sizeof *conn);
    if (!conn) {
        stream_close(&stream);
        return NULL;
    }
    struct event_base *base = peers->options.base;
    conn->peers = peers;
    peers->conns++;
    conn->id = id;
    conn->stream = stream;
    buf_init(&conn->in, FRAME_MAX + READ_BYTES);
    buf_init(&conn->out, peers->options.queue_max);
    address_text(peer, conn->name, sizeof conn->name);
    conn->readable = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, conn);
    conn->writable = event_new(base, fd, EV_WRITE, on_writable, conn);
    conn->deadline = evtimer_new(base, on_deadline, conn);
    if (!conn->readable || !conn->writable || !conn->deadline ||
        event_add(conn->readable, NULL) != 0) {
        conn_free(conn);
        return NULL;
    }
    TAILQ_INSERT_TAIL(&peers->buckets[(unsigned)id % BUCKETS], conn, link);
    return conn;
}

static void on_accept(void *arg, int fd, const union address_socket *peer)
{
    struct peers *peers = arg;
    if (peers->next_id == INT_MAX) { /* no number twice, whatever it takes */
        fd_close(&fd);
        return;
    }
    stream_tune(fd, peers->options.silence_ns);
    struct conn *conn = conn_new(peers, peers->next_id, fd, peer);
    if (!conn)
        return;
    peers->next_id++;
    conn->is_stranger = true;
    if (++peers->strangers >= peers->options.strangers_max)
        listener_hold(peers->listener, true);
    arm(conn->deadline, peers->options.hello_wait_ns);
    handshake(conn);
}

static void on_dialled(void *arg, int fd, const union address_socket *peer, const struct err *err)
{
    struct peers *peers = arg;
    peers->dial = NULL;
    if (fd < 0) {
        peers->options.on_down(peers->options.arg, PEERS_CHIEF, err->text);
        return;
    }
    struct conn *conn = conn_new(peers, PEERS_CHIEF, fd, peer);
    if (!conn) {
        peers->options.on_down(peers->options.arg, PEERS_CHIEF, NO_MEMORY);
        return;
    }
    conn->is_ours = conn->is_told = true;
    arm(conn->deadline, peers->options.connect_wait_ns);
    handshake(conn);
}

/* ---- what the owner is told ---- */

/* One line a second at most: a port scan must not fill the log. */
static void log_stranger(struct peers *peers, const char *why)
{
    int64_t now = clock_now_ns();
    if (peers->stranger_said_at != 0 && now - peers->stranger_said_at < NS_PER_S) {
        peers->strangers_unsaid++;
        return;
    }
    peers->stranger_said_at = now;
    if (peers->strangers_unsaid > 0)
        log_info("peers", "closed %u other connections that did not say HELLO",
                 peers->strangers_unsaid);
    peers->strangers_unsaid = 0;
    log_info("peers", "closed a connection: %s", why);
}

static void bury(struct peers *peers, struct conn *conn)
{
    int id = conn->id;
    bool is_told = conn->is_told, is_stranger = conn->is_stranger;
    char why[sizeof conn->why];
    str_copy(why, sizeof why, conn->why);
    leave_strangers(conn);
    conn_free(conn);
    if (is_told)
        peers->options.on_down(peers->options.arg, id, why);
    else if (is_stranger)
        log_stranger(peers, why);
}

static void on_later(evutil_socket_t fd, short what, void *arg)
{
    struct peers *peers = arg;
    if (peers->is_chief_lost) {
        peers->is_chief_lost = false;
        peers->options.on_down(peers->options.arg, PEERS_CHIEF, NO_MEMORY);
    }
    struct conn *conn;
    while ((conn = TAILQ_FIRST(&peers->broken))) {
        TAILQ_REMOVE(&peers->broken, conn, link);
        bury(peers, conn);
    }
    if (!peers->is_finishing || peers->conns > 0)
        return;
    peers->is_finishing = false;
    if (peers->options.on_finished)
        peers->options.on_finished(peers->options.arg);
}

/* ---- the module ---- */

static void set_default(int64_t *field, int64_t value)
{
    if (*field == 0)
        *field = value;
}

struct peers *peers_new(const struct peers_options *options)
{
    struct peers *peers = calloc(1, sizeof *peers);
    if (!peers)
        return NULL;
    struct peers_options *o = &peers->options;
    *o = *options;
    set_default(&o->connect_wait_ns, 10 * NS_PER_S);
    set_default(&o->hello_wait_ns, 10 * NS_PER_S);
    set_default(&o->close_wait_ns, 5 * NS_PER_S);
    set_default(&o->accept_retry_ns, NS_PER_S);
    if (o->queue_max == 0)
        o->queue_max = 64 * 1024;
    if (o->strangers_max == 0)
        o->strangers_max = 256;
    peers->next_id = PEERS_FIRST;
    for (size_t i = 0; i < BUCKETS; i++)
        TAILQ_INIT(&peers->buckets[i]);
    TAILQ_INIT(&peers->broken);
    peers->later = event_new(o->base, -1, 0, on_later, peers);
    if (!peers->later) {
        free(peers);
        return NULL;
    }
    return peers;
}

static void free_all(struct conn_list *list)
{
    struct conn *conn;
    while ((conn = TAILQ_FIRST(list))) {
        TAILQ_REMOVE(list, conn, link);
        conn_free(conn);
    }
}

void peers_free(struct peers *peers)
{
    if (!peers)
        return;
    dial_free(peers->dial);
    listener_free(peers->listener);
    for (size_t i = 0; i < BUCKETS; i++)
        free_all(&peers->buckets[i]);
    free_all(&peers->broken);
    event_free(peers->later);
    free(peers);
}

bool peers_listen(struct peers *peers, const struct address *where, struct err *err)
{
    assert(!peers->listener);
    struct address_list list;
    if (!resolve_wait(where, peers->options.connect_wait_ns, &list, err))
        return err_wrap(err, "cannot listen");
    struct listener_options options = {
        .base = peers->options.base,
        .retry_ns = peers->options.accept_retry_ns,
        .on_accept = on_accept,
        .arg = peers,
    };
    peers->listener = listener_new(&options, &list, err);
    return peers->listener;
}

int peers_port(const struct peers *peers)
{
    return listener_port(peers->listener);
}

void peers_connect(struct peers *peers, const struct address *where)
{
    peers_close(peers, PEERS_CHIEF);
    struct dial_options options = {
        .base = peers->options.base,
        .wait_ns = peers->options.connect_wait_ns,
        .silence_ns = peers->options.silence_ns,
        .on_done = on_dialled,
        .arg = peers,
    };
    peers->dial = dial_start(&options, where);
    if (peers->dial)
        return;
    peers->is_chief_lost = true;
    event_active(peers->later, 0, 0);
}

static void close_conn(struct conn *conn)
{
    bool has_words = conn->state == STATE_OPEN && conn->is_told && conn->why[0] == '\0';
    conn->is_told = false;
    leave_strangers(conn);
    if (!has_words) {
        break_off(conn);
        return;
    }
    conn->state = STATE_FLUSHING;
    arm(conn->deadline, conn->peers->options.close_wait_ns);
    if (buf_len(&conn->out) == 0)
        start_lingering(conn);
}

void peers_close(struct peers *peers, int id)
{
    struct conn *conn = find(peers, id);
    if (conn)
        close_conn(conn);
    for (conn = TAILQ_FIRST(&peers->broken); conn; conn = TAILQ_NEXT(conn, link))
        if (conn->id == id)
            conn->is_told = false;
    if (id == PEERS_CHIEF) {
        dial_free(peers->dial);
        peers->dial = NULL;
        peers->is_chief_lost = false;
    }
}

void peers_finish(struct peers *peers)
{
    peers_close(peers, PEERS_CHIEF);
    struct conn *conn, *next;
    for (size_t i = 0; i < BUCKETS; i++)
        for (conn = TAILQ_FIRST(&peers->buckets[i]); conn; conn = next) {
            next = TAILQ_NEXT(conn, link);
            if (conn->state <= STATE_OPEN)
                close_conn(conn);
        }
    for (conn = TAILQ_FIRST(&peers->broken); conn; conn = TAILQ_NEXT(conn, link))
        conn->is_told = false;
    listener_free(peers->listener);
    peers->listener = NULL;
    peers->is_finishing = true;
    event_active(peers->later, 0, 0);
}
