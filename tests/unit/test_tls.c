/* SPDX-License-Identifier: Apache-2.0
 *
 * tls, below real connections (conn) and alone: both ends in one process, and a wire between them
 * that the test can bend. Nothing sleeps: each wait runs the loop until something has happened, and
 * fails after a deadline.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "net/tls.h"
#include "peers/conn.h"
#include "unit.h"

#include <event2/event.h>
#include <stdio.h>
#include <sys/socket.h>

enum { MEMBER, CHIEF, ENDS };

static const struct key first_key = {.bytes = {1, 2, 3}}, second_key = {.bytes = {1, 2, 4}};

static struct tls *tls_of(const struct key *key, const char *job)
{
    struct err err;
    struct tls *tls = tls_new(key, job, &err);
    cr_assert(tls, "%s", err.text);
    return tls;
}

static struct tls *ours(void)
{
    return tls_of(&first_key, "run7");
}

static void make_pair(int ret[2])
{
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ret), 0);
}

/* ---- the secret ---- */

/* HMAC-SHA256(key, "pchrun/1 tls13 sha256 member to chief " job 0x01), by another program. */
Test(tls, secret_is_derived_as_the_manual_says)
{
    static const struct {
        const char *job, *secret;
    } rows[] = {
        {"run7", "c4eefd059bc11860c30b461588bf299bfea06e976b5d9074f5a167594e3904eb"},
        {"pchrun", "4cd4c730bd6902cf55cf77f5627e6a89eaa165f1a2bd5f2f4bc32c13a9adff5b"},
    };
    struct key key;
    struct err err;
    for (size_t i = 0; i < sizeof key.bytes; i++)
        key.bytes[i] = (uint8_t)i;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint8_t secret[TLS_SECRET_BYTES];
        char text[2 * sizeof secret + 1] = "";
        cr_assert(tls_secret(&key, rows[i].job, secret, &err), "%s", err.text);
        for (size_t b = 0; b < sizeof secret; b++)
            str_addf(text, sizeof text, "%02x", secret[b]);
        cr_expect_str_eq(text, rows[i].secret);
    }
}

/* ---- connections ---- */

struct end {
    struct conn *conn;
    struct conn_rules rules;
    bool greets; /* sends HELLO as soon as it may */
    int ups, messages, broken;
    uint64_t seq; /* of the last message; they come in order */
};

struct world {
    struct event_base *base;
    struct end ends[ENDS];
    int fds; /* open before the test */
};

static const struct peermsg hello = {.type = PEERMSG_HELLO, .stamp = {.attempt = 1}};

static void on_up(struct conn *conn)
{
    struct end *end = conn->owner;
    end->ups++;
    if (end->greets)
        conn_send(conn, &hello);
}

static void on_message(struct conn *conn, const struct peermsg *msg)
{
    struct end *end = conn->owner;
    end->messages++;
    if (msg->type != PEERMSG_HELLO && msg->type != PEERMSG_REFUSED)
        cr_assert_eq(msg->stamp.seq, ++end->seq);
}

static void on_broken(struct conn *conn)
{
    struct end *end = conn->owner;
    end->broken++;
}

static const union netaddr nowhere = {.v4 = {.sin_family = AF_INET}};

static struct conn_rules rules_with(struct event_base *base, struct tls *tls)
{
    return (struct conn_rules){.base = base,
                               .tls = tls,
                               .queue_max = 16 * 1024 * 1024,
                               .handshake_wait_ns = 60 * NS_PER_S,
                               .hello_wait_ns = 60 * NS_PER_S,
                               .close_wait_ns = 60 * NS_PER_S,
                               .on_up = on_up,
                               .on_message = on_message,
                               .on_broken = on_broken};
}

/* Either key may be NULL: that side has none. */
static void begin(struct world *world, struct tls *member, struct tls *chief)
{
    struct tls *tls[ENDS] = {[MEMBER] = member, [CHIEF] = chief};
    int fds[ENDS];
    *world = (struct world){.fds = unit_count_fds()};
    world->base = event_base_new();
    make_pair(fds);
    for (int i = 0; i < ENDS; i++) {
        struct end *end = &world->ends[i];
        end->rules = rules_with(world->base, tls[i]);
        end->conn = conn_new(&end->rules, fds[i], &nowhere, i == MEMBER);
        cr_assert(end->conn);
        end->conn->owner = end;
    }
    for (int i = 0; i < ENDS; i++)
        conn_start(world->ends[i].conn);
}

static void end(struct world *world)
{
    for (int i = 0; i < ENDS; i++) {
        conn_free(world->ends[i].conn);
        tls_free(world->ends[i].rules.tls);
    }
    event_base_free(world->base);
    cr_assert_eq(unit_count_fds(), world->fds, "a descriptor was left open");
}

/* Runs the loop until `is_so`; fails if that takes too long. */
#define run_until(world, is_so)                                                 \
    do {                                                                        \
        int64_t deadline = clock_now_ns() + UNIT_DEADLINE_MS * NS_PER_MS;       \
        while (!(is_so)) {                                                      \
            cr_assert(clock_now_ns() < deadline, "waited in vain: %s", #is_so); \
            event_base_loop((world)->base, EVLOOP_NONBLOCK);                    \
        }                                                                       \
    } while (0)

static void say_hello(struct world *world)
{
    run_until(world, world->ends[MEMBER].ups == 1);
    conn_send(world->ends[MEMBER].conn, &hello);
    run_until(world, world->ends[CHIEF].messages == 1);
}

static void send_orders(struct world *world, int n)
{
    struct peermsg msg = {.type = PEERMSG_ORDER, .stamp = {.attempt = 1}};
    memset(msg.order.why, 'x', sizeof msg.order.why - 1);
    for (int i = 0; i < n; i++) {
        msg.stamp.seq++;
        conn_send(world->ends[CHIEF].conn, &msg);
    }
}

static struct world w;

/* A test of two ends with one key, which have shaken hands and said HELLO. */
#define KeyTest(name)              \
    static void of_##name(void);   \
    Test(tls, name)                \
    {                              \
        begin(&w, ours(), ours()); \
        say_hello(&w);             \
        of_##name();               \
        end(&w);                   \
    }                              \
    static void of_##name(void)

/* Sends far more than the sockets hold, in records larger than one read takes. */
KeyTest(much_is_sent_at_once)
{
    enum { MANY = 5000 };
    send_orders(&w, MANY);
    struct peermsg msg = {.type = PEERMSG_STATUS, .stamp = {.attempt = 1}};
    for (int i = 0; i < MANY; i++) {
        msg.stamp.seq++;
        conn_send(w.ends[MEMBER].conn, &msg);
    }
    cr_assert_gt(buf_len(&w.ends[CHIEF].conn->out), 0, "this is not much");
    run_until(&w, w.ends[MEMBER].messages == MANY && w.ends[CHIEF].messages == 1 + MANY);
}

/* The HELLO comes with the last bytes of the handshake, and nothing afterwards wakes the chief. */
Test(tls, a_hello_that_is_said_at_once_is_heard)
{
    begin(&w, ours(), ours());
    w.ends[MEMBER].greets = true;
    run_until(&w, w.ends[CHIEF].messages == 1);
    end(&w);
}

KeyTest(last_words_arrive)
{
    send_orders(&w, 1000);
    conn_close(w.ends[CHIEF].conn);
    run_until(&w, w.ends[MEMBER].broken && w.ends[CHIEF].broken);
    cr_assert_eq(w.ends[MEMBER].messages, 1000);
    cr_assert_str_eq(w.ends[MEMBER].conn->why, "0.0.0.0: closed by the other side");
    cr_assert_str_eq(w.ends[CHIEF].conn->why, "");
}

/* A killed node says nothing: that is a lost connection, as without a key. */
KeyTest(end_without_a_word)
{
    shutdown(w.ends[CHIEF].conn->stream.fd, SHUT_RDWR);
    run_until(&w, w.ends[MEMBER].broken);
    cr_assert_str_eq(w.ends[MEMBER].conn->why, "0.0.0.0: closed by the other side");
}

/* A chief that refuses closes before the member's next send. The refusal counts, not the failed
 * send. */
KeyTest(what_was_said_is_read_though_sending_fails)
{
    event_del(&w.ends[MEMBER].conn->readable);
    send_orders(&w, 3);
    shutdown(w.ends[CHIEF].conn->stream.fd, SHUT_RDWR);
    struct peermsg msg = {.type = PEERMSG_STATUS, .stamp = {.attempt = 1}};
    conn_send(w.ends[MEMBER].conn, &msg);
    cr_assert(strstr(w.ends[MEMBER].conn->why, "cannot write"), "%s", w.ends[MEMBER].conn->why);
    event_add(&w.ends[MEMBER].conn->readable, NULL);
    run_until(&w, w.ends[MEMBER].broken);
    cr_assert_eq(w.ends[MEMBER].messages, 3);
}

/* Pages of files that are resident (proc(5), statm). */
static long file_pages(void)
{
    long size, resident, shared;
    FILE *file = fopen("/proc/self/statm", "re");
    cr_assert(file && fscanf(file, "%ld %ld %ld", &size, &resident, &shared) == 3);
    fclose(file);
    return shared;
}

/* The memory of the handshake is given back: more than a megabyte. Memory for messages, and for the
 * next handshake, is taken again. */
KeyTest(memory_is_given_back_at_rest)
{
    long before = file_pages();
    tls_rest(w.ends[MEMBER].rules.tls);
    send_orders(&w, 10);
    run_until(&w, w.ends[MEMBER].messages == 10);
    cr_expect_gt(before - file_pages(), (1 << 20) / sysconf(_SC_PAGESIZE));
    end(&w);
    begin(&w, tls_of(&first_key, "run8"), tls_of(&first_key, "run8"));
    say_hello(&w);
}

/* The log of either node tells the user what to do. */
Test(tls, who_does_not_belong_here)
{
    static const char *const same = "all nodes need the same cluster.key_file";
    const struct {
        const struct key *member, *chief;
        const char *job, *member_why, *chief_why;
    } rows[] = {
        {&second_key, &first_key, "run7", "node 0 has another key", "it has another key"},
        {&first_key, &first_key, "run8",
         "node 0 does not know job \"run8\"; give every node the same --job",
         "it belongs to job \"run8\", this is job \"run7\"; give every node the same --job "
         "(\"pchrun\": "
         "none was given)"},
        {&first_key, NULL, "run7", "node 0 has no key, this node has a key",
         "it has a key, this node has no key"},
        {NULL, &first_key, "run7", NULL, "it has no key, this node has a key"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        begin(&w, rows[i].member ? tls_of(rows[i].member, rows[i].job) : NULL,
              rows[i].chief ? tls_of(rows[i].chief, "run7") : NULL);
        if (!rows[i].member)
            conn_send(w.ends[MEMBER].conn, &(struct peermsg){.type = PEERMSG_HELLO});
        run_until(&w, w.ends[MEMBER].broken && w.ends[CHIEF].broken);
        const char *member = w.ends[MEMBER].conn->why, *chief = w.ends[CHIEF].conn->why;
        cr_expect(strstr(chief, rows[i].chief_why), "%zu: %s", i, chief);
        cr_expect(!rows[i].member_why || strstr(member, rows[i].member_why), "%zu: %s", i, member);
        cr_expect(i == 1 || strstr(chief, same), "%zu: %s", i, chief);
        cr_expect_eq(w.ends[CHIEF].messages, 0);
        /* A node without a key gets a message, and does not come again. */
        cr_expect_eq(w.ends[MEMBER].messages, rows[i].member ? 0 : 1);
        cr_expect_eq(w.ends[MEMBER].ups, rows[i].member ? 0 : 1);
        end(&w);
    }
}

/* A client that says nothing, or only half of its hello, holds its connection for a limited
 * time. */
Test(tls, who_says_too_little)
{
    static const uint8_t half[] = {0x16, 3, 1, 1, 0, 1, 0, 0, 0xfc, 3, 3};
    for (int size = 0; size <= (int)sizeof half; size += (int)sizeof half) {
        struct tls *tls = tls_of(&first_key, "run7");
        w.ends[CHIEF] = (struct end){.rules = rules_with(event_base_new(), tls)};
        struct end *chief = &w.ends[CHIEF];
        int fds[2], before = unit_count_fds();
        make_pair(fds);
        chief->rules.hello_wait_ns = 50 * NS_PER_MS;
        chief->conn = conn_new(&chief->rules, fds[0], &nowhere, false);
        chief->conn->owner = chief;
        conn_start(chief->conn);
        cr_assert_eq(send(fds[1], half, (size_t)size, 0), size);
        w.base = chief->rules.base;
        run_until(&w, chief->broken);
        cr_assert_str_eq(chief->conn->why, "0.0.0.0: no HELLO within 50ms");
        conn_free(chief->conn);
        fd_close(&fds[1]);
        cr_assert_eq(unit_count_fds(), before, "a descriptor was left open");
        tls_free(tls);
        event_base_free(w.base);
    }
}

/* ---- a wire that the test can bend ---- */

struct wire {
    struct stream ends[ENDS];
    int relay[ENDS]; /* the other side of each end's socket */
    bool is_up[ENDS];
    struct err err[ENDS];
    bool has_failed[ENDS];
    size_t passed[ENDS]; /* bytes that came from each end */
    size_t bend[ENDS];   /* which byte is changed; SIZE_MAX: none */
    uint8_t said[ENDS][4096];
};

static struct tls *keys[ENDS];

static void wire_begin(struct wire *wire)
{
    *wire = (struct wire){.bend = {SIZE_MAX, SIZE_MAX}};
    for (int i = 0; i < ENDS; i++) {
        int fds[2];
        make_pair(fds);
        wire->relay[i] = fds[1];
        cr_assert(tls_stream(keys[i], fds[0], i == MEMBER, &wire->ends[i]));
    }
}

static void wire_end(struct wire *wire)
{
    for (int i = 0; i < ENDS; i++) {
        stream_close(&wire->ends[i]);
        fd_close(&wire->relay[i]);
    }
}

/* Carries what one end has sent to the other. */
static size_t carry(struct wire *wire, int from)
{
    uint8_t data[4096];
    ssize_t n = recv(wire->relay[from], data, sizeof data, 0);
    for (ssize_t i = 0; i < n; i++) {
        size_t at = wire->passed[from]++;
        if (at < sizeof wire->said[from])
            wire->said[from][at] = data[i];
        if (at == wire->bend[from])
            data[i] ^= 0x40;
    }
    if (n > 0)
        cr_assert_eq(send(wire->relay[!from], data, (size_t)n, MSG_NOSIGNAL), n);
    return n > 0 ? (size_t)n : 0;
}

static void shake(struct wire *wire, int end)
{
    struct stream *stream = &wire->ends[end];
    if (wire->is_up[end] || wire->has_failed[end])
        return;
    ssize_t n = stream->kind->handshake(stream, &wire->err[end]);
    wire->is_up[end] = n == 1;
    wire->has_failed[end] = n == STREAM_FAILED || n == STREAM_FOREIGN;
    cr_assert(wire->has_failed[end] || wire->is_up[end] || n == STREAM_WANT_READ);
}

/* Carries the bytes until neither side has more to say. */
static void shake_hands(struct wire *wire)
{
    do {
        shake(wire, MEMBER);
        shake(wire, CHIEF);
    } while (carry(wire, MEMBER) + carry(wire, CHIEF) > 0 && !wire->has_failed[CHIEF]);
}

/* The version in the header of a record is the one thing that must be ignored (RFC 8446, 5.1). */
static bool is_record_version(const struct wire *wire, int from, size_t at)
{
    const uint8_t *said = wire->said[from];
    for (size_t record = 0; record + 5 <= wire->passed[from];
         record += 5 + (size_t)(said[record + 3] << 8 | said[record + 4]))
        if (at == record + 1 || at == record + 2)
            return true;
    return false;
}

/* A test with a wire whose ends have shaken hands. */
#define WireTest(name)           \
    static void on_##name(void); \
    Test(tls, name)              \
    {                            \
        keys[MEMBER] = ours();   \
        keys[CHIEF] = ours();    \
        wire_begin(&wire);       \
        shake_hands(&wire);      \
        on_##name();             \
        wire_end(&wire);         \
        tls_free(keys[MEMBER]);  \
        tls_free(keys[CHIEF]);   \
    }                            \
    static void on_##name(void)

static struct wire wire;

/* An attacker who changes one byte on the way gains nothing, whichever byte it is. */
WireTest(every_byte_of_the_handshake_counts)
{
    struct wire bent;
    cr_assert(wire.is_up[MEMBER] && wire.is_up[CHIEF]);
    cr_assert(wire.passed[MEMBER] < 4096 && wire.passed[CHIEF] < 4096);
    for (int from = 0; from < ENDS; from++)
        for (size_t at = 0; at < wire.passed[from]; at++) {
            if (is_record_version(&wire, from, at))
                continue;
            wire_begin(&bent);
            bent.bend[from] = at;
            shake_hands(&bent);
            cr_expect(!bent.is_up[CHIEF], "byte %zu of %s", at, from ? "the chief" : "the member");
            wire_end(&bent);
        }
}

/* Overheard bytes cannot be sent again: neither to the side that they were meant for, nor to their
 * sender. */
WireTest(nothing_can_be_said_again)
{
    for (int speaker = 0; speaker < ENDS; speaker++)
        for (int hearer = 0; hearer < ENDS; hearer++) {
            struct wire again;
            wire_begin(&again);
            shake(&again, hearer);
            cr_assert_eq(send(again.relay[hearer], wire.said[speaker], wire.passed[speaker], 0),
                         (ssize_t)wire.passed[speaker]);
            for (int i = 0; i < 10; i++)
                shake(&again, hearer);
            cr_expect(again.has_failed[hearer] && !again.is_up[hearer], "%d to %d", speaker,
                      hearer);
            wire_end(&again);
        }
}

/* Says `text` from the member to the chief, bent as asked; the result of the chief's read. */
static ssize_t say(const char *text, char *ret, size_t size)
{
    struct stream *member = &wire.ends[MEMBER], *chief = &wire.ends[CHIEF];
    struct err err;
    size_t len = strlen(text);
    cr_assert_eq(member->kind->write(member, text, len, &err), (ssize_t)len);
    carry(&wire, MEMBER);
    return chief->kind->read(chief, ret, size, &wire.err[CHIEF]);
}

WireTest(data_is_whole_or_nothing)
{
    char heard[100];
    cr_assert_eq(say("seven bytes", heard, 7), 7);
    cr_assert_arr_eq(heard, "seven b", 7);
    cr_assert(wire.ends[CHIEF].kind->has_more(&wire.ends[CHIEF]));
    wire.bend[MEMBER] = wire.passed[MEMBER] + 8;
    cr_assert_eq(say("changed", heard, sizeof heard), 4);
    cr_assert_arr_eq(heard, "ytes", 4);
    cr_assert_eq(say("more", heard, sizeof heard), STREAM_FAILED);
    cr_assert(strstr(wire.err[CHIEF].text, "data received from it was damaged on the way"), "%s",
              wire.err[CHIEF].text);
    wire_end(&wire);
    /* Half a record, and then the end. */
    wire_begin(&wire);
    shake_hands(&wire);
    uint8_t record[100];
    struct err err;
    cr_assert_eq(wire.ends[MEMBER].kind->write(&wire.ends[MEMBER], "half", 4, &err), 4);
    ssize_t n = recv(wire.relay[MEMBER], record, sizeof record, 0);
    cr_assert_eq(send(wire.relay[CHIEF], record, (size_t)n - 1, 0), n - 1);
    shutdown(wire.relay[CHIEF], SHUT_WR);
    cr_assert_eq(wire.ends[CHIEF].kind->read(&wire.ends[CHIEF], heard, 100, &err), STREAM_END);
}

/* A part of a record is no reason to read again and again. */
WireTest(a_part_of_a_record_waits_for_the_rest)
{
    char heard[100];
    struct stream *member = &wire.ends[MEMBER], *chief = &wire.ends[CHIEF];
    uint8_t record[100];
    struct err err;
    cr_assert_eq(member->kind->write(member, "one", 3, &err), 3);
    cr_assert_eq(member->kind->write(member, "two", 3, &err), 3);
    ssize_t n = recv(wire.relay[MEMBER], record, sizeof record, 0);
    cr_assert_eq(send(wire.relay[CHIEF], record, (size_t)n - 1, 0), n - 1);
    cr_assert_eq(chief->kind->read(chief, heard, sizeof heard, &err), 3);
    cr_assert_eq(chief->kind->read(chief, heard, sizeof heard, &err), STREAM_WANT_READ);
    cr_assert_eq(send(wire.relay[CHIEF], record + n - 1, 1, 0), 1);
    cr_assert_eq(chief->kind->read(chief, heard, sizeof heard, &err), 3);
    cr_assert_arr_eq(heard, "two", 3);
    cr_assert(!chief->kind->has_more(chief));
}
