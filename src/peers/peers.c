/* SPDX-License-Identifier: Apache-2.0
 * See peers.h. A guest is an accepted connection that belongs to no node: before its HELLO, or once
 * this side closes it.
 */
#include "peers/peers.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "net/dial.h"
#include "net/listener.h"
#include "net/resolve.h"
#include "net/tls.h"
#include "peers/conn.h"

#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <limits.h>
#include <stdlib.h>

/* Neither a port scan nor a node with a wrong key may fill the log. */
#define STRANGER_LINES 2
/* When descriptors run out, a new connection has at least this time to send HELLO. */
#define GUEST_CHANCE_NS (100 * NS_PER_MS)

enum { BUCKETS = 1024 }; /* enough that chains stay short: each step may miss the cache */

struct peers {
    struct peers_options options;
    struct conn_rules rules;
    struct listener *listener;
    struct dial *dial;
    struct conn_chain buckets[BUCKETS]; /* zeroed means empty, so unused pages stay untouched */
    int next_id, conns;
    int room; /* so many connections may come before there can be guests_max guests */
    bool is_finishing;
    union netaddr chief_at; /* of the last connection to node 0; zeroed: there was none */
    bool was_direct;        /* whether the last welcomed connection was direct */
    struct log_limit limit; /* of lines about strangers */
};

/* ---- connections ---- */

/* The open connection with this number, not a closing one. */
static struct conn *peers_find(const struct peers *peers, int id)
{
    struct conn *conn;
    LIST_FOREACH(conn, &peers->buckets[(unsigned)id % BUCKETS], link)
    if (conn->id == id && conn->state <= CONN_OPEN)
        return conn;
    return NULL;
}

static bool is_guest(const struct conn *conn)
{
    bool is_stranger = conn->is_stranger && conn->state != CONN_BROKEN;
    return !conn->is_ours && (is_stranger || conn->state == CONN_CLOSING);
}

/* A node sends HELLO at once, so a flood evicts its own connections first. False: there are fewer
 * guests than `from`, or the oldest is not that old. */
static bool put_out_oldest_guest(struct peers *peers, int from, int64_t age_ns)
{
    struct conn *conn, *oldest = NULL;
    int guests = 0;
    for (size_t i = 0; i < BUCKETS; i++)
        for (conn = LIST_FIRST(&peers->buckets[i]); conn; conn = LIST_NEXT(conn, link))
            if (is_guest(conn)) {
                guests++;
                oldest = oldest && oldest->since <= conn->since ? oldest : conn;
            }
    peers->room = peers->options.guests_max - guests;
    if (!oldest || guests < from || clock_now_ns() - oldest->since < age_ns)
        return false;
    conn_fail(oldest, "no HELLO yet, and newer connections need its place");
    return true;
}

/* All connections are looked at only when as many have come as there was room for. A member becomes
 * a guest when this side closes it; it has its descriptor already. */
static void limit_guests(struct peers *peers)
{
    int max = peers->options.guests_max;
    if (--peers->room <= 0 && peers->conns >= max)
        put_out_oldest_guest(peers, max, 0);
}

static void on_conn_up(struct conn *conn)
{
    struct peers *peers = conn->owner;
    peers->options.on_up(peers->options.arg, conn->id);
    if (peers->options.tls) /* a member makes no other connection soon */
        tls_rest(peers->options.tls);
}

static void on_conn_message(struct conn *conn, const struct peermsg *msg)
{
    struct peers *peers = conn->owner;
    if (msg->type == PEERMSG_WELCOME)
        peers->was_direct = conn->is_direct;
    peers->options.on_message(peers->options.arg, conn->id, conn->name, msg);
}

static void own(struct peers *peers, struct conn *conn, int id)
{
    conn->owner = peers;
    conn->id = id;
    conn->since = clock_now_ns();
    peers->conns++;
    LIST_INSERT_HEAD(&peers->buckets[(unsigned)id % BUCKETS], conn, link);
}

static void peers_on_accept(void *arg, int fd, const union netaddr *peer)
{
    struct peers *peers = arg;
    if (peers->next_id == INT_MAX) { /* numbers are never reused */
        fd_close(&fd);
        return;
    }
    stream_tune(fd, peers->options.silence_ns);
    struct conn *conn = conn_new(&peers->rules, fd, peer, false);
    if (!conn)
        return;
    limit_guests(peers);
    own(peers, conn, peers->next_id++);
    conn_start(conn);
}

static bool peers_on_short(void *arg)
{
    return put_out_oldest_guest(arg, 1, GUEST_CHANCE_NS);
}

/* Node 0 listens as long as it lives. On a direct route only node 0's own kernel can refuse a
 * connection. So a refusal proves that node 0 has died. */
static bool peers_is_gone(const struct peers *peers, const union netaddr *tried,
                          const struct err *err)
{
    return peers->was_direct && err->sys_errno == ECONNREFUSED &&
           netaddr_same_host(tried, &peers->chief_at);
}

static void on_dialled(void *arg, int fd, const union netaddr *peer, const struct err *err)
{
    struct peers *peers = arg;
    if (fd < 0) {
        peers->options.on_down(peers->options.arg, PEERS_CHIEF, err->text,
                               peers_is_gone(peers, peer, err));
        return;
    }
    struct conn *conn = conn_new(&peers->rules, fd, peer, true);
    if (!conn) {
        peers->options.on_down(peers->options.arg, PEERS_CHIEF, "no memory for the connection",
                               false);
        return;
    }
    peers->chief_at = *peer;
    own(peers, conn, PEERS_CHIEF);
    conn_start(conn);
}

/* ---- reports to the owner ---- */

static void on_conn_broken(struct conn *conn)
{
    struct peers *peers = conn->owner;
    const struct peers_options *o = &peers->options;
    bool is_told = !conn->is_stranger && !conn->is_forgotten;
    LIST_REMOVE(conn, link);
    if (is_told)
        o->on_down(o->arg, conn->id, conn->why, conn->has_ended);
    else if (conn->is_stranger && conn->why[0] != '\0' &&
             log_limit_ok(&peers->limit, "peers", STRANGER_LINES))
        log_info("peers", "closed a connection: %s", conn->why);
    if (conn->is_strange && !is_told && o->on_strange)
        o->on_strange(o->arg, conn->why);
    peers->conns--;
    conn_free(conn);
}

/* ---- the module ---- */

static int64_t or_default(int64_t value, int64_t otherwise)
{
    return value ? value : otherwise;
}

struct peers *peers_new(const struct peers_options *options)
{
    struct peers *peers = calloc(1, sizeof *peers);
    if (!peers)
        return NULL;
    struct peers_options *o = &peers->options;
    *o = *options;
    peers->limit.is_info = true;
    o->connect_wait_ns = or_default(o->connect_wait_ns, 10 * NS_PER_S);
    o->guests_max = (int)or_default(o->guests_max, 256);
    peers->rules = (struct conn_rules){.base = o->base,
                                       .tls = o->tls,
                                       .queue_max = (size_t)or_default(o->queue_max, 64 * 1024),
                                       .handshake_wait_ns = o->connect_wait_ns,
                                       .hello_wait_ns = or_default(o->hello_wait_ns, 10 * NS_PER_S),
                                       .close_wait_ns = or_default(o->close_wait_ns, 5 * NS_PER_S),
                                       .on_up = on_conn_up,
                                       .on_message = on_conn_message,
                                       .on_broken = on_conn_broken};
    peers->next_id = PEERS_FIRST;
    peers->dial = dial_new(&(struct dial_options){
        .base = o->base, .silence_ns = o->silence_ns, .on_done = on_dialled, .arg = peers});
    if (!peers->dial) {
        free(peers);
        return NULL;
    }
    return peers;
}

void peers_free(struct peers *peers)
{
    if (!peers)
        return;
    log_limit_end(&peers->limit, "peers");
    dial_free(peers->dial);
    listener_free(peers->listener);
    struct conn *conn;
    for (size_t i = 0; i < BUCKETS; i++)
        while ((conn = LIST_FIRST(&peers->buckets[i]))) {
            LIST_REMOVE(conn, link);
            conn_free(conn);
        }
    free(peers);
}

bool peers_listen(struct peers *peers, const struct address *where, struct err *err)
{
    assert(!peers->listener);
    struct netaddr_list list;
    if (!resolve_wait(where, peers->options.connect_wait_ns, &list, err))
        return err_wrap(err, "cannot listen");
    struct listener_options options = {
        .base = peers->options.base,
        .topic = "peers",
        .retry_ns = or_default(peers->options.accept_retry_ns, NS_PER_S),
        .on_accept = peers_on_accept,
        .on_short = peers_on_short,
        .arg = peers,
    };
    peers->listener = listener_new(&options, &list, err);
    return peers->listener;
}

int peers_port(const struct peers *peers)
{
    return listener_port(peers->listener);
}

bool peers_where(const struct peers *peers, char *text, size_t size)
{
    return listener_where(peers->listener, text, size);
}

/* This end of the connection of a node. */
static bool get_own_address(const struct conn *conn, union netaddr *ret)
{
    socklen_t size = sizeof *ret;
    return conn->state == CONN_OPEN && !is_guest(conn) &&
           getsockname(conn->stream.fd, &ret->any, &size) == 0;
}

bool peers_here(const struct peers *peers, union netaddr *ret)
{
    const struct conn *conn;
    union netaddr address;
    bool is_known = false;
    for (size_t i = 0; i < BUCKETS; i++)
        LIST_FOREACH(conn, &peers->buckets[i], link)
    if (get_own_address(conn, &address) && (!is_known || !netaddr_is_loopback(&address))) {
        *ret = address;
        is_known = true;
    }
    return is_known;
}

void peers_connect(struct peers *peers, const struct address *where)
{
    peers_close(peers, PEERS_CHIEF);
    int64_t again_ns = peers->chief_at.any.sa_family ? peers->options.reconnect_wait_ns : 0;
    dial_start(peers->dial, where, or_default(again_ns, peers->options.connect_wait_ns));
}

void peers_send(struct peers *peers, int id, const struct peermsg *msg)
{
    struct conn *conn = peers_find(peers, id);
    if (conn)
        conn_send(conn, msg);
}

static void peers_forget(struct conn *conn)
{
    if (!is_guest(conn))
        conn->since = clock_now_ns();
    conn->is_forgotten = true;
    conn_close(conn);
}

void peers_close(struct peers *peers, int id)
{
    struct conn *conn;
    LIST_FOREACH(conn, &peers->buckets[(unsigned)id % BUCKETS], link)
    if (conn->id == id)
        peers_forget(conn);
    if (id == PEERS_CHIEF)
        dial_stop(peers->dial);
}

void peers_finish(struct peers *peers)
{
    peers_close(peers, PEERS_CHIEF);
    listener_free(peers->listener);
    peers->listener = NULL;
    struct conn *conn;
    for (size_t i = 0; i < BUCKETS; i++)
        for (conn = LIST_FIRST(&peers->buckets[i]); conn; conn = LIST_NEXT(conn, link))
            peers_forget(conn);
    peers->is_finishing = true;
}

bool peers_is_busy(const struct peers *peers)
{
    return peers->is_finishing && peers->conns > 0;
}
