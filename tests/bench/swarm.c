/* SPDX-License-Identifier: Apache-2.0
 *
 * swarm: plays all nodes of a job but node 0 in one process. It measures how node 0, or exchange,
 * accepts the nodes and comes to an agreement.
 *
 *     bench-swarm agree|tell:FIFO|fail|kill:FIFO|replace|idle PORT OPTION ... -- COMMAND
 *
 * Options and command are those of pchrun on node 0; with a key among them the nodes speak TLS.
 * Each node has one rank, which has trained HIGHEST steps and is below every proposal. "agree"
 * prints one line: nanoseconds from the first connection until all nodes have the order to start;
 * from a notice at one node until all nodes have the decision; and the number of orders for that.
 * "tell:FIFO" does the same, but the notice is a line that swarm writes for node 0's notice source.
 * "fail" measures from one node's message of a failed process until all nodes have the order to
 * stop. "kill:FIFO" measures the same from the SIGKILL of a process of node 0: rank.c, which has
 * written its number into the FIFO.
 * "replace" measures from the goodbye of one node, whose replacement calls at once, until all nodes
 * have the order to start the next generation.
 * "idle" sends each node's heartbeat every second, spread evenly, until it is killed. It begins
 * when all nodes are at rest, and prints the number of orders so far before the first node's
 * heartbeat.
 */
#include "base/fd.h"
#include "base/keyfile.h"
#include "bench/bench.h"
#include "config/config.h"
#include "net/tls.h"
#include "wire/page.h"
#include "wire/peermsg.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HIGHEST = 100, EVENTS = 256, PATIENCE_MS = 60000, QUIET_MS = 30 };

#define NOTICE_LEFT_NS INT64_C(600000000000)

struct node {
    struct stream stream;
    bool is_up;       /* the handshake is done */
    bool is_attached; /* its rank is attached */
    bool is_replacement;
    uint8_t in[FRAME_MAX];
    size_t used;
    uint64_t seq, seen;
    bool has_notice;
    struct peermsg status; /* the last STATUS sent */
    struct peer_order order;
};

static struct {
    struct config config;
    struct tls *tls; /* NULL: no key */
    struct sockaddr_in where;
    struct node *nodes;
    int n, epoll;
    int64_t orders;
} swarm;

/* --- one node --- */

static void tell(struct node *node, const struct peermsg *msg)
{
    uint8_t frame[FRAME_MAX];
    size_t size = peermsg_encode(msg, frame, sizeof frame);
    for (size_t done = 0; done < size;) {
        struct err err;
        ssize_t n = node->stream.kind->write(&node->stream, frame + done, size - done, &err);
        if (n == STREAM_FAILED)
            bench_die("%s", err.text);
        if (n > 0)
            done += (size_t)n;
        else
            poll(&(struct pollfd){.fd = node->stream.fd, .events = POLLOUT}, 1, PATIENCE_MS);
    }
}

static int rank_of(const struct node *node)
{
    return (int)(node - swarm.nodes);
}

static void say_hello(struct node *node)
{
    struct peermsg hello = {
        .type = PEERMSG_HELLO,
        .hello = {.incarnation = node->is_replacement ? UINT64_MAX : (uint64_t)rank_of(node) + 1,
                  .node_rank = (uint32_t)rank_of(node) + 1,
                  .nnodes = (uint32_t)swarm.n + 1,
                  .host = "swarm"}};
    snprintf(hello.hello.job, sizeof hello.hello.job, "%s", swarm.config.job);
    if (!config_binding(&swarm.config, hello.hello.settings, sizeof hello.hello.settings))
        bench_die("too many settings");
    tell(node, &hello);
}

/* Sets the fields that are not zero while all goes well. */
static void describe(const struct node *node, struct peer_status *ret)
{
    *ret = (struct peer_status){.life = LIFE_RUNNING,
                                .expected = 1,
                                .attached = 1,
                                .stepped = 1,
                                .live = 1,
                                .all_wait = 1,
                                .highest = HIGHEST,
                                .lowest = HIGHEST,
                                .stride = 1,
                                .world_size = (uint32_t)swarm.n,
                                .closed = node->order.phase == PHASE_IDLE,
                                .vote = node->order.phase == PHASE_IDLE ? VOTE_NONE : VOTE_ACK,
                                .has_notice = node->has_notice,
                                .notice_left_ns = node->has_notice ? NOTICE_LEFT_NS : 0,
                                .knows_notice = node->order.has_notice};
    if (!node->order.roster)
        snprintf(ret->roster, sizeof ret->roster, "%d", rank_of(node));
}

static void tell_status(struct node *node, const struct peer_status *status)
{
    node->status.type = PEERMSG_STATUS;
    node->status.status = *status;
    node->status.status.seen = node->seen;
    node->status.stamp.seq = ++node->seq;
    tell(node, &node->status);
}

/* Its processes have ended, or it had none. */
static void tell_gone(struct node *node)
{
    tell_status(node, &(struct peer_status){.life = LIFE_GONE, .expected = 1, .closed = 1});
}

/* Sends a whole STATUS after any change, as a node does. */
static void on_order(struct node *node, const struct peermsg *msg)
{
    struct peer_status now;
    swarm.orders++;
    if (msg->stamp.seq <= node->seen)
        return;
    node->seen = msg->stamp.seq;
    node->order = msg->order;
    node->status.stamp = msg->stamp;
    if (msg->order.restart) {
        if (node->status.status.life != LIFE_GONE)
            tell_gone(node);
        return;
    }
    describe(node, &now);
    if (node->is_attached && (now.vote != node->status.status.vote ||
                              now.knows_notice != node->status.status.knows_notice))
        tell_status(node, &now);
}

/* No node starts before every node has sent its status. */
static void on_welcome(struct node *node, const struct peermsg *msg)
{
    node->status.stamp = msg->stamp;
    tell_status(node, &(struct peer_status){.life = LIFE_WAITING, .expected = PEERMSG_UNKNOWN});
}

/* A user looks at the ranks. */
static void on_look(struct node *node, const struct peermsg *msg)
{
    struct peermsg answer = {.type = PEERMSG_RANKS};
    answer.ranks = (struct peer_ranks){.number = msg->look.number,
                                       .node_rank = (uint32_t)rank_of(node) + 1,
                                       .total = 1,
                                       .count = 1};
    answer.ranks.list[0] = (struct peer_rank){.step = HIGHEST,
                                              .pace = 3100000,
                                              .age_ns = 300000000,
                                              .rank = rank_of(node),
                                              .pid = 1000,
                                              .phase = PAGE_TRAIN,
                                              .attached = node->is_attached};
    tell(node, &answer);
}

static void on_frame(struct node *node, const struct frame *frame)
{
    static struct peermsg msg;
    if (!peermsg_decode(frame, &msg))
        bench_die("a frame that cannot be read");
    if (msg.type == PEERMSG_REFUSED)
        bench_die("refused: %s", msg.refused.why);
    if (msg.type == PEERMSG_WELCOME)
        on_welcome(node, &msg);
    else if (msg.type == PEERMSG_ORDER)
        on_order(node, &msg);
    else if (msg.type == PEERMSG_LOOK)
        on_look(node, &msg);
}

/* Goes on with the handshake; after it, sends a HELLO. */
static void shake_hands(struct node *node)
{
    struct err err;
    ssize_t n = 1;
    if (node->stream.kind->handshake)
        n = node->stream.kind->handshake(&node->stream, &err);
    if (n == STREAM_WANT_READ)
        return;
    if (n != 1)
        bench_die("no handshake: %s", n == STREAM_FAILED ? err.text : "node 0 has no key");
    node->is_up = true;
    say_hello(node);
}

static void take_frames(struct node *node)
{
    struct frame frame;
    size_t size;
    while (frame_parse(FRAME_PEER, node->in, node->used, &frame, &size) == FRAME_OK) {
        on_frame(node, &frame);
        node->used -= size;
        memmove(node->in, node->in + size, node->used);
    }
}

static bool has_more(const struct node *node)
{
    return node->stream.kind->has_more && node->stream.kind->has_more(&node->stream);
}

static void receive(struct node *node)
{
    struct err err;
    do {
        ssize_t n = node->stream.kind->read(&node->stream, node->in + node->used,
                                            sizeof node->in - node->used, &err);
        if (n == STREAM_WANT_READ || n == STREAM_WANT_WRITE)
            return;
        if (n <= 0)
            bench_die("node 0 has closed");
        node->used += (size_t)n;
        take_frames(node);
    } while (has_more(node));
}

static void on_readable(struct node *node)
{
    if (node->is_up)
        receive(node);
    else
        shake_hands(node);
}

/* --- all of them --- */

static bool has_started(const struct node *node)
{
    return node->order.start;
}

static bool has_roster(const struct node *node)
{
    return node->order.roster;
}

static bool has_decision(const struct node *node)
{
    return node->order.phase == PHASE_DECIDED;
}

static bool has_end(const struct node *node)
{
    return node->order.end >= END_STOP;
}

static bool has_started_again(const struct node *node)
{
    return node->order.start && node->status.stamp.generation == 1;
}

static int pump(int wait_ms)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(swarm.epoll, events, EVENTS, wait_ms);
    for (int i = 0; i < n; i++)
        on_readable(events[i].data.ptr);
    return n;
}

static void wait_until_all(bool (*is)(const struct node *node), const char *what)
{
    for (int i = 0; i < swarm.n; i++)
        while (!is(&swarm.nodes[i]))
            if (pump(PATIENCE_MS) <= 0)
                bench_die("node %d waits in vain %s", i + 1, what);
}

static int dial(void)
{
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        bench_die("socket: %s", strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, (struct sockaddr *)&swarm.where, sizeof swarm.where) == 0)
        return fd;
    close(fd);
    return -1;
}

static void wait_for_node_0(void)
{
    int fd;
    for (int tries = 0; (fd = dial()) < 0; tries++) {
        if (tries == PATIENCE_MS)
            bench_die("node 0 does not listen: %s", strerror(errno));
        usleep(1000);
    }
    close(fd);
}

static void connect_node(struct node *node)
{
    struct err err;
    int fd = dial();
    if (fd < 0)
        bench_die("cannot connect: %s", strerror(errno));
    if (!fd_set_nonblock(fd, &err))
        bench_die("%s", err.text);
    if (!swarm.tls)
        node->stream = (struct stream){.fd = fd, .kind = &stream_plain};
    else if (!tls_stream(swarm.tls, fd, true, &node->stream))
        bench_die("no memory for a stream");
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = node};
    epoll_ctl(swarm.epoll, EPOLL_CTL_ADD, fd, &event);
    shake_hands(node);
}

static int64_t join(void)
{
    int64_t from = bench_now();
    for (int i = 0; i < swarm.n; i++) {
        connect_node(&swarm.nodes[i]);
        pump(0);
    }
    wait_until_all(has_started, "for its start");
    return bench_now() - from;
}

static void attach(void)
{
    struct peer_status status;
    for (int i = 0; i < swarm.n; i++) {
        swarm.nodes[i].is_attached = true;
        describe(&swarm.nodes[i], &status);
        tell_status(&swarm.nodes[i], &status);
        pump(0);
    }
    wait_until_all(has_roster, "for the roster");
    while (pump(QUIET_MS) > 0)
        ;
}

static int64_t agree(void)
{
    struct peer_status status;
    struct node *node = &swarm.nodes[swarm.n / 2];
    node->has_notice = true;
    describe(node, &status);
    swarm.orders = 0;
    int64_t from = bench_now();
    tell_status(node, &status);
    wait_until_all(has_decision, "for a decision");
    return bench_now() - from;
}

/* open() waits until the source has opened the FIFO for reading. */
static int64_t agree_after_line(const char *fifo)
{
    static const char line[] =
        "{\"type\":\"terminate\",\"id\":\"bench\",\"deadline_seconds\":600}\n";
    int fd = open(fifo, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        bench_die("cannot open %s: %s", fifo, strerror(errno));
    while (pump(QUIET_MS) > 0)
        ;
    swarm.orders = 0;
    int64_t from = bench_now();
    if (write(fd, line, sizeof line - 1) != (ssize_t)sizeof line - 1)
        bench_die("cannot write to %s: %s", fifo, strerror(errno));
    wait_until_all(has_decision, "for a decision");
    int64_t took = bench_now() - from;
    close(fd);
    return took;
}

/* As a node reports it. */
static int64_t fail(void)
{
    struct peer_status status;
    struct node *node = &swarm.nodes[swarm.n / 2];
    describe(node, &status);
    status.life = LIFE_FAILED;
    status.live = 0;
    node->status.cause = (struct peer_cause){.fault = FAULT_SIGNAL,
                                             .node = rank_of(node) + 1,
                                             .rank = rank_of(node),
                                             .pid = 1,
                                             .code = 128 + SIGKILL,
                                             .error_ns = -1,
                                             .host = "swarm",
                                             .text = "killed"};
    swarm.orders = 0;
    int64_t from = bench_now();
    tell_status(node, &status);
    wait_until_all(has_end, "for the job's end");
    return bench_now() - from;
}

/* The process that has written "up NODE PROCESS NANOSECONDS". */
static pid_t process_of(const char *fifo)
{
    char line[128];
    int pid, fd = open(fifo, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof line - 1);
    if (n <= 0)
        bench_die("nothing was read from %s: %s", fifo, strerror(errno));
    line[n] = '\0';
    if (sscanf(line, "up %*s %d", &pid) != 1)
        bench_die("%s says: %s", fifo, line);
    close(fd);
    return pid;
}

static int64_t fail_by_kill(const char *fifo)
{
    pid_t pid = process_of(fifo);
    while (pump(QUIET_MS) > 0)
        ;
    swarm.orders = 0;
    int64_t from = bench_now();
    if (kill(pid, SIGKILL) != 0)
        bench_die("cannot kill process %d: %s", (int)pid, strerror(errno));
    wait_until_all(has_end, "for the job's end");
    return bench_now() - from;
}

/* After a goodbye node 0 need not wait for the end of processes that it cannot see. */
static int64_t replace(void)
{
    struct node *node = &swarm.nodes[swarm.n / 2];
    swarm.orders = 0;
    int64_t from = bench_now();
    tell(node, &(struct peermsg){.type = PEERMSG_BYE, .stamp = node->status.stamp});
    stream_close(&node->stream);
    *node = (struct node){.is_replacement = true};
    connect_node(node);
    wait_until_all(has_started_again, "for the next generation");
    return bench_now() - from;
}

/* A heartbeat is a STATUS that wants an answer. */
static void beat(void)
{
    struct peer_status status;
    int64_t from = bench_now();
    for (int64_t beats = 0;; beats++) {
        struct node *node = &swarm.nodes[beats % swarm.n];
        int64_t due = from + beats * 1000000000 / swarm.n;
        if (node == swarm.nodes)
            bench_print((int64_t[]){swarm.orders}, 1);
        for (int64_t now; (now = bench_now()) < due;)
            pump((int)((due - now + 999999) / 1000000));
        describe(node, &status);
        status.wants_reply = 1;
        tell_status(node, &status);
    }
}

static bool is_with_fifo(const char *how, const char *what, const char **ret_fifo)
{
    *ret_fifo = how + strlen(what);
    return strncmp(how, what, strlen(what)) == 0;
}

static int64_t measure(const char *how)
{
    const char *fifo;
    if (is_with_fifo(how, "tell:", &fifo))
        return agree_after_line(fifo);
    if (is_with_fifo(how, "kill:", &fifo))
        return fail_by_kill(fifo);
    if (strcmp(how, "replace") == 0)
        return replace();
    return strcmp(how, "fail") == 0 ? fail() : agree();
}

static void take_key(void)
{
    struct err err;
    struct key key;
    if (!swarm.config.cluster.key_file)
        return;
    if (!keyfile_read(swarm.config.cluster.key_file, &key, &err))
        bench_die("%s", err.text);
    swarm.tls = tls_new(&key, swarm.config.job, &err);
    key_wipe(&key);
    if (!swarm.tls)
        bench_die("%s", err.text);
}

int main(int argc, char **argv)
{
    extern char **environ;
    struct err err;
    struct rlimit files;
    if (argc < 6)
        bench_die("usage: swarm agree|tell:FIFO|fail|kill:FIFO|replace|idle PORT OPTION ... -- "
                  "COMMAND");
    if (config_load(argv + 2, environ, stdout, &swarm.config, &err) != ARGS_RUN)
        bench_die("%s", err.text);
    take_key();
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    swarm.where = (struct sockaddr_in){.sin_family = AF_INET,
                                       .sin_port = htons((uint16_t)atoi(argv[2])),
                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    swarm.n = swarm.config.cluster.nnodes - 1;
    swarm.nodes = calloc((size_t)swarm.n, sizeof *swarm.nodes);
    swarm.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!swarm.nodes || swarm.epoll < 0)
        bench_die("cannot start: %s", strerror(errno));
    wait_for_node_0();
    int64_t joined = join();
    attach();
    if (strcmp(argv[1], "idle") == 0)
        beat();
    int64_t took = measure(argv[1]);
    bench_print((int64_t[]){joined, took, swarm.orders}, 3);
    return 0;
}
