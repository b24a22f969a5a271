/* SPDX-License-Identifier: Apache-2.0
 *
 * exchange: does the least that node 0 must do in swarm's measurements. Its bare epoll loop accepts
 * connections, counts frames, and sends prepared frames of the kinds and sizes that pchrun sends.
 * It reads no frame and decides nothing. With a key it uses OpenSSL directly.
 *
 *     bench-exchange PORT NODES [KEY_FILE JOB]
 */
#include "bench/baretls.h"
#include "bench/bench.h"
#include "wire/peermsg.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 256 };
enum stage { JOINING, ATTACHING, TRAINING, VOTING, DECIDED, STAGES };

struct made {
    uint8_t data[FRAME_MAX];
    size_t size;
};

struct conn {
    int fd;
    SSL *ssl; /* NULL: plain */
    bool has_said_hello;
    uint8_t in[FRAME_MAX];
    size_t used;
};

static struct {
    struct made welcome, orders[STAGES];
    struct conn *conns;
    SSL_CTX *tls; /* NULL: plain */
    int max, n, epoll, listener;
    enum stage stage;
    int heard; /* frames in this stage */
} exchange;

static void make(struct made *made, const struct peermsg *msg)
{
    made->size = peermsg_encode(msg, made->data, sizeof made->data);
}

/* The frame that every node gets when a stage begins. */
static void make_all(void)
{
    struct peermsg msg = {.type = PEERMSG_WELCOME, .stamp.attempt = 1, .welcome.incarnation = 1};
    make(&exchange.welcome, &msg);
    msg = (struct peermsg){.type = PEERMSG_ORDER, .stamp.attempt = 1};
    for (int stage = ATTACHING; stage < STAGES; stage++) {
        msg.stamp.seq = (uint64_t)stage;
        msg.stamp.round = msg.stamp.ballot = stage >= VOTING;
        msg.order.start = true;
        msg.order.roster = stage >= TRAINING;
        msg.order.has_notice = stage >= VOTING;
        /* swarm waits for the phase, or for the end */
        msg.order.end = stage >= VOTING ? END_STOP : END_NONE;
        if (stage >= VOTING)
            msg.order.phase = stage == VOTING ? PHASE_PROPOSED : PHASE_DECIDED;
        make(&exchange.orders[stage], &msg);
    }
}

static void send_made(const struct conn *conn, const struct made *made)
{
    ssize_t n = conn->ssl ? SSL_write(conn->ssl, made->data, (int)made->size)
                          : send(conn->fd, made->data, made->size, MSG_NOSIGNAL);
    if (n != (ssize_t)made->size)
        bench_die("cannot send: %s", strerror(errno));
}

static void enter(enum stage stage)
{
    exchange.stage = stage;
    exchange.heard = 0;
    for (int i = 0; i < exchange.n; i++)
        if (exchange.conns[i].has_said_hello)
            send_made(&exchange.conns[i], &exchange.orders[stage]);
}

/* The number of frames in this stage: a hello and a first status of each node; then a status of
 * each, or one notice. */
static int wanted(void)
{
    return exchange.stage == JOINING    ? 2 * exchange.max
           : exchange.stage == TRAINING ? 1
                                        : exchange.max;
}

static void on_frame(struct conn *conn)
{
    if (!conn->has_said_hello) {
        conn->has_said_hello = true;
        send_made(conn, &exchange.welcome);
    }
    if (++exchange.heard == wanted() && exchange.stage < DECIDED)
        enter(exchange.stage + 1);
}

static void lose(struct conn *conn)
{
    if (conn->has_said_hello)
        exit(0); /* swarm has finished */
    if (conn != exchange.conns)
        bench_die("a node has gone before it said hello");
    epoll_ctl(exchange.epoll, EPOLL_CTL_DEL, conn->fd, NULL); /* swarm's first try */
}

static ssize_t receive_some(struct conn *conn)
{
    uint8_t *room = conn->in + conn->used;
    size_t size = sizeof conn->in - conn->used;
    return conn->ssl ? baretls_read(conn->ssl, room, size)
                     : recv(conn->fd, room, size, MSG_DONTWAIT);
}

static void receive(struct conn *conn)
{
    do {
        ssize_t n = receive_some(conn);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            lose(conn);
            return;
        }
        conn->used += (size_t)n;
        struct frame frame;
        size_t size;
        while (frame_parse(FRAME_PEER, conn->in, conn->used, &frame, &size) == FRAME_OK) {
            on_frame(conn);
            conn->used -= size;
            memmove(conn->in, conn->in + size, conn->used);
        }
    } while (conn->ssl && SSL_has_pending(conn->ssl));
}

static void accept_one(void)
{
    int one = 1, fd = accept4(exchange.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 || exchange.n > exchange.max)
        bench_die("accept: %s", strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct conn *conn = &exchange.conns[exchange.n++];
    conn->fd = fd;
    conn->ssl = exchange.tls ? baretls_accept(exchange.tls, fd) : NULL;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};
    epoll_ctl(exchange.epoll, EPOLL_CTL_ADD, fd, &event);
}

static void listen_at(uint16_t port)
{
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in where = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&where, sizeof where) != 0 || listen(fd, SOMAXCONN) != 0)
        bench_die("cannot listen at port %d: %s", port, strerror(errno));
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(exchange.epoll, EPOLL_CTL_ADD, fd, &event);
    exchange.listener = fd;
}

int main(int argc, char **argv)
{
    struct rlimit files;
    if (argc != 3 && argc != 5)
        bench_die("usage: exchange PORT NODES [KEY_FILE JOB]");
    if (argc == 5)
        exchange.tls = baretls_new(argv[3], argv[4]);
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    exchange.max = atoi(argv[2]);
    /* One more, for the connection with which swarm tests that this program listens. */
    exchange.conns = calloc((size_t)exchange.max + 1, sizeof *exchange.conns);
    exchange.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!exchange.conns || exchange.epoll < 0)
        bench_die("cannot start: %s", strerror(errno));
    make_all();
    listen_at((uint16_t)atoi(argv[1]));
    for (;;) {
        struct epoll_event events[EVENTS];
        int n = epoll_wait(exchange.epoll, events, EVENTS, -1);
        for (int i = 0; i < n; i++)
            if (events[i].data.ptr)
                receive(events[i].data.ptr);
            else
                accept_one();
    }
}
