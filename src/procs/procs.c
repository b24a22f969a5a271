/* SPDX-License-Identifier: Apache-2.0
 * See procs.h. Read first: unix(7) (SOCK_SEQPACKET, SCM_RIGHTS, SO_PEERCRED). A connection starts
 * in the lobby and gets a slot with its ATTACH. A callback may close the connection that it
 * handles; procs->busy keeps its memory until the callback returns.
 */
#include "procs/procs.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "loop/watch.h"
#include "net/listener.h"
#include "procs/deathwatch.h"
#include "wire/gate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    LOBBY_MAX = 320, /* connected, not attached yet: more than the slots */
    PLACES = CORE_SLOTS_MAX + LOBBY_MAX,
    AT_ONCE = 16,        /* packets per connection and wake-up */
    OUT_MAX = 64 * 1024, /* unsent bytes per process */
    ATTACH_WAIT_S = 10,  /* from connecting to ATTACH */
};

/* The least time to attach when descriptors have run out. */
#define LOBBY_CHANCE_NS (100 * NS_PER_MS)

struct conn {
    struct procs *procs;
    int fd;    /* -1: closed */
    int place; /* the slot; from CORE_SLOTS_MAX on: in the lobby */
    int pid;
    unsigned serial;  /* never used twice */
    int64_t since;    /* connected */
    bool has_scratch; /* the process knows a scratch directory */
    struct watch readable, writable, late;
    struct buf out; /* unsent frames */
    struct procpage page;
};

struct procs {
    struct event_base *base;
    struct procs_calls calls;
    struct rundir dir;
    struct listener *listener;
    struct conn *conns[PLACES]; /* by place */
    bool is_reserved[PLACES];   /* no connection may take this place */
    struct conn *busy;          /* the connection whose packets are being handled */
    struct log_limit limit;     /* of lines about processes */
    unsigned serial;
    uint64_t gate;
    char notice_text[sizeof(((struct page_supervisor *)0)->notice_text)];
    int64_t notice_deadline;
    struct scratch scratch;
    /* Made with the first process; NULL: none yet, or no kernel support. */
    struct deathwatch *deathwatch;
};

/* Scratch directories */

static void procs_sweep(struct procs *procs, struct scratch_sweep what)
{
    procs->calls.sweep(procs->calls.ctx, &what);
}

static void scratch_release(struct conn *conn)
{
    if (conn->has_scratch)
        procs_sweep(conn->procs, scratch_of_process(&conn->procs->scratch, conn->serial));
    conn->has_scratch = false;
}

void procs_scratch_clear(struct procs *procs)
{
    bool any = false;
    for (int i = 0; i < CORE_SLOTS_MAX; i++) {
        struct conn *conn = procs->conns[i];
        any |= conn && conn->has_scratch;
        if (conn)
            conn->has_scratch = false;
    }
    if (!any)
        return;
    procs_sweep(procs, scratch_of_epoch(&procs->scratch));
    scratch_next_epoch(&procs->scratch);
}

static void scratch_answer(struct conn *conn)
{
    struct procmsg msg = {.type = PROCMSG_SCRATCH_DIR};
    if (scratch_path(&conn->procs->scratch, conn->serial, msg.path, sizeof msg.path)) {
        conn->has_scratch = true;
    } else {
        msg.path[0] = '\0';
        str_copy(msg.text, sizeof msg.text,
                 "the path of the scratch directory is too long; choose a shorter checkpoint.dir");
    }
    procs_send(conn->procs, conn->place, &msg);
}

/* Connections */

/* Limited, because any process of this user can connect again and again. */
#define log_about(procs, ...)                                      \
    do {                                                           \
        if (log_limit_ok(&(procs)->limit, "procs", LOG_LIMIT_FEW)) \
            log_warn("procs", __VA_ARGS__);                        \
    } while (0)

static bool procs_has_slot(const struct conn *conn)
{
    return conn->place < CORE_SLOTS_MAX;
}

/* The connection's memory stays while a callback uses it. */
static void procs_conn_close(struct conn *conn)
{
    struct procs *procs = conn->procs;
    scratch_release(conn);
    procs->conns[conn->place] = NULL;
    if (procs_has_slot(conn))
        deathwatch_closed(procs->deathwatch, conn->pid);
    watch_end(&conn->readable);
    watch_end(&conn->writable);
    watch_end(&conn->late);
    buf_free(&conn->out);
    procpage_release(&conn->page);
    fd_close(&conn->fd);
    if (procs->busy != conn)
        free(conn);
}

static void tell_news(const struct conn *conn, enum event_type type, const struct procmsg *msg)
{
    struct procs *procs = conn->procs;
    struct event news = {.type = type, .proc = {.slot = conn->place, .pid = conn->pid, .msg = msg}};
    news.proc.loading_ns = procpage_own(&conn->page, clock_now_ns()).loading_ns;
    procs->calls.news(procs->calls.ctx, &news);
}

static void conn_gone(struct conn *conn)
{
    struct procs *procs = conn->procs;
    bool has_slot = procs_has_slot(conn);
    struct event gone = {.type = EV_PROC_GONE, .proc = {.slot = conn->place, .pid = conn->pid}};
    if (has_slot) {
        gone.proc.step = procpage_step(&conn->page);
        gone.proc.loading_ns = procpage_own(&conn->page, clock_now_ns()).loading_ns;
    }
    procs_conn_close(conn);
    if (has_slot)
        procs->calls.news(procs->calls.ctx, &gone);
}

static bool is_full(int e)
{
    return e == EAGAIN || e == EWOULDBLOCK || e == ENOBUFS || e == ENOMEM;
}

static bool send_frame(int fd, const uint8_t *data, size_t size)
{
    return send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

/* The next read finds the end of the connection and reports it as gone, from the loop. */
static void procs_cut_off(struct conn *conn, const char *why)
{
    log_about(conn->procs, "closed the connection of process %d: %s", conn->pid, why);
    buf_free(&conn->out);
    shutdown(conn->fd, SHUT_RDWR);
}

/* Any error but a full buffer means that the connection has ended: the next read reports that. */
static void procs_on_write(void *ctx)
{
    struct conn *conn = ctx;
    struct frame frame;
    size_t size;
    while (buf_len(&conn->out) > 0 && frame_parse(FRAME_PROC, buf_bytes(&conn->out),
                                                  buf_len(&conn->out), &frame, &size) == FRAME_OK) {
        if (!send_frame(conn->fd, buf_bytes(&conn->out), size)) {
            if (is_full(errno) && !watch_arm(&conn->writable))
                procs_cut_off(conn, "memory is short");
            return;
        }
        buf_drop(&conn->out, size);
    }
}

static void procs_conn_send(struct conn *conn, const uint8_t *data, size_t size)
{
    if (buf_len(&conn->out) == 0 && (send_frame(conn->fd, data, size) || !is_full(errno)))
        return;
    if (!buf_add(&conn->out, data, size) || !watch_arm(&conn->writable))
        procs_cut_off(conn, "it does not read its messages");
}

/* WELCOME carries the pages. It is the first message on the socket, so there is room for it.
 */
static void procs_send_welcome(struct conn *conn, const uint8_t *data, size_t size)
{
    int rc = procpage_hand_over(&conn->page, conn->fd, data, size);
    if (rc != 0 && rc != EPIPE && rc != ECONNRESET)
        procs_cut_off(conn, strerror(rc));
}

static struct conn *conn_of(const struct procs *procs, int slot)
{
    return slot >= 0 && slot < CORE_SLOTS_MAX ? procs->conns[slot] : NULL;
}

void procs_send(struct procs *procs, int slot, const struct procmsg *msg)
{
    uint8_t frame[FRAME_MAX];
    struct conn *conn = conn_of(procs, slot);
    size_t size = procmsg_encode(msg, frame, sizeof frame);
    if (!conn || size == 0)
        return;
    log_debug("procs", "slot %d: %s", slot, procmsg_name(msg->type));
    if (msg->type == PROCMSG_WELCOME && conn->page.fd[0] >= 0)
        procs_send_welcome(conn, frame, size);
    else
        procs_conn_send(conn, frame, size);
}

void procs_close(struct procs *procs, int slot)
{
    struct conn *conn = conn_of(procs, slot);
    if (slot >= 0 && slot < CORE_SLOTS_MAX)
        procs->is_reserved[slot] = false;
    if (conn)
        procs_conn_close(conn);
}

/* For a connection without a slot: a fresh socket has room for the message. */
static void procs_refuse(struct procs *procs, int fd, const char *why)
{
    uint8_t frame[FRAME_MAX];
    struct procmsg msg = {.type = PROCMSG_REFUSED};
    str_copy(msg.text, sizeof msg.text, why);
    size_t size = procmsg_encode(&msg, frame, sizeof frame);
    if (!send_frame(fd, frame, size))
        log_debug("procs", "cannot send a process its refusal: %s", strerror(errno));
    log_about(procs, "a process is refused: %s", why);
}

/* The first free place from `from` to `to` - 1; -1: none is free. */
static int procs_free_place(const struct procs *procs, int from, int to)
{
    for (int i = from; i < to; i++)
        if (!procs->conns[i] && !procs->is_reserved[i])
            return i;
    return -1;
}

int procs_reserve(struct procs *procs)
{
    int slot = procs_free_place(procs, 0, CORE_SLOTS_MAX);
    if (slot >= 0)
        procs->is_reserved[slot] = true;
    return slot;
}

/* The core is not told of a process that only reports steps: nothing depends on such a process. */
static void refuse_attach(struct conn *conn, const struct procmsg *msg, const char *why)
{
    struct procs *procs = conn->procs;
    struct event event = {.type = EV_PROC_UNATTACHED,
                          .proc = {.slot = -1, .pid = conn->pid, .why = why}};
    procs_refuse(procs, conn->fd, why);
    procs_conn_close(conn);
    if (!(msg->flags & PROCMSG_FLAG_COUNTS))
        procs->calls.news(procs->calls.ctx, &event);
}

static void take_attach(struct conn *conn, const struct procmsg *msg)
{
    struct procs *procs = conn->procs;
    struct err err;
    int slot = procs_free_place(procs, 0, CORE_SLOTS_MAX);
    if (slot < 0)
        err_set(&err, ERR_SYSTEM, 0, "this node already has %d processes, its limit",
                CORE_SLOTS_MAX);
    if (slot < 0 || !procpage_make(&conn->page, procs->gate, msg->step, &err)) {
        refuse_attach(conn, msg, err.text);
        return;
    }
    procpage_set_notice(&conn->page, procs->notice_text, procs->notice_deadline);
    if (!procs->deathwatch)
        procs->deathwatch = deathwatch_new(procs->base, procs->calls.died, procs->calls.died_ctx);
    deathwatch_begin(procs->deathwatch, conn->pid, conn->page.fd[PROCPAGE_PROCESS]);
    watch_end(&conn->late);
    procs->conns[conn->place] = NULL;
    procs->conns[slot] = conn;
    conn->place = slot;
    tell_news(conn, EV_PROC_ATTACHED, msg);
}

static bool procs_take_message(struct conn *conn, const struct procmsg *msg, struct err *err)
{
    bool is_attach = msg->type == PROCMSG_ATTACH;
    if (msg->type >= PROCMSG_WELCOME)
        return err_set(err, ERR_PROTOCOL, 0, "it sent %s, which only the supervisor may send",
                       procmsg_name(msg->type));
    if (is_attach == procs_has_slot(conn))
        return err_set(err, ERR_PROTOCOL, 0,
                       is_attach ? "it sent ATTACH a second time" : "it sent %s before ATTACH",
                       procmsg_name(msg->type));
    if (is_attach)
        take_attach(conn, msg);
    else if (msg->type == PROCMSG_SCRATCH)
        scratch_answer(conn);
    else
        tell_news(conn, EV_PROC_MESSAGE, msg);
    return true;
}

static bool decode(const uint8_t *data, size_t n, struct procmsg *ret, struct err *err)
{
    struct frame frame;
    size_t size;
    enum frame_result result = frame_parse(FRAME_PROC, data, n, &frame, &size);
    if (result == FRAME_BAD_MAGIC)
        return err_set(err, ERR_PROTOCOL, 0, "it sent %zu bytes that are not from libpch", n);
    if (result != FRAME_OK || size != n)
        return err_set(err, ERR_PROTOCOL, 0, "it sent %zu bytes that are not one message", n);
    if (frame.version != PROCMSG_VERSION)
        return err_set(err, ERR_PROTOCOL, 0, "its libpch speaks version %u of the protocol, not %d",
                       frame.version, PROCMSG_VERSION);
    if (!procmsg_decode(&frame, ret))
        return err_set(err, ERR_PROTOCOL, 0, "it sent a malformed message of type %u (%s)",
                       frame.type, procmsg_name(frame.type));
    return true;
}

/* False: nothing more to read for now. */
static bool read_packet(struct conn *conn)
{
    uint8_t data[FRAME_MAX + 1]; /* one byte more, to detect a packet that is too long */
    struct procmsg msg;
    struct err err;
    ssize_t n = recv(conn->fd, data, sizeof data, MSG_DONTWAIT);
    /* A process that ends with unread answers resets the connection. Its last messages are still
     * readable after the error. */
    if (n < 0)
        return errno == EINTR || errno == ECONNRESET;
    if (n == 0) {
        conn_gone(conn);
        return false;
    }
    if (decode(data, (size_t)n, &msg, &err)) {
        /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): err_set never returns true */
        log_debug("procs", "process %d: %s", conn->pid, procmsg_name(msg.type));
        if (procs_take_message(conn, &msg, &err))
            return true;
    }
    log_about(conn->procs, "closed the connection of process %d, which breaks the protocol: %s",
              conn->pid, err.text);
    if (!procs_has_slot(conn))
        procs_refuse(conn->procs, conn->fd,
                     "this is not the protocol of this pchrun; use the libpch that came with it");
    conn_gone(conn);
    return false;
}

static void procs_on_read(void *ctx)
{
    struct conn *conn = ctx;
    struct procs *procs = conn->procs;
    procs->busy = conn;
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): a busy connection is not freed */
    for (int i = 0; i < AT_ONCE && conn->fd >= 0 && read_packet(conn); i++)
        ;
    procs->busy = NULL;
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the same */
    if (conn->fd < 0)
        free(conn);
}

void procs_hear(struct procs *procs)
{
    for (int i = 0; i < PLACES && !procs->busy; i++) /* a message may end other connections */
        if (procs->conns[i])
            procs_on_read(procs->conns[i]);
}

static void procs_on_late(void *ctx)
{
    struct conn *conn = ctx;
    log_about(conn->procs, "process %d connected, but did not attach within %d s", conn->pid,
              ATTACH_WAIT_S);
    procs_conn_close(conn);
}

/* Accepting */

/* Owns fd from now on, also if it fails. */
static bool procs_conn_new(struct procs *procs, int fd, int place, int pid)
{
    struct conn *conn = calloc(1, sizeof *conn);
    if (!conn) {
        close(fd);
        return false;
    }
    struct err err;
    *conn = (struct conn){.procs = procs,
                          .fd = fd,
                          .place = place,
                          .pid = pid,
                          .serial = ++procs->serial,
                          .since = clock_now_ns(),
                          .page = procpage_none};
    buf_init(&conn->out, OUT_MAX);
    watch_init(&conn->readable, procs->base, procs_on_read, conn);
    watch_init(&conn->writable, procs->base, procs_on_write, conn);
    watch_init(&conn->late, procs->base, procs_on_late, conn);
    watch_writable(&conn->writable, fd);
    procs->conns[place] = conn;
    if (!watch_fd(&conn->readable, fd, &err)) {
        procs_conn_close(conn);
        return false;
    }
    watch_at(&conn->late, conn->since + ATTACH_WAIT_S * NS_PER_S);
    return true;
}

/* libpch says ATTACH at once, so a flood evicts its own connections first. False: no waiting
 * connection is that old. */
static bool put_out_oldest(struct procs *procs, int64_t age_ns)
{
    struct conn *oldest = NULL;
    for (int i = CORE_SLOTS_MAX; i < PLACES; i++)
        if (procs->conns[i] && (!oldest || procs->conns[i]->serial < oldest->serial))
            oldest = procs->conns[i];
    if (!oldest || clock_now_ns() - oldest->since < age_ns)
        return false;
    log_about(procs,
              "process %d connected, but did not attach at once; closed to make room for others",
              oldest->pid);
    procs_conn_close(oldest);
    return true;
}

static void procs_on_accept(void *arg, int fd, const union netaddr *peer)
{
    struct procs *procs = arg;
    struct ucred who;
    int place = procs_free_place(procs, CORE_SLOTS_MAX, PLACES);
    if (!listener_is_welcome(fd, &who)) {
        procs_refuse(procs, fd, "it belongs to another user");
        close(fd);
        return;
    }
    if (place < 0 && put_out_oldest(procs, 0))
        place = procs_free_place(procs, CORE_SLOTS_MAX, PLACES);
    if (!procs_conn_new(procs, fd, place, who.pid))
        log_about(procs, "no memory for process %d", who.pid);
}

static bool procs_on_short(void *arg)
{
    return put_out_oldest(arg, LOBBY_CHANCE_NS);
}

/* Begin and end */

static void found_stale(void *ctx, const char *name)
{
    struct procs *procs = ctx;
    log_info("procs", "removing %s/%s, left behind by a dead pchrun", procs->dir.base, name);
    procs_sweep(procs, (struct scratch_sweep){.dir = procs->dir.base, .name = name});
}

/* Owns fd from now on, also if listening fails. */
static bool procs_listen(struct procs *procs, int fd, struct err *err)
{
    struct listener_options options = {.base = procs->base,
                                       .topic = "procs",
                                       .retry_ns = NS_PER_S,
                                       .on_accept = procs_on_accept,
                                       .on_short = procs_on_short,
                                       .arg = procs};
    listener_free(procs->listener);
    procs->listener = listener_adopt(&options, fd);
    return procs->listener || err_set(err, ERR_SYSTEM, 0, "no memory to listen for processes");
}

struct procs *procs_new(struct event_base *base, const struct config *config,
                        const struct procs_calls *calls, struct err *err)
{
    struct procs *procs = calloc(1, sizeof *procs);
    if (!procs) {
        err_set(err, ERR_SYSTEM, errno, "no memory for the processes");
        return NULL;
    }
    procs->base = base;
    procs->calls = *calls;
    procs->gate = GATE_OPEN;
    procs->notice_deadline = CLOCK_NEVER;
    FD_CLEANUP int fd = -1;
    if (!rundir_make(config->run_dir, &procs->dir, &fd, err)) {
        free(procs);
        return NULL;
    }
    const char *scratch = config->checkpoint.dir ? config->checkpoint.dir : procs->dir.path;
    if (!scratch_init(&procs->scratch, scratch, config->state_dir, config->cluster.node_rank,
                      err) ||
        !procs_listen(procs, fd_take(&fd), err)) {
        procs_free(procs);
        return NULL;
    }
    return procs;
}

void procs_clean(struct procs *procs)
{
    rundir_find_stale(&procs->dir, found_stale, procs);
    if (!str_is(procs->scratch.dir, procs->dir.path))
        procs_sweep(procs, scratch_of_earlier(&procs->scratch));
}

void procs_free(struct procs *procs)
{
    if (!procs)
        return;
    log_limit_end(&procs->limit, "procs");
    listener_free(procs->listener);
    for (int i = 0; i < PLACES; i++)
        if (procs->conns[i])
            procs_conn_close(procs->conns[i]);
    deathwatch_free(procs->deathwatch);
    /* If the directory is not empty, a child is still removing a scratch directory in it. */
    if (!rundir_remove(&procs->dir)) {
        const char *name = strrchr(procs->dir.path, '/') + 1;
        procs_sweep(procs, (struct scratch_sweep){.dir = procs->dir.base, .name = name});
    }
    free(procs);
}

bool procs_mend(struct procs *procs, struct err *err)
{
    int fd;
    bool ok = rundir_mend(&procs->dir, &fd, err);
    if (!ok || fd < 0)
        return ok;
    log_warn("start",
             "%s, where processes attach, was removed; it is made again, but pchctl may no longer "
             "find this pchrun",
             procs->dir.path);
    return procs_listen(procs, fd, err);
}

const struct rundir *procs_run_dir(const struct procs *procs)
{
    return &procs->dir;
}

void procs_gate(struct procs *procs, uint64_t word)
{
    procs->gate = word;
    for (int i = 0; i < CORE_SLOTS_MAX; i++)
        if (procs->conns[i])
            procpage_set_gate(&procs->conns[i]->page, word);
}

void procs_look(const struct procs *procs, uint64_t steps[CORE_SLOTS_MAX],
                uint8_t phases[CORE_SLOTS_MAX], struct page_own own[CORE_SLOTS_MAX])
{
    int64_t now = clock_now_ns();
    for (int i = 0; i < CORE_SLOTS_MAX; i++) {
        const struct conn *conn = procs->conns[i];
        steps[i] = conn ? procpage_step(&conn->page) : 0;
        phases[i] = conn ? procpage_phase(&conn->page) : PAGE_START;
        own[i] = conn ? procpage_own(&conn->page, now) : (struct page_own){0};
    }
}

void procs_notice(struct procs *procs, const char *text, int64_t deadline_ns)
{
    str_copy(procs->notice_text, sizeof procs->notice_text, text);
    procs->notice_deadline = deadline_ns;
    for (int i = 0; i < CORE_SLOTS_MAX; i++)
        if (procs->conns[i])
            procpage_set_notice(&procs->conns[i]->page, text, deadline_ns);
}

bool procs_clear_stacks(const struct procs *procs, int slot, struct procpage_stacks *ret)
{
    const struct conn *conn = conn_of(procs, slot);
    return conn && procpage_clear_stacks(&conn->page, ret);
}
