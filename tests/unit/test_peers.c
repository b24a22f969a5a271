/* SPDX-License-Identifier: Apache-2.0
 *
 * peers over real sockets on loopback: both sides, or one side and a raw socket that misbehaves, in
 * one process and one loop. Nothing sleeps: each wait runs the loop until something has happened,
 * and fails after a deadline.
 */
#include "peerpair.h"

#include "net/resolve.h"
#include "net/stream.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <semaphore.h>
#include <sys/resource.h>

/* ---- names that answer as the tests want them to ---- */

static sem_t stuck_lookups; /* "stuck.test" waits for this semaphore */

static int fake_two_addresses(struct addrinfo **ret)
{
    static const struct addrinfo numeric = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
    struct addrinfo *first, *second;
    if (getaddrinfo("127.0.0.2", NULL, &numeric, &first) != 0 ||
        getaddrinfo("127.0.0.1", NULL, &numeric, &second) != 0)
        return EAI_FAIL;
    first->ai_next = second; /* freed node by node, so two lists are one */
    *ret = first;
    return 0;
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    bool is_lookup = node && !(hints && hints->ai_flags & AI_NUMERICHOST);
    if (is_lookup && strcmp(node, "stuck.test") == 0)
        while (sem_wait(&stuck_lookups) != 0)
            ;
    if (is_lookup && strcmp(node, "two.test") == 0)
        return fake_two_addresses(ret);
    if (is_lookup && strcmp(node, "localhost") != 0)
        return EAI_NONAME;
    return real(node, service, hints, ret);
}

/* ---- the tests ---- */

PairTest(peers, messages_go_both_ways)
{
    join(&w);
    cr_assert_eq(last_conn(&w.chief), PEERS_FIRST);
    cr_assert_eq(w.chief.last.type, PEERMSG_HELLO);
    cr_assert_str_eq(w.chief.last.hello.job, "run7");
    cr_assert_eq(w.chief.last.hello.node_rank, 1);
    send_order(&w, 77);
    run_until(&w, w.member.messages == 1);
    cr_assert_eq(last_conn(&w.member), PEERS_CHIEF);
    cr_assert_eq(w.member.last.stamp.seq, 77);
    cr_assert_str_eq(w.member.last.order.why, "because");
    cr_assert_eq(w.chief.downs + w.member.downs, 0);
}

static int count_timers(const struct event_base *base, const struct event *event, void *arg)
{
    *(int *)arg += event_pending(event, EV_TIMEOUT, NULL) ? 1 : 0;
    return 0;
}

/* A supervisor that waits must not wake up. */
PairTest(peers, idle_connection_needs_no_timer)
{
    join(&w);
    run_dry(&w);
    int timers = 0;
    event_base_foreach_event(w.base, count_timers, &timers);
    cr_assert_eq(timers, 0);
}

PairTest(peers, every_descriptor_is_close_on_exec_and_non_blocking)
{
    join(&w);
    int sockets = 0;
    for (int fd = 3; fd < 256; fd++) {
        int type;
        socklen_t size = sizeof type;
        if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &type, &size) != 0 || type != IPPROTO_TCP)
            continue;
        sockets++;
        cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        cr_assert(fcntl(fd, F_GETFL) & O_NONBLOCK);
    }
    cr_assert_eq(sockets, 3, "listener and both ends; found %d", sockets);
}

static int get_option(int fd, int level, int name)
{
    int value = -1;
    socklen_t size = sizeof value;
    cr_assert_eq(getsockopt(fd, level, name, &value, &size), 0);
    return value;
}

PairTest(peers, sockets_are_tuned)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    stream_tune(fd, 15 * NS_PER_S);
    cr_assert_neq(get_option(fd, IPPROTO_TCP, TCP_NODELAY), 0);
    cr_assert_neq(get_option(fd, SOL_SOCKET, SO_KEEPALIVE), 0);
    cr_assert_eq(get_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 15000);
    cr_assert_eq(get_option(fd, IPPROTO_TCP, TCP_KEEPIDLE), 5);
    cr_assert_eq(get_option(fd, IPPROTO_TCP, TCP_KEEPINTVL), 5);
    cr_assert_eq(get_option(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS), 1);
    int rto_max_ms;
    socklen_t rto_size = sizeof rto_max_ms;
    if (getsockopt(fd, IPPROTO_TCP, 44, &rto_max_ms, &rto_size) == 0) /* TCP_RTO_MAX_MS */
        cr_assert_eq(rto_max_ms, 1000);
    char control[16] = "";
    socklen_t size = sizeof control;
    cr_assert_eq(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control, &size), 0);
    cr_assert_str_eq(control, "reno");
    close(fd);
}

PairTest(peers, frame_may_come_byte_by_byte)
{
    int fd = raw_connect(&w);
    struct peermsg msg = hello(3);
    uint8_t frame[FRAME_MAX];
    size_t size = peermsg_encode(&msg, frame, sizeof frame);
    for (size_t i = 0; i < size; i++) {
        cr_assert_eq(w.chief.messages, 0);
        raw_send(fd, &frame[i], 1);
        run_dry(&w);
    }
    run_until(&w, w.chief.messages == 1);
    cr_assert_eq(w.chief.last.hello.node_rank, 3);
    close(fd);
    run_until(&w, w.chief.downs == 1);
    cr_assert(strstr(w.chief.why, "closed by the other side"), "%s", w.chief.why);
}

PairTest(peers, several_frames_in_one_packet)
{
    int fd = raw_connect(&w);
    uint8_t bytes[4 * FRAME_MAX];
    struct peermsg msg = hello(3);
    size_t size = peermsg_encode(&msg, bytes, FRAME_MAX);
    for (unsigned i = 1; i <= 40; i++) {
        msg = (struct peermsg){.type = PEERMSG_STATUS, .stamp = {.seq = i}};
        size += peermsg_encode(&msg, bytes + size, sizeof bytes - size);
    }
    raw_send(fd, bytes, size - 5);
    run_until(&w, w.chief.messages == 40);
    cr_assert_eq(w.chief.last.stamp.seq, 39);
    raw_send(fd, bytes + size - 5, 5);
    run_until(&w, w.chief.messages == 41);
    cr_assert_eq(w.chief.last.stamp.seq, 40);
    close(fd);
    run_until(&w, w.chief.downs == 1);
}

/* Strangers are disconnected; the owner of peers does not learn of them. */
PairTest(peers, garbage_is_closed_in_silence)
{
    static const char *const said[] = {"GET / HTTP/1.1\r\n\r\n", "C", "CPxxxxxxxxxxxxxxx"};
    for (size_t i = 0; i < ARRAY_LEN(said); i++) {
        int fd = raw_connect(&w);
        raw_send(fd, said[i], strlen(said[i]));
        if (strlen(said[i]) == 1) { /* a possible beginning: not yet closed */
            run_dry(&w);
            cr_assert(!raw_is_closed(fd));
            raw_send(fd, "X", 1);
        }
        run_until(&w, raw_is_closed(fd));
        close(fd);
    }
    cr_assert_eq(w.chief.messages + w.chief.downs, 0);
}

PairTest(peers, random_bytes_never_crash)
{
    srandom(42);
    for (int i = 0; i < 200; i++) {
        uint8_t noise[600];
        for (size_t j = 0; j < sizeof noise; j++)
            noise[j] = (uint8_t)random();
        frame_header(FRAME_PEER, PEERMSG_VERSION, (uint8_t)(random() % 8),
                     (uint32_t)(random() % 500), noise);
        int fd = raw_connect(&w);
        raw_hello(fd, 1);
        raw_send(fd, noise, sizeof noise);
        run_until(&w, w.chief.downs == i + 1);
        close(fd);
    }
    join(&w); /* and the chief still works */
}

/* After a peer's HELLO its end is reported. */
static void expect_down(const void *bytes, size_t size, const char *why)
{
    limit((struct peers_options){0});
    int fd = raw_join(&w, 2);
    raw_send(fd, bytes, size);
    run_until(&w, raw_is_closed(fd));
    run_until(&w, w.chief.downs == 1);
    cr_assert(strstr(w.chief.why, why), "'%s' does not say '%s'", w.chief.why, why);
    cr_assert(str_starts(w.chief.why, "127.0.0.1:"), "%s", w.chief.why);
    cr_assert_eq(w.chief.down_conn, PEERS_FIRST);
    cr_assert_eq(w.chief.messages, 1);
    close(fd);
}

PairTest(peers, oversized_message_is_refused_by_its_header)
{
    uint8_t header[FRAME_HEADER_BYTES];
    frame_header(FRAME_PEER, PEERMSG_VERSION, PEERMSG_STATUS, 1u << 30, header);
    expect_down(header, sizeof header, "sent a message of 1073741824 bytes, more than 8192");
}

PairTest(peers, malformed_message_ends_the_connection)
{
    uint8_t frame[FRAME_HEADER_BYTES + 3] = {0};
    frame_header(FRAME_PEER, PEERMSG_VERSION, PEERMSG_STATUS, 3, frame);
    expect_down(frame, sizeof frame,
                "sent a malformed message (STATUS, type 4, 3 bytes): it ends too early");
}

PairTest(peers, what_is_wrong_with_a_message_is_said)
{
    uint8_t frame[FRAME_MAX + 1] = {0};
    struct peermsg msg = {.type = PEERMSG_STATUS, .status = {.life = LIFE_DONE + 1}};
    size_t size = peermsg_encode(&msg, frame, sizeof frame);
    expect_down(frame, size, "a field is out of its range");
    msg.status.life = LIFE_GONE;
    size = peermsg_encode(&msg, frame, sizeof frame) + 1;
    frame_header(FRAME_PEER, PEERMSG_VERSION, PEERMSG_STATUS, (uint32_t)size - FRAME_HEADER_BYTES,
                 frame);
    expect_down(frame, size, "it has bytes after its fields");
    frame_header(FRAME_PEER, PEERMSG_VERSION, 99, 0, frame);
    expect_down(frame, FRAME_HEADER_BYTES, "there is no such type");
    expect_down((const uint8_t *)"GET / HTTP/1.1\r\n", 16, "it began with \"GET / HTTP/1.1\"");
    expect_down((const uint8_t *)"\x01\x02\x03", 3,
                "it began with the bytes 01 02 03; a message begins with 43 50");
}

PairTest(peers, another_version_is_named)
{
    uint8_t header[FRAME_HEADER_BYTES];
    frame_header(FRAME_PEER, PEERMSG_VERSION + 1, PEERMSG_STATUS, 0, header);
    expect_down(header, sizeof header, "speaks version 16 of the protocol, this pchrun speaks 15");
}

PairTest(peers, member_may_not_give_orders)
{
    uint8_t frame[FRAME_MAX];
    struct peermsg msg = order(1);
    expect_down(frame, peermsg_encode(&msg, frame, sizeof frame),
                "sent ORDER, which it must not send");
}

PairTest(peers, first_message_must_be_hello)
{
    int fd = raw_connect(&w);
    struct peermsg msg = {.type = PEERMSG_STATUS};
    raw_send_msg(fd, &msg);
    run_until(&w, raw_is_closed(fd));
    cr_assert_eq(w.chief.messages + w.chief.downs, 0);
    close(fd);
}

/* A node of another version gets as far as being refused by name. */
PairTest(peers, hello_of_another_version_is_passed_on)
{
    int fd = raw_connect(&w);
    uint8_t header[FRAME_HEADER_BYTES];
    frame_header(FRAME_PEER, PEERMSG_VERSION + 1, PEERMSG_HELLO, 0, header);
    raw_send(fd, header, sizeof header);
    run_until(&w, w.chief.messages == 1);
    cr_assert_eq(w.chief.last.type, PEERMSG_HELLO);
    cr_assert_str_empty(w.chief.last.hello.job);
    close(fd);
    run_until(&w, w.chief.downs == 1);
}

PairTest(peers, silent_stranger_is_closed_after_its_deadline)
{
    limit((struct peers_options){.hello_wait_ns = 50 * NS_PER_MS});
    int fd = raw_connect(&w);
    int64_t start = clock_now_ns();
    run_until(&w, raw_is_closed(fd));
    cr_assert_geq(clock_now_ns() - start, 40 * NS_PER_MS);
    cr_assert_eq(w.chief.downs, 0);
    close(fd);
}

/* Above the limit the oldest strangers are evicted; a member behind them need not wait. */
PairTest(peers, strangers_are_limited)
{
    enum { ALLOWED = 3, COME = 20 };
    limit((struct peers_options){.guests_max = ALLOWED});
    int fds[COME];
    int before = unit_count_fds();
    for (size_t i = 0; i < COME; i++)
        fds[i] = raw_connect(&w);
    run_until(&w, raw_is_closed(fds[COME - ALLOWED - 1]));
    cr_assert_eq(unit_count_fds() - before - COME, ALLOWED);
    join(&w);
    for (size_t i = 0; i < COME; i++)
        close(fds[i]);
}

PairTest(peers, second_hello_ends_the_connection)
{
    int fd = raw_join(&w, 2);
    raw_hello(fd, 1);
    run_until(&w, w.chief.downs == 1);
    cr_assert_eq(w.chief.messages, 1);
    cr_assert(strstr(w.chief.why, "sent HELLO a second time"), "%s", w.chief.why);
    close(fd);
}

PairTest(peers, who_does_not_read_is_given_up)
{
    int fd = raw_join(&w, 2);
    uint64_t sent = 0;
    while (w.chief.downs == 0 && sent < 1000000) {
        send_order(&w, ++sent);
        if (sent % 100 == 0)
            run_dry(&w);
    }
    cr_assert_eq(w.chief.downs, 1, "%" PRIu64 " messages were taken", sent);
    cr_assert(strstr(w.chief.why, "does not read"), "%s", w.chief.why);
    /* A message to the member from now on is dropped, and nothing more is reported. */
    send_order(&w, sent);
    run_dry(&w);
    cr_assert_eq(w.chief.downs, 1);
    close(fd);
}

/* The number of bytes that have come, and the last `size` of them. */
struct tail {
    size_t got, size;
    char last[1024];
};

static void drain(evutil_socket_t fd, short what, void *ctx)
{
    static char data[1024 + 65536];
    struct tail *tail = ctx;
    ssize_t n;
    (void)what;
    while ((n = recv(fd, data + tail->size, 65536, MSG_DONTWAIT)) > 0) {
        tail->got += (size_t)n;
        memcpy(data, tail->last, tail->size);
        memcpy(tail->last, data + n, tail->size);
    }
}

/* A slow reader that catches up loses nothing. */
PairTest(peers, queue_is_sent_when_there_is_room)
{
    limit((struct peers_options){.queue_max = 64 * 1024 * 1024});
    int fd = raw_join(&w, 2);
    enum { COUNT = 100000 }; /* more than the kernel takes */
    uint8_t frame[FRAME_MAX];
    size_t size = 0;
    for (uint64_t i = 1; i <= COUNT; i++) {
        struct peermsg msg = order(i);
        size = peermsg_encode(&msg, frame, sizeof frame);
        peers_send(w.chief.peers, PEERS_FIRST, &msg);
    }
    struct tail tail = {.size = size};
    struct event *reader = event_new(w.base, fd, EV_READ | EV_PERSIST, drain, &tail);
    event_add(reader, NULL);
    run_until(&w, tail.got >= COUNT * size);
    event_free(reader);
    cr_assert_eq(tail.got, COUNT * size);
    cr_assert_arr_eq(tail.last, frame, size);
    cr_assert_eq(w.chief.downs, 0);
    close(fd);
    run_until(&w, w.chief.downs == 1);
}

PairTest(peers, numbers_are_not_used_twice)
{
    for (int i = 0; i < 5; i++) {
        join(&w);
        cr_assert_eq(last_conn(&w.chief), PEERS_FIRST + i);
        if (i % 2 == 0)
            peers_close(w.chief.peers, PEERS_FIRST + i);
        else
            peers_close(w.member.peers, PEERS_CHIEF);
        const struct side *other = i % 2 == 0 ? &w.member : &w.chief;
        run_until(&w, other->downs == i / 2 + 1);
    }
    cr_assert_eq(w.member.down_conn, PEERS_CHIEF);
}

/* Messages sent before the close arrive, although the other side was sending, too. A close with
 * unread bytes would have reset the connection, and lost our last messages. */
PairTest(peers, last_words_arrive)
{
    join(&w);
    struct peermsg status = {.type = PEERMSG_STATUS};
    for (int i = 0; i < 200; i++)
        peers_send(w.member.peers, PEERS_CHIEF, &status);
    for (uint64_t i = 1; i <= 100; i++)
        send_order(&w, i);
    int heard = w.chief.messages;
    peers_close(w.chief.peers, PEERS_FIRST);
    run_until(&w, w.member.downs == 1);
    cr_assert_eq(w.member.messages, 100);
    cr_assert_eq(w.member.last.stamp.seq, 100);
    cr_assert(strstr(w.member.why, "closed by the other side"), "%s", w.member.why);
    cr_assert_eq(w.chief.messages, heard, "a closed connection spoke");
    cr_assert_eq(w.chief.downs, 0);
}

/* On 127.0.0.1, by hand. */
static int raw_listen(int backlog, struct sockaddr_in *at, struct address *ret)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = sizeof *at;
    *at = (struct sockaddr_in){.sin_family = AF_INET};
    at->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    cr_assert_eq(bind(fd, (struct sockaddr *)at, sizeof *at), 0);
    cr_assert_eq(listen(fd, backlog), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)at, &size), 0);
    *ret = (struct address){.host = "127.0.0.1", .port = ntohs(at->sin_port)};
    return fd;
}

/* The chief drops new connections for a while. The next attempt finds it again, and not a
 * repetition by the kernel after more than a second. */
PairTest(peers, a_chief_that_was_reached_is_tried_again_soon)
{
    limit((struct peers_options){.connect_wait_ns = 60 * NS_PER_S,
                                 .reconnect_wait_ns = 100 * NS_PER_MS});
    struct sockaddr_in at;
    struct address there;
    int fds[4], listening = raw_listen(0, &at, &there);
    peers_connect(w.member.peers, &there);
    run_until(&w, w.member.ups == 1);
    int fd = accept(listening, NULL, NULL);
    close(fd);
    run_until(&w, w.member.downs == 1);
    for (int i = 0; i < 4; i++) { /* the queue of the member is full, and the kernel takes no more
                                   * from it */
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        connect(fds[i], (struct sockaddr *)&at, sizeof at);
    }
    int64_t start = clock_now_ns();
    peers_connect(w.member.peers, &there);
    run_until(&w, w.member.downs == 2);
    cr_assert_lt(clock_now_ns() - start, 30 * NS_PER_S);
    cr_assert(strstr(w.member.why, strerror(ETIMEDOUT)), "%s", w.member.why);
    for (int i = 0; i < 4; i++)
        close(fds[i]);
    close(listening);
}

/* The other side is gone, but what it said last is still read. */
PairTest(peers, refusal_is_read_though_sending_fails)
{
    struct sockaddr_in at;
    struct address there;
    int listening = raw_listen(1, &at, &there);
    peers_connect(w.member.peers, &there);
    run_until(&w, w.member.ups == 1);
    int fd = accept(listening, NULL, NULL);
    struct peermsg msg = {.type = PEERMSG_REFUSED};
    str_copy(msg.refused.why, sizeof msg.refused.why, "the job is another");
    raw_send_msg(fd, &msg);
    close(fd);
    /* The first send meets a closed socket and is answered by a reset, the next ones fail. */
    msg = hello(1);
    for (int i = 0; i < 3; i++)
        peers_send(w.member.peers, PEERS_CHIEF, &msg);
    run_until(&w, w.member.downs == 1);
    cr_assert_eq(w.member.messages, 1);
    cr_assert_str_eq(w.member.last.refused.why, "the job is another");
    close(listening);
}

PairTest(peers, close_from_within_a_callback)
{
    w.chief.close_on_message = 1;
    int fd = raw_connect(&w);
    raw_hello(fd, 2);
    raw_hello(fd, 2);
    run_until(&w, raw_is_closed(fd));
    cr_assert_eq(w.chief.messages, 1);
    close(fd);
    run_dry(&w);
    cr_assert_eq(w.chief.downs, 0);
}

/* The other side neither reads nor closes: the deadline ends the connection. */
PairTest(peers, finish_has_a_deadline)
{
    limit((struct peers_options){.close_wait_ns = 100 * NS_PER_MS, .queue_max = 32 << 20});
    int fd = raw_join(&w, 2);
    for (int i = 0; i < 50000; i++)
        send_order(&w, 1);
    int64_t start = clock_now_ns();
    peers_finish(w.chief.peers);
    cr_assert(peers_is_busy(w.chief.peers));
    run_until(&w, !peers_is_busy(w.chief.peers));
    cr_assert_geq(clock_now_ns() - start, 90 * NS_PER_MS);
    cr_assert_eq(w.chief.downs, 0);
    close(fd);
}

PairTest(peers, finish_is_at_once_when_the_other_side_closes)
{
    join(&w);
    int stranger = raw_connect(&w);
    run_dry(&w);
    send_order(&w, 1);
    int64_t start = clock_now_ns();
    peers_finish(w.chief.peers);
    run_until(&w, !peers_is_busy(w.chief.peers));
    cr_assert_lt(clock_now_ns() - start, 3 * NS_PER_S);
    run_until(&w, w.member.downs == 1);
    cr_assert_eq(w.member.messages, 1);
    /* Nothing to close, nothing to wait for. */
    peers_finish(w.member.peers);
    run_until(&w, !peers_is_busy(w.member.peers));
    close(stranger);
}

PairTest(peers, nobody_listens)
{
    goes(&w.chief);
    for (int i = 1; i <= 3; i++) {
        peers_connect(w.member.peers, &w.at);
        cr_assert_eq(w.member.downs, i - 1, "told from within the call");
        run_until(&w, w.member.downs == i);
    }
    char expected[100];
    snprintf(expected, sizeof expected, "cannot connect to 127.0.0.1:%d: Connection refused",
             w.at.port);
    cr_assert_str_eq(w.member.why, expected);
    cr_assert_eq(w.member.down_conn, PEERS_CHIEF);
}

PairTest(peers, connecting_again_forgets_the_first)
{
    join(&w);
    join(&w);
    run_until(&w, w.chief.downs == 1);
    cr_assert_eq(w.chief.down_conn, PEERS_FIRST);
    cr_assert_eq(w.member.downs, 0);
    struct peermsg msg = {.type = PEERMSG_BYE};
    peers_send(w.member.peers, PEERS_CHIEF, &msg);
    run_until(&w, w.chief.last.type == PEERMSG_BYE);
    cr_assert_eq(last_conn(&w.chief), PEERS_FIRST + 1);
}

PairTest(peers, unknown_name_is_an_error)
{
    struct address where = {.host = "n7.test", .port = 1};
    peers_connect(w.member.peers, &where);
    run_until(&w, w.member.downs == 1);
    cr_assert_str_eq(w.member.why, "cannot look up 'n7.test': Name or service not known");
    struct err err;
    renew_chief(&w);
    cr_assert(!peers_listen(w.chief.peers, &where, &err));
    cr_assert_str_eq(err.text,
                     "cannot listen: cannot look up 'n7.test': Name or service not known");
}

/* The first address refuses, the second answers. */
PairTest(peers, every_address_of_a_name_is_tried)
{
    str_copy(w.at.host, sizeof w.at.host, "two.test");
    join(&w);
    cr_assert_eq(w.member.downs, 0);
    renew_chief(&w);
    run_until(&w, w.member.downs == 1);
    peers_connect(w.member.peers, &w.at);
    run_until(&w, w.member.downs == 2);
    char expected[120];
    snprintf(expected, sizeof expected,
             "cannot connect to two.test (127.0.0.1:%d): Connection refused", w.at.port);
    cr_assert_str_eq(w.member.why, expected);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    ++*(int *)arg;
}

/* A name server that does not answer holds up nothing, and is given up. */
PairTest(peers, stuck_name_server)
{
    sem_init(&stuck_lookups, 0, 0);
    limit((struct peers_options){.connect_wait_ns = UNIT_DEADLINE_MS * NS_PER_MS});
    int ticks = 0;
    struct event *tick = event_new(w.base, -1, EV_PERSIST, on_tick, &ticks);
    struct timeval tv = {.tv_usec = 10000};
    event_add(tick, &tv);
    struct address where = {.host = "stuck.test", .port = 1};
    peers_connect(w.member.peers, &where);
    run_until(&w, ticks == 3);
    cr_assert_eq(w.member.downs, 0);
    event_free(tick);
    sem_post(&stuck_lookups);
    limit((struct peers_options){.connect_wait_ns = 500 * NS_PER_MS});
    peers_connect(w.member.peers, &where);
    run_until(&w, w.member.downs == 1);
    cr_assert_str_eq(w.member.why, "cannot look up 'stuck.test': no answer within 500ms");
    /* Look-ups that never return are counted: their threads cannot pile up. */
    struct err err = {0};
    for (int i = 1; i < RESOLVE_THREADS_MAX; i++) {
        int fd = resolve_start(&where, &err);
        cr_assert_geq(fd, 0, "%s", err.text);
        close(fd);
    }
    cr_assert_lt(resolve_start(&where, &err), 0);
    cr_assert(strstr(err.text, "16 earlier look-ups have not returned"), "%s", err.text);
    peers_connect(w.member.peers, &where);
    run_until(&w, w.member.downs == 2);
    /* When they return their threads end, and the next look-up is possible. */
    for (int i = 0; i < RESOLVE_THREADS_MAX; i++)
        sem_post(&stuck_lookups);
    int64_t deadline = clock_now_ns() + UNIT_DEADLINE_MS * NS_PER_MS;
    struct address localhost = {.host = "localhost", .port = 1};
    struct netaddr_list list;
    while (!resolve_wait(&localhost, NS_PER_S, &list, &err))
        cr_assert_lt(clock_now_ns(), deadline, "%s", err.text);
    cr_assert(netaddr_is_loopback(&list.all[0]));
}

PairTest(peers, port_in_use_names_its_holder)
{
    struct err err;
    cr_assert(!peers_listen(w.member.peers, &w.at, &err));
    char expected[64];
    snprintf(expected, sizeof expected, "127.0.0.1:%d: the port is in use; pid %d (", w.at.port,
             getpid());
    cr_assert(strstr(err.text, expected), "'%s' does not say '%s'", err.text, expected);
    cr_assert(strstr(err.text, "set another port by cluster.port or in cluster.nodes"));
}

PairTest(peers, address_of_another_machine_cannot_be_bound)
{
    struct err err;
    struct address where = {.host = "203.0.113.1", .port = 14242};
    cr_assert(!peers_listen(w.member.peers, &where, &err));
    cr_assert(strstr(err.text, "203.0.113.1:14242: this machine does not have that address"), "%s",
              err.text);
}

PairTest(peers, ipv6)
{
    renew_chief(&w);
    struct err err;
    w.at = (struct address){.host = "::1"};
    if (!peers_listen(w.chief.peers, &w.at, &err))
        cr_skip_test("no IPv6 here: %s", err.text);
    w.at.port = peers_port(w.chief.peers);
    join(&w);
    cr_assert_eq(w.chief.last.hello.node_rank, 1);
    peers_connect(w.member.peers, &(struct address){.host = "::1", .port = 1});
    run_until(&w, w.member.downs == 1);
    cr_assert_str_eq(w.member.why, "cannot connect to [::1]:1: Connection refused");
}

/* Descriptors run out: peers does not spin, and accepts waiting connections when there are some
 * again. */
PairTest(peers, out_of_descriptors)
{
    const char *preload = getenv("LD_PRELOAD");
    if (preload && strstr(preload, "vgpreload"))
        cr_skip_test("valgrind plays this limit: it accepts, and closes what it has accepted");
    limit((struct peers_options){.accept_retry_ns = 20 * NS_PER_MS});
    struct rlimit old, low;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
    int fd = raw_connect(&w);
    raw_hello(fd, 2);
    int spare = dup(fd); /* the lowest number that is free */
    close(spare);
    low = (struct rlimit){.rlim_cur = (rlim_t)spare, .rlim_max = old.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
    int passes = 0;
    int64_t until = clock_now_ns() + 200 * NS_PER_MS;
    struct event *guard = evtimer_new(w.base, on_tick, &passes);
    struct timeval tv = {.tv_usec = 210000};
    evtimer_add(guard, &tv);
    while (clock_now_ns() < until) {
        event_base_loop(w.base, EVLOOP_ONCE);
        passes++;
    }
    event_free(guard);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &old), 0, "%s", strerror(errno));
    cr_assert_eq(w.chief.messages, 0);
    cr_assert_lt(passes, 60, "the loop spun: %d passes", passes);
    run_until(&w, w.chief.messages == 1);
    close(fd);
    run_until(&w, w.chief.downs == 1);
}

/* Freed in every state: the sanitizers look for what is left. */
PairTest(peers, free_at_any_time)
{
    sem_init(&stuck_lookups, 0, 0);
    join(&w);
    int fd = raw_connect(&w);
    run_dry(&w);
    peers_close(w.chief.peers, PEERS_FIRST);
    peers_connect(w.member.peers, &w.at);
    close(fd);
    limit((struct peers_options){0});
    peers_connect(w.member.peers, &(struct address){.host = "stuck.test", .port = 1});
    goes(&w.member);
    sem_post(&stuck_lookups);
}
