/* SPDX-License-Identifier: Apache-2.0
 * See peers.h.
 *
 * A broken connection goes to a list; on_later() reports and frees it, from the loop. So callers
 * further up can still use it, and no callback runs inside a call.
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

#define NO_MEMORY "no memory for the connection"

#define STRANGER_PAUSE_MAX_NS (16 * NS_PER_S)
/* When descriptors run out, a new connection has at least this time to send HELLO. */
#define GUEST_CHANCE_NS (100 * NS_PER_MS)

enum { BUCKETS = 1024 }; /* enough that chains stay short: each step may miss the cache */

struct peers {
    struct peers_options options;
    struct conn_rules rules;
    struct listener *listener;
    struct dial *dial;
    struct event *later;
    struct conn_chain buckets[BUCKETS]; /* zeroed means empty, so unused pages stay untouched */
    struct conn_list broken;
    struct conn_list guests; /* connections without HELLO, and closing ones; oldest first */
    int next_id;
    int conns, n_guests;
    bool is_finishing;
    bool has_reached_chief;
    union netaddr chief_at;   /* address of the last connection to node 0 */
    bool was_direct;          /* whether the last welcomed connection was direct */
    bool is_chief_lost;       /* no memory for the dial: on_later() reports it */
    int64_t stranger_said_at; /* when the log last mentioned a stranger; 0: never */
    int64_t stranger_pause;   /* for this time the log mentions no other stranger */
    unsigned strangers_unsaid;
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

static void add_guest(struct peers *peers, struct conn *conn)
{
    conn->is_guest = true;
    conn->guest_since = clock_now_ns();
    peers->n_guests++;
    TAILQ_INSERT_TAIL(&peers->guests, conn, guest_link);
}

static void remove_guest(struct peers *peers, struct conn *conn)
{
    if (!conn->is_guest)
        return;
    conn->is_guest = false;
    peers->n_guests--;
    TAILQ_REMOVE(&peers->guests, conn, guest_link);
}

/* A node says HELLO at once, so a flood evicts its own connections first. False: no guest is that
 * old. */
static bool put_out_oldest_guest(struct peers *peers, int64_t age_ns)
{
    struct conn *conn = TAILQ_FIRST(&peers->guests);
    if (!conn || clock_now_ns() - conn->guest_since < age_ns)
        return false;
    conn_fail(conn, "no HELLO yet, and too many others wait");
    return true;
}

static void on_conn_up(struct conn *conn)
{
    struct peers *peers = conn->owner;
    peers->options.on_up(peers->options.arg, conn->id);
    if (peers->options.tls) /* a member makes no other connection */
        tls_rest(peers->options.tls);
}

static void on_conn_hello(struct conn *conn)
{
    conn->is_told = true;
    remove_guest(conn->owner, conn);
}

static void on_conn_message(struct conn *conn, const struct peermsg *msg)
{
    struct peers *peers = conn->owner;
    if (msg->type == PEERMSG_WELCOME)
        peers->was_direct = conn->is_direct;
    peers->options.on_message(peers->options.arg, conn->id, msg);
}

static void on_conn_broken(struct conn *conn)
{
    struct peers *peers = conn->owner;
    LIST_REMOVE(conn, link);
    TAILQ_INSERT_TAIL(&peers->broken, conn, broken_link);
    remove_guest(peers, conn);
    event_active(peers->later, 0, 0);
}

static void own(struct peers *peers, struct conn *conn, int id)
{
    conn->owner = peers;
    conn->id = id;
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
    if (peers->n_guests >= peers->options.guests_max)
        put_out_oldest_guest(peers, 0);
    own(peers, conn, peers->next_id++);
    add_guest(peers, conn);
    conn_start(conn);
}

static bool peers_on_short(void *arg)
{
    return put_out_oldest_guest(arg, GUEST_CHANCE_NS);
}

/* Node 0 listens as long as it lives, and on a direct route its own kernel refuses. So a refusal
 * proves that node 0 has died. */
static bool peers_is_gone(const struct peers *peers, const union netaddr *tried,
                          const struct err *err)
{
    return peers->was_direct && err->sys_errno == ECONNREFUSED &&
           netaddr_same_host(tried, &peers->chief_at);
}

static void on_dialled(void *arg, int fd, const union netaddr *peer, const struct err *err)
{
    struct peers *peers = arg;
    peers->dial = NULL;
    if (fd < 0) {
        peers->options.on_down(peers->options.arg, PEERS_CHIEF, err->text,
                               peers_is_gone(peers, peer, err));
        return;
    }
    struct conn *conn = conn_new(&peers->rules, fd, peer, true);
    if (!conn) {
        peers->options.on_down(peers->options.arg, PEERS_CHIEF, NO_MEMORY, false);
        return;
    }
    peers->chief_at = *peer;
    peers->has_reached_chief = true;
    own(peers, conn, PEERS_CHIEF);
    conn->is_told = true;
    conn_start(conn);
}

/* ---- reports to the owner ---- */

/* Logs at most one line a second, and fewer while strangers keep connecting. Neither a port scan
 * nor a node with a wrong key may fill the log. */
static void log_stranger(struct peers *peers, const char *why)
{
    int64_t now = clock_now_ns(), since = now - peers->stranger_said_at;
    if (peers->stranger_said_at != 0 && since < peers->stranger_pause) {
        peers->strangers_unsaid++;
        return;
    }
    bool goes_on = peers->stranger_said_at != 0 && since < 2 * peers->stranger_pause;
    peers->stranger_pause =
        goes_on ? clock_min(2 * peers->stranger_pause, STRANGER_PAUSE_MAX_NS) : NS_PER_S;
    peers->stranger_said_at = now;
    if (peers->strangers_unsaid > 0)
        log_info("peers", "closed %u more connection%s without a valid HELLO",
                 peers->strangers_unsaid, peers->strangers_unsaid == 1 ? "" : "s");
    peers->strangers_unsaid = 0;
    log_info("peers", "closed a connection: %s", why);
}

static void bury(struct peers *peers, struct conn *conn)
{
    const struct peers_options *o = &peers->options;
    if (conn->is_told)
        o->on_down(o->arg, conn->id, conn->why, conn->has_ended);
    else if (conn->is_stranger && conn->why[0] != '\0')
        log_stranger(peers, conn->why);
    if (conn->is_strange && !conn->is_told && o->on_strange)
        o->on_strange(o->arg, conn->why);
    peers->conns--;
    conn_free(conn);
}

static void on_later(evutil_socket_t fd, short what, void *arg)
{
    struct peers *peers = arg;
    if (peers->is_chief_lost) {
        peers->is_chief_lost = false;
        peers->options.on_down(peers->options.arg, PEERS_CHIEF, NO_MEMORY, false);
    }
    struct conn *conn;
    while ((conn = TAILQ_FIRST(&peers->broken))) {
        TAILQ_REMOVE(&peers->broken, conn, broken_link);
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
    set_default(&o->reconnect_wait_ns, o->connect_wait_ns);
    set_default(&o->hello_wait_ns, 10 * NS_PER_S);
    set_default(&o->close_wait_ns, 5 * NS_PER_S);
    set_default(&o->accept_retry_ns, NS_PER_S);
    if (o->queue_max == 0)
        o->queue_max = 64 * 1024;
    if (o->guests_max == 0)
        o->guests_max = 256;
    peers->rules = (struct conn_rules){.base = o->base,
                                       .tls = o->tls,
                                       .queue_max = o->queue_max,
                                       .handshake_wait_ns = o->connect_wait_ns,
                                       .hello_wait_ns = o->hello_wait_ns,
                                       .close_wait_ns = o->close_wait_ns,
                                       .on_up = on_conn_up,
                                       .on_hello = on_conn_hello,
                                       .on_message = on_conn_message,
                                       .on_broken = on_conn_broken};
    peers->next_id = PEERS_FIRST;
    TAILQ_INIT(&peers->broken);
    TAILQ_INIT(&peers->guests);
    peers->later = event_new(o->base, -1, 0, on_later, peers);
    if (!peers->later) {
        free(peers);
        return NULL;
    }
    return peers;
}

static void free_conns(struct peers *peers)
{
    struct conn *conn;
    for (size_t i = 0; i < BUCKETS; i++)
        while ((conn = LIST_FIRST(&peers->buckets[i]))) {
            LIST_REMOVE(conn, link);
            conn_free(conn);
        }
    while ((conn = TAILQ_FIRST(&peers->broken))) {
        TAILQ_REMOVE(&peers->broken, conn, broken_link);
        conn_free(conn);
    }
}

void peers_free(struct peers *peers)
{
    if (!peers)
        return;
    dial_free(peers->dial);
    listener_free(peers->listener);
    free_conns(peers);
    event_free(peers->later);
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
        .retry_ns = peers->options.accept_retry_ns,
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

void peers_connect(struct peers *peers, const struct address *where)
{
    peers_close(peers, PEERS_CHIEF);
    struct dial_options options = {
        .base = peers->options.base,
        .wait_ns = peers->has_reached_chief ? peers->options.reconnect_wait_ns
                                            : peers->options.connect_wait_ns,
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

void peers_send(struct peers *peers, int id, const struct peermsg *msg)
{
    struct conn *conn = peers_find(peers, id);
    if (conn)
        conn_send(conn, msg);
}

const char *peers_name(const struct peers *peers, int id)
{
    const struct conn *conn = peers_find(peers, id);
    return conn ? conn->name : NULL;
}

static void peers_forget(struct conn *conn)
{
    conn->is_told = false;
    conn_close(conn);
    bool is_closing = conn->state == CONN_FLUSHING || conn->state == CONN_LINGERING;
    if (is_closing && !conn->is_ours && !conn->is_guest)
        add_guest(conn->owner, conn);
}

void peers_close(struct peers *peers, int id)
{
    struct conn *conn = peers_find(peers, id);
    if (conn)
        peers_forget(conn);
    TAILQ_FOREACH(conn, &peers->broken, broken_link)
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
    listener_free(peers->listener);
    peers->listener = NULL;
    struct conn *conn, *next;
    for (size_t i = 0; i < BUCKETS; i++)
        for (conn = LIST_FIRST(&peers->buckets[i]); conn; conn = next) {
            next = LIST_NEXT(conn, link);
            peers_forget(conn);
        }
    for (conn = TAILQ_FIRST(&peers->broken); conn; conn = TAILQ_NEXT(conn, broken_link))
        conn->is_told = false;
    peers->is_finishing = true;
    event_active(peers->later, 0, 0);
}
