/* SPDX-License-Identifier: Apache-2.0
 *
 * peerpair: both sides of peers in one loop, or one side and a raw socket, for the tests of peers.
 * Nothing sleeps: each wait runs the loop until something has happened, and fails after a deadline.
 */
#pragma once

#include "base/clock.h"
#include "base/str.h"
#include "peers/peers.h"
#include "unit.h"

#include <arpa/inet.h>
#include <event2/event.h>
#include <sched.h>

#define HELPER static __attribute__((unused))

/* ---- a side, and what it was told ---- */

enum { HISTORY = 64 };

struct side {
    struct peers *peers;
    int ups, downs, messages;
    int conns[HISTORY]; /* of the messages */
    struct peermsg last;
    int down_conn;
    bool has_ended; /* with the last on_down */
    char why[300];
    int close_on_message; /* 1: close the connection a message came from */
};

struct world {
    struct event_base *base;
    struct side chief, member;
    struct address at;
    int fds; /* open before the test */
};

HELPER void on_up(void *arg, int conn)
{
    struct side *side = arg;
    cr_assert_eq(conn, PEERS_CHIEF);
    side->ups++;
}

HELPER void on_message(void *arg, int conn, const char *from, const struct peermsg *msg)
{
    struct side *side = arg;
    side->conns[side->messages++ % HISTORY] = conn;
    side->last = *msg;
    if (side->close_on_message)
        peers_close(side->peers, conn);
}

HELPER void on_down(void *arg, int conn, const char *why, bool has_ended)
{
    struct side *side = arg;
    side->downs++;
    side->down_conn = conn;
    side->has_ended = has_ended;
    str_copy(side->why, sizeof side->why, why);
}

HELPER void side_init(struct world *world, struct side *side, const struct peers_options *limits)
{
    struct peers_options options = *limits;
    options.base = world->base;
    options.arg = side;
    options.on_up = on_up;
    options.on_message = on_message;
    options.on_down = on_down;
    options.silence_ns = 15 * NS_PER_S;
    side->peers = peers_new(&options);
    cr_assert(side->peers);
}

/* A chief that listens on 127.0.0.1 and a member that is not connected yet. */
HELPER void begin(struct world *world, const struct peers_options *limits)
{
    static const struct peers_options defaults;
    *world = (struct world){.fds = unit_count_fds()};
    world->base = event_base_new();
    side_init(world, &world->chief, limits ? limits : &defaults);
    side_init(world, &world->member, limits ? limits : &defaults);
    struct err err;
    world->at = (struct address){.host = "127.0.0.1"};
    cr_assert(peers_listen(world->chief.peers, &world->at, &err), "%s", err.text);
    world->at.port = peers_port(world->chief.peers);
    cr_assert_neq(world->at.port, 0);
}

HELPER void end(struct world *world)
{
    peers_free(world->chief.peers);
    peers_free(world->member.peers);
    event_base_free(world->base);
    /* The thread of an abandoned look-up closes its descriptor at some later time. */
    int64_t deadline = clock_now_ns() + UNIT_DEADLINE_MS * NS_PER_MS;
    while (unit_count_fds() > world->fds && clock_now_ns() < deadline)
        sched_yield();
    cr_assert_eq(unit_count_fds(), world->fds, "a descriptor was left open");
}

/* The pair of a test. */
static __attribute__((unused)) struct world w;

/* A test with a pair. It is not begun and ended by .init and .fini: Criterion counts no failure
 * there. */
#define PairTest(suite, name)         \
    static void suite##_##name(void); \
    Test(suite, name)                 \
    {                                 \
        begin(&w, NULL);              \
        suite##_##name();             \
        end(&w);                      \
    }                                 \
    static void suite##_##name(void)

/* Makes the pair anew, with these limits. */
HELPER void limit(struct peers_options limits)
{
    end(&w);
    begin(&w, &limits);
}

HELPER void on_too_late(evutil_socket_t fd, short what, void *arg)
{
    *(bool *)arg = true;
}

/* Runs the loop until `is_so`; false if that takes too long. */
#define run_until(world, is_so)                             \
    ({                                                      \
        bool late = false;                                  \
        struct event *too_late = run_start(world, &late);   \
        while (!(is_so) && !late)                           \
            event_base_loop((world)->base, EVLOOP_ONCE);    \
        event_free(too_late);                               \
        cr_assert(!late, "waited in vain for: %s", #is_so); \
    })

HELPER struct event *run_start(struct world *world, bool *late)
{
    struct event *guard = evtimer_new(world->base, on_too_late, late);
    struct timeval tv = {.tv_sec = UNIT_DEADLINE_MS / 1000};
    evtimer_add(guard, &tv);
    return guard;
}

/* Runs the loop until no event is active: all bytes in the sockets are handled. */
HELPER void run_dry(struct world *world)
{
    for (int i = 0; i < 20; i++)
        event_base_loop(world->base, EVLOOP_NONBLOCK);
}

HELPER struct peermsg hello(uint32_t node_rank)
{
    struct peermsg msg = {.type = PEERMSG_HELLO, .stamp = {.attempt = 1}};
    msg.hello.node_rank = node_rank;
    msg.hello.nnodes = 4;
    str_copy(msg.hello.job, sizeof msg.hello.job, "run7");
    return msg;
}

HELPER struct peermsg order(uint64_t seq)
{
    struct peermsg msg = {.type = PEERMSG_ORDER, .stamp = {.attempt = 1, .seq = seq}};
    str_copy(msg.order.why, sizeof msg.order.why, "because");
    return msg;
}

HELPER void send_order(struct world *world, uint64_t seq)
{
    struct peermsg msg = order(seq);
    peers_send(world->chief.peers, PEERS_FIRST, &msg);
}

/* Ends the side as a kill would. */
HELPER void goes(struct side *side)
{
    peers_free(side->peers);
    side->peers = NULL;
}

/* A new chief takes the place of the old one, and does not listen yet. */
HELPER void renew_chief(struct world *world)
{
    goes(&world->chief);
    side_init(world, &world->chief, &(struct peers_options){0});
}

/* Connects the member and lets the chief hear its HELLO. */
HELPER void join(struct world *world)
{
    int ups = world->member.ups, messages = world->chief.messages;
    peers_connect(world->member.peers, &world->at);
    run_until(world, world->member.ups > ups);
    struct peermsg msg = hello(1);
    peers_send(world->member.peers, PEERS_CHIEF, &msg);
    run_until(world, world->chief.messages > messages);
}

HELPER int last_conn(const struct side *side)
{
    return side->conns[(side->messages - 1) % HISTORY];
}

/* ---- a raw client ---- */

HELPER int raw_connect(struct world *world)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)world->at.port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_geq(fd, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

HELPER void raw_send(int fd, const void *data, size_t size)
{
    cr_assert_eq(send(fd, data, size, MSG_NOSIGNAL), (ssize_t)size);
}

HELPER void raw_send_msg(int fd, const struct peermsg *msg)
{
    uint8_t frame[FRAME_MAX];
    raw_send(fd, frame, peermsg_encode(msg, frame, sizeof frame));
}

HELPER void raw_hello(int fd, uint32_t node_rank)
{
    struct peermsg msg = hello(node_rank);
    raw_send_msg(fd, &msg);
}

/* A raw client whose HELLO the chief has read. */
HELPER int raw_join(struct world *world, uint32_t node_rank)
{
    int fd = raw_connect(world), messages = world->chief.messages;
    raw_hello(fd, node_rank);
    run_until(world, world->chief.messages > messages);
    return fd;
}

/* Has the other side closed? Reads and drops what comes. */
HELPER bool raw_is_closed(int fd)
{
    char ignored[65536];
    ssize_t n = recv(fd, ignored, sizeof ignored, MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN);
}
