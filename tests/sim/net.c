/* SPDX-License-Identifier: Apache-2.0
 * The network between the nodes: one line from each member to the chief. In a wild schedule a
 * message may be lost, doubled or overtaken. TCP does not do so, but the protocol must bear it. A
 * line breaks with all messages in flight; each end learns of the break at its own time. See sim.h.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#define MS NS_PER_MS

static int64_t delay(struct world *w)
{
    return rng_time(&w->rng, MS / 20, w->s.delay_max);
}

void net_connect(struct world *w, int node, const struct action *action)
{
    world_at(w, (struct happening){.at = w->now + 2 * delay(w),
                                   .what = H_CONNECTED,
                                   .node = node,
                                   .epoch = w->hosts[node].line_epoch});
}

void net_connected(struct world *w, const struct happening *h)
{
    struct host *host = &w->hosts[h->node], *chief = &w->hosts[0];
    if (!host->is_alive || host->has_exited || h->epoch != host->line_epoch)
        return;
    if (net_is_cut(w, h->node) || !chief->is_alive || chief->has_exited) {
        world_event(
            w, h->node,
            (struct event){.type = EV_PEER_DOWN, .peer = {.conn = CONN_CHIEF, .why = "refused"}});
        return;
    }
    host->conn = w->next_conn++;
    host->is_up = true;
    host->hello_at = w->now;
    world_event(w, h->node, (struct event){.type = EV_CHIEF_UP, .peer = {.conn = CONN_CHIEF}});
}

/* Which member's line a message uses: the member itself sends over CONN_CHIEF. */
static int line_of(const struct world *w, int node, int conn)
{
    if (conn == CONN_CHIEF)
        return node;
    for (int i = 1; i < w->nhosts; i++)
        if (w->hosts[i].conn == conn)
            return i;
    return -1;
}

/* Encodes and decodes, as src/peers does: no message of the core may ever be refused. */
static struct peermsg *pass_wire(struct world *w, const struct peermsg *msg)
{
    static uint8_t data[FRAME_MAX];
    struct frame frame;
    struct peermsg *copy = malloc(sizeof *copy);
    size_t size = peermsg_encode(msg, data, sizeof data);
    size_t used;
    if (frame_parse(FRAME_PEER, data, size, &frame, &used) != FRAME_OK ||
        !peermsg_decode(&frame, copy)) {
        fail(w, "%s cannot be carried", peermsg_name(msg->type));
        *copy = *msg;
    }
    return copy;
}

static void carry(struct world *w, int line, bool is_up, const struct peermsg *msg)
{
    struct host *host = &w->hosts[line];
    int64_t at = w->now + delay(w);
    int64_t *fifo = is_up ? &host->fifo_up : &host->fifo_down;
    if (host->way.is_up == is_up && w->now < host->way_until)
        at += (w->now - host->way_since) * host->way.late_tenth / 10;
    if (!rng_chance(&w->rng, w->s.reorder) && at <= *fifo)
        at = *fifo + 1;
    if (w->s.is_stalled && at < host->cut_until) /* TCP keeps it until the line works again */
        at = host->cut_until > *fifo ? host->cut_until : *fifo + 1;
    if (at > *fifo)
        *fifo = at;
    struct peermsg *copy = pass_wire(w, msg);
    world_at(w, (struct happening){.at = at,
                                   .what = is_up ? H_TO_CHIEF : H_TO_NODE,
                                   .node = line,
                                   .epoch = host->line_epoch,
                                   .arg = (uint64_t)host->conn,
                                   .data = copy});
}

void net_send(struct world *w, int node, const struct action *action)
{
    const struct peermsg *msg = action->peer.msg;
    int line = line_of(w, node, action->peer.conn);
    if (line < 0)
        return;
    if (node == 0 && w->s.spares) /* a place may be given to one that has just died */
        line = spares_sent(w, line, msg);
    if (!w->hosts[line].is_up)
        return;
    if (node == 0 && msg->type == PEERMSG_ORDER && msg->order.echo_ns)
        lease_answer(w, line);
    if (node == 0 && msg->type == PEERMSG_ORDER && w->s.replace_wait)
        replace_check_answer(w, line, msg);
    const struct host *host = &w->hosts[line];
    if (w->now < host->way_until && host->way.is_up == (node != 0) && !host->way.late_tenth)
        return;
    /* The first message of a connection is not lost: without HELLO there is no connection. */
    bool is_first =
        msg->type == PEERMSG_HELLO || msg->type == PEERMSG_WELCOME || msg->type == PEERMSG_REFUSED;
    if (!is_first && rng_chance(&w->rng, w->s.drop))
        return;
    carry(w, line, node != 0, msg);
    if (rng_chance(&w->rng, w->s.duplicate))
        carry(w, line, node != 0, msg);
}

void net_arrive(struct world *w, const struct happening *h)
{
    struct host *line = &w->hosts[h->node];
    if (h->epoch != line->line_epoch)
        return; /* the message was in flight when the line broke */
    if (net_is_cut(w, h->node))
        return;
    int to = h->what == H_TO_CHIEF ? 0 : h->node;
    if (to == 0 && h->arg == (uint64_t)line->closed)
        return;
    if (to == 0)
        check_told(w, h->node, h->data);
    else
        lease_heard(w, to, h->data);
    w->hosts[to].heard_at = w->now;
    if (to != 0 && spares_heard(w, to, h->data))
        return;
    struct event event = {.type = EV_PEER_MESSAGE,
                          .peer = {.conn = to == 0 ? (int)h->arg : CONN_CHIEF, .msg = h->data}};
    world_event(w, to, event);
}

static void tell_down(struct world *w, enum what what, int node, uint64_t conn, int64_t at)
{
    world_at(
        w,
        (struct happening){
            .at = at, .what = what, .node = node, .arg = conn, .epoch = w->hosts[node].line_epoch});
}

static void forget_line(struct host *host)
{
    host->line_epoch++;
    host->is_up = false;
    host->conn = 0;
}

void net_break(struct world *w, int node)
{
    struct host *host = &w->hosts[node];
    if (node == 0 || host->conn == 0)
        return;
    uint64_t conn = (uint64_t)host->conn;
    forget_line(host);
    tell_down(w, H_DOWN_CHIEF, node, conn, w->now + rng_time(&w->rng, 0, 50 * MS));
    tell_down(w, H_DOWN_NODE, node, conn, w->now + rng_time(&w->rng, 0, 50 * MS));
}

void net_down(struct world *w, const struct happening *h)
{
    struct host *host = &w->hosts[h->node];
    bool is_member = h->what == H_DOWN_NODE;
    if (is_member && h->epoch == host->line_epoch) /* closed, not broken */
        forget_line(host);
    world_event(w, is_member ? h->node : 0,
                (struct event){.type = EV_PEER_DOWN,
                               .peer = {.conn = is_member ? CONN_CHIEF : (int)h->arg,
                                        .why = "connection reset",
                                        .has_ended = h->arg2}});
}

/* The other end sees what was sent before; no EV_PEER_DOWN at the closing side. */
void net_close(struct world *w, int node, int conn)
{
    int line = line_of(w, node, conn);
    if (line < 0)
        return;
    struct host *host = &w->hosts[line];
    int64_t at = host->fifo_down > w->now ? host->fifo_down + 1 : w->now + delay(w);
    if (node != 0 && at <= host->fifo_up)
        at = host->fifo_up + 1;
    tell_down(w, node == 0 ? H_DOWN_NODE : H_DOWN_CHIEF, line, (uint64_t)host->conn, at);
    if (node == 0)
        host->closed = host->conn;
    else
        host->is_up = false;
}

void net_fail(struct world *w, const struct fault *f)
{
    struct host *host = &w->hosts[f->node];
    if (f->kind == DO_PARTITION) {
        host->cut_until = w->now + f->length;
        return;
    }
    host->way = f->way;
    host->way_since = w->now;
    host->way_until = w->now + f->length;
}

bool net_is_cut(const struct world *w, int node)
{
    return w->now < w->hosts[node].cut_until || w->now < w->hosts[0].cut_until;
}

int64_t net_late_until(const struct world *w, int node)
{
    int64_t latest = 0;
    for (int i = 0; i < w->nhosts; i++) {
        const struct host *host = &w->hosts[i];
        int64_t late = (host->way_until - host->way_since) * host->way.late_tenth / 10;
        if (host->node == node)
            latest = clock_max(latest, host->way_until + late);
    }
    return latest;
}

/* The kernel closes the connections of a dead supervisor, after its last messages. */
static void end_line(struct world *w, int line, int dead)
{
    struct host *host = &w->hosts[line];
    int64_t sent = dead == 0 ? host->fifo_down : host->fifo_up, at = w->now + delay(w);
    world_at(w, (struct happening){.at = at > sent ? at : sent + 1,
                                   .what = dead == 0 ? H_DOWN_NODE : H_DOWN_CHIEF,
                                   .node = line,
                                   .arg = (uint64_t)host->conn,
                                   .arg2 = true,
                                   .epoch = host->line_epoch});
    if (dead != 0)
        host->is_up = false;
}

void net_host_died(struct world *w, int node)
{
    for (int i = 1; i < w->nhosts; i++) {
        if ((i != node && node != 0) || !w->hosts[i].conn)
            continue;
        if (w->s.is_direct && !net_is_cut(w, i))
            end_line(w, i, node);
        else
            net_break(w, i);
    }
}
