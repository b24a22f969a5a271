/* SPDX-License-Identifier: Apache-2.0
 * See netcheck.h. The sender measures: the time until the next node has closed the connection,
 * which it does when it has read all; or, at the end of the time, what the next node's kernel has
 * acknowledged.
 */
#include "peers/netcheck.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "net/dial.h"
#include "net/listener.h"
#include "net/stream.h"
#include "peers/cluster.h"

#include <endian.h>
#include <errno.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>

/* The second repetition of a lost SYN comes after 3 s. */
#define CONNECT_NS  (3 * NS_PER_S + NS_PER_S / 2)
#define TRANSFER_NS (2 * NS_PER_S)
/* Longer than node 0 waits for the answers. */
#define END_NS (15 * NS_PER_S)

enum {
    BYTES = 64 * 1024 * 1024,
    CHUNK = 256 * 1024,
    CHUNKS_PER_WAKE = 16,
    TOKEN = sizeof((struct peer_listen *)0)->token
};

/* The bytes to send. MSG_TRUNC stores nothing here either. */
static uint8_t zeros[CHUNK];

static void write_token(const struct peer_listen *listen, uint8_t ret[TOKEN])
{
    const uint64_t wire[] = {htole64(listen->token[0]), htole64(listen->token[1])};
    memcpy(ret, wire, TOKEN);
}

/* --- the previous node --- */

static void netcheck_leave_previous(struct netcheck *check)
{
    if (check->from >= 0)
        watch_end(&check->arrives);
    fd_close(&check->from);
}

/* Takes as long for a wrong token as for the right one. */
static bool netcheck_is_token(const uint8_t *said, const struct peer_listen *here)
{
    uint8_t wrong = 0, expected[TOKEN];
    write_token(here, expected);
    for (size_t i = 0; i < TOKEN; i++)
        wrong |= (uint8_t)(said[i] ^ expected[i]);
    return wrong == 0;
}

static void on_arrival(void *ctx)
{
    struct netcheck *check = ctx;
    for (int i = 0; i < CHUNKS_PER_WAKE; i++) {
        ssize_t n = recv(check->from, zeros, sizeof zeros, MSG_TRUNC); /* copies nothing */
        if (n < 0 && stream_is_again(errno))
            return;
        if (n <= 0) {
            netcheck_leave_previous(check);
            return;
        }
    }
}

/* The first bytes are there, since the kernel has waited for them. So a stranger that says nothing
 * takes no place. */
static void netcheck_on_accept(void *arg, int fd, const union netaddr *peer)
{
    struct netcheck *check = arg;
    uint8_t said[TOKEN];
    FD_CLEANUP int taken = fd;
    struct err err;
    if (recv(fd, said, TOKEN, 0) != TOKEN || check->was_there ||
        !netcheck_is_token(said, &check->link.here))
        return;
    check->was_there = true;
    check->from = fd_take(&taken);
    watch_init(&check->arrives, check->loop->base, on_arrival, check);
    watch_end(&check->arrives);
    if (!watch_fd(&check->arrives, check->from, &err))
        netcheck_leave_previous(check);
}

/* The address is a number, with a port. */
static bool netcheck_find(const char *at, struct address *ret, struct netaddr_list *list)
{
    struct err err;
    return at[0] && address_parse(at, 0, ret, &err) && ret->port > 0 && netaddr_numeric(ret, list);
}

/* `chief`: where node 0 listens; "": unknown. */
static bool netcheck_find_here(const struct netcheck *check, const char *chief, union netaddr *ret)
{
    struct address where;
    struct netaddr_list list;
    if (!check->cluster->peers || !peers_here(check->cluster->peers, ret))
        return false;
    if (netaddr_is_loopback(ret) && netcheck_find(chief, &where, &list) &&
        netaddr_is_local(&list.all[0])) /* else it is a tunnel to node 0 */
        *ret = list.all[0];
    return true;
}

static bool netcheck_listen(struct netcheck *check, const char *chief, struct err *err)
{
    struct netaddr_list where = {.n = 1};
    struct peer_listen *here = &check->link.here;
    struct listener_options options = {.base = check->loop->base,
                                       .topic = "network",
                                       .retry_ns = NS_PER_S,
                                       .waits_for_bytes = true,
                                       .on_accept = netcheck_on_accept,
                                       .arg = check};
    if (!netcheck_find_here(check, chief, &where.all[0]))
        return err_set(err, ERR_SYSTEM, 0, "the connection to node 0 is closed");
    netaddr_set_port(&where.all[0], 0);
    if (getrandom(here->token, sizeof here->token, GRND_NONBLOCK) != (ssize_t)sizeof here->token)
        return err_set(err, ERR_SYSTEM, errno, "no random numbers");
    check->listener = listener_new(&options, &where, err);
    if (check->listener)
        (void)listener_where(check->listener, here->at, sizeof here->at);
    return check->listener;
}

/* --- the next node --- */

static void netcheck_end_transfer(struct netcheck *check)
{
    if (check->fd >= 0)
        watch_end(&check->ready);
    fd_close(&check->fd);
    watch_at(&check->until, CLOCK_NEVER);
}

/* `why`: NULL: unknown, or `bytes` have arrived. */
static void netcheck_finish(struct netcheck *check, uint64_t bytes, const char *why)
{
    int64_t ns = clock_now_ns() - check->began_at;
    netcheck_end_transfer(check);
    check->link.is_over = true;
    if (why)
        str_fit(check->link.why, sizeof check->link.why, why);
    else if (bytes > 0)
        check->link.rate = (uint64_t)((double)bytes * NS_PER_S / (double)(ns > 0 ? ns : 1));
    watch_at(&check->news, clock_now_ns());
}

static void on_late(void *ctx)
{
    struct netcheck *check = ctx;
    int waiting = 0;
    bool is_known = ioctl(check->fd, SIOCOUTQ, &waiting) == 0 && waiting >= 0;
    uint64_t rest = (uint64_t)waiting, arrived = check->sent > rest ? check->sent - rest : 0;
    bool is_empty = is_known && arrived == 0;
    /* The kernel drops its queue: it would load the network while the ranks start. */
    struct linger at_once = {.l_onoff = 1};
    (void)setsockopt(check->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    netcheck_finish(check, is_known ? arrived : 0,
                    is_empty ? "connected, but no data arrives; is the MTU right?" : NULL);
}

/* The next node has read all, or the connection broke. */
static void on_read(void *ctx)
{
    struct netcheck *check = ctx;
    uint8_t byte;
    ssize_t n = recv(check->fd, &byte, 1, 0);
    if (n < 0 && stream_is_again(errno))
        return;
    netcheck_finish(check, check->sent, n < 0 ? strerror(errno) : NULL);
}

static void await_read(struct netcheck *check)
{
    struct err err;
    shutdown(check->fd, SHUT_WR);
    watch_end(&check->ready);
    watch_init(&check->ready, check->loop->base, on_read, check);
    watch_end(&check->ready);
    if (!watch_fd(&check->ready, check->fd, &err))
        netcheck_finish(check, 0, NULL);
}

static void netcheck_on_writable(void *ctx)
{
    struct netcheck *check = ctx;
    for (int i = 0; i < CHUNKS_PER_WAKE && check->sent < BYTES; i++) {
        ssize_t n = send(check->fd, zeros, sizeof zeros, MSG_NOSIGNAL);
        if (n < 0 && stream_is_again(errno))
            break;
        if (n < 0) {
            netcheck_finish(check, 0, strerror(errno));
            return;
        }
        check->sent += (uint64_t)n;
    }
    if (check->sent >= BYTES)
        await_read(check);
    else if (!watch_arm(&check->ready))
        netcheck_finish(check, 0, NULL);
}

static void on_reached_next(void *arg, int fd, const union netaddr *peer, const struct err *err)
{
    struct netcheck *check = arg;
    uint8_t token[TOKEN];
    write_token(&check->to, token);
    check->began_at = clock_now_ns();
    if (fd < 0) {
        netcheck_finish(check, 0, err->sys_errno ? strerror(err->sys_errno) : err->text);
        return;
    }
    check->fd = fd;
    watch_init(&check->ready, check->loop->base, netcheck_on_writable, check);
    watch_end(&check->ready);
    watch_writable(&check->ready, fd);
    watch_at(&check->until, check->began_at + TRANSFER_NS);
    /* A new connection has room for it. */
    if (send(fd, token, TOKEN, MSG_NOSIGNAL) != TOKEN)
        netcheck_finish(check, 0, strerror(errno));
    else if (!watch_arm(&check->ready))
        netcheck_finish(check, 0, NULL);
}

static void netcheck_begin(struct netcheck *check, const struct peer_listen *to)
{
    struct address where;
    struct netaddr_list list;
    check->to = *to;
    check->began_at = clock_now_ns();
    check->dial = dial_new(&(struct dial_options){
        .base = check->loop->base, .on_done = on_reached_next, .arg = check});
    if (check->dial && netcheck_find(to->at, &where, &list))
        dial_start(check->dial, &where, CONNECT_NS);
    else
        netcheck_finish(check, 0, NULL);
}

/* --- both --- */

static void netcheck_on_news(void *ctx)
{
    struct netcheck *check = ctx;
    loop_post(check->loop, &(struct event){.type = EV_MEASURED, .link = &check->link});
}

void netcheck_stop(struct netcheck *check)
{
    dial_free(check->dial);
    check->dial = NULL;
    netcheck_end_transfer(check);
    listener_free(check->listener);
    check->listener = NULL;
    netcheck_leave_previous(check);
    check->was_there = false;
    check->sent = 0;
    check->link = (struct peer_link){0};
    watch_at(&check->news, CLOCK_NEVER);
    watch_at(&check->end, CLOCK_NEVER);
}

static void netcheck_on_end(void *ctx)
{
    netcheck_stop(ctx);
}

void netcheck_measure(struct netcheck *check, const struct peer_measure *measure)
{
    struct err err;
    if (measure->number != check->link.number) {
        netcheck_stop(check);
        if (measure->number == 0)
            return;
        check->link.number = measure->number;
        watch_at(&check->end, clock_now_ns() + END_NS);
        watch_at(&check->news, clock_now_ns());
        if (!netcheck_listen(check, measure->begins ? "" : measure->next.at, &err))
            log_warn("network", "the network from the previous node is not measured: %s", err.text);
    }
    if (measure->begins && !check->dial)
        netcheck_begin(check, &measure->next);
}

void netcheck_open(struct netcheck *check)
{
    struct event_base *base = check->loop->base;
    check->fd = check->from = -1;
    watch_init(&check->news, base, netcheck_on_news, check);
    watch_init(&check->end, base, netcheck_on_end, check);
    watch_init(&check->until, base, on_late, check);
}

void netcheck_free(struct netcheck *check)
{
    netcheck_stop(check);
    watch_end(&check->news);
    watch_end(&check->end);
    watch_end(&check->until);
}
