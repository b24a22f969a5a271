/* SPDX-License-Identifier: Apache-2.0
 * See control.h. Read first: unix(7).
 *
 * Once connected, a client is freed only by control_on_read() and control_free(). Other code shuts
 * the socket down, and the next read finds the end.
 */
#include "status/control.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/lines.h"
#include "base/log.h"
#include "base/str.h"
#include "net/listener.h"
#include "json/writer.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    READ_CHUNK = 512,
    FOLLOW_MAX = 256 * 1024, /* bytes of unread events per client */
};

struct control_client {
    struct control *control;
    int fd, pid, uid;
    int place;
    uint64_t number;
    bool has_asked, follows, is_cut;
    struct event *on_read, *on_write, *on_late;
    struct lines in;
    struct buf out;
};

struct control {
    struct control_options options;
    struct timeval patience;
    struct sockaddr_un addr;
    struct listener *listener;
    struct control_client *clients[CONTROL_CLIENTS_MAX];
    struct log_limit limit;
    uint64_t clients_so_far;
};

/* --- clients --- */

static void control_free_event(struct event **event)
{
    if (*event)
        event_free(*event);
    *event = NULL;
}

static void client_free(struct control_client *client)
{
    client->control->clients[client->place] = NULL;
    control_free_event(&client->on_read);
    control_free_event(&client->on_write);
    control_free_event(&client->on_late);
    lines_free(&client->in);
    buf_free(&client->out);
    fd_close(&client->fd);
    free(client);
}

static void control_cut_off(struct control_client *client, const char *why)
{
    if (log_limit_ok(&client->control->limit, "control", LOG_LIMIT_FEW))
        log_info("control", "closed the connection of client %d: %s", client->pid, why);
    client->is_cut = true;
    shutdown(client->fd, SHUT_RDWR);
}

/* Restarts the client's deadline. */
static void be_patient(struct control_client *client)
{
    bool waits_for_it = !client->has_asked || buf_len(&client->out) > 0;
    if (!waits_for_it)
        event_del(client->on_late);
    else if (event_add(client->on_late, &client->control->patience) != 0)
        control_cut_off(client, "memory is short");
}

static bool control_is_again(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR || error == ENOBUFS;
}

/* False: the other side is gone. */
static bool send_some(struct control_client *client)
{
    while (buf_len(&client->out) > 0) {
        ssize_t n = send(client->fd, buf_bytes(&client->out), buf_len(&client->out),
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0)
            return control_is_again(errno);
        buf_drop(&client->out, (size_t)n);
        be_patient(client);
    }
    return true;
}

/* After the answer the connection ends, unless the client follows events. */
static void control_go_on(struct control_client *client)
{
    bool is_there = send_some(client);
    bool waits = is_there && buf_len(&client->out) > 0;
    if (waits && event_add(client->on_write, NULL) == 0) {
        be_patient(client);
        return;
    }
    event_del(client->on_write);
    if (!is_there || waits || (client->has_asked && !client->follows))
        shutdown(client->fd, SHUT_RDWR);
}

static void control_on_write(evutil_socket_t fd, short what, void *arg)
{
    control_go_on(arg);
}

static void control_add(struct control_client *client, const char *text, size_t len)
{
    if (client->is_cut)
        return;
    if (buf_add(&client->out, text, len))
        control_go_on(client);
    else
        control_cut_off(client, "it does not read its answers");
}

void control_answer(struct control_client *client, const char *text, size_t len)
{
    control_add(client, text, len);
}

uint64_t control_number(const struct control_client *client)
{
    return client->number;
}

struct control_client *control_find(const struct control *control, uint64_t number)
{
    for (int i = 0; control && i < CONTROL_CLIENTS_MAX; i++)
        if (control->clients[i] && control->clients[i]->number == number)
            return control->clients[i];
    return NULL;
}

void control_tell(struct control *control, const char *text, size_t len)
{
    for (int i = 0; control && i < CONTROL_CLIENTS_MAX; i++)
        if (control->clients[i] && control->clients[i]->follows)
            control_add(control->clients[i], text, len);
}

/* --- requests --- */

static void control_refuse(struct control_client *client, const struct err *err)
{
    struct writer w;
    size_t len;
    writer_init(&w, 4096, WRITER_LINE);
    writer_object(&w, NULL);
    writer_int(&w, "version", CONTROL_VERSION);
    writer_bool(&w, "ok", false);
    writer_text(&w, "error", err->text);
    writer_end(&w);
    const char *text = writer_done(&w, &len);
    if (text)
        control_answer(client, text, len);
    writer_free(&w);
}

static void control_take(struct control_client *client, const char *line, size_t len)
{
    struct control_request request;
    struct err err;
    struct control *control = client->control;
    client->has_asked = true;
    if (!controlmsg_read(line, len, &request, &err)) {
        control_refuse(client, &err);
        return;
    }
    request.pid = client->pid;
    request.uid = client->uid;
    log_debug("control", "client %d: %s", client->pid, control_name(request.verb));
    client->follows = request.follows && request.verb == CONTROL_EVENTS;
    control->options.asked(control->options.ctx, client, &request);
    /* The bound for unread events is smaller than that for an answer. */
    if (client->follows)
        client->out.max = buf_len(&client->out) + FOLLOW_MAX;
    be_patient(client);
}

static void take_lines(struct control_client *client)
{
    char *line;
    size_t len;
    struct err err;
    switch (lines_next(&client->in, &line, &len)) {
    case LINES_ONE:
        control_take(client, line, len);
        break;
    case LINES_TOO_LONG:
        client->has_asked = true;
        err_set(&err, ERR_PROTOCOL, 0, "a request has at most %d bytes", CONTROL_REQUEST_MAX);
        control_refuse(client, &err);
        break;
    case LINES_NONE:
        break;
    }
}

/* Bytes after the request are ignored, but the end of the connection is not. */
static void control_on_read(evutil_socket_t fd, short what, void *arg)
{
    struct control_client *client = arg;
    char data[READ_CHUNK];
    ssize_t n = recv(fd, data, sizeof data, MSG_DONTWAIT);
    if (n < 0 && control_is_again(errno))
        return;
    if (n <= 0) {
        client_free(client);
        return;
    }
    if (client->has_asked)
        return;
    if (lines_add(&client->in, data, (size_t)n))
        take_lines(client);
    else
        control_cut_off(client, "memory is short");
}

static void control_on_late(evutil_socket_t fd, short what, void *arg)
{
    struct control_client *client = arg;
    control_cut_off(client,
                    client->has_asked ? "it does not read its answers" : "it sends no request");
}

/* --- accepting --- */

static int control_free_place(const struct control *control)
{
    for (int i = 0; i < CONTROL_CLIENTS_MAX; i++)
        if (!control->clients[i])
            return i;
    return -1;
}

static bool control_watch(struct control_client *client)
{
    struct event_base *base = client->control->options.base;
    client->on_read = event_new(base, client->fd, EV_READ | EV_PERSIST, control_on_read, client);
    client->on_write = event_new(base, client->fd, EV_WRITE | EV_PERSIST, control_on_write, client);
    client->on_late = evtimer_new(base, control_on_late, client);
    return client->on_read && client->on_write && client->on_late &&
           event_add(client->on_read, NULL) == 0 &&
           event_add(client->on_late, &client->control->patience) == 0;
}

static void control_on_accept(void *arg, int fd, const union netaddr *peer)
{
    static const char full[] =
        "{\"version\":1,\"ok\":false,\"error\":\"too many clients are connected already\"}\n";
    FD_CLEANUP int taken = fd;
    struct control *control = arg;
    struct ucred who;
    int place = control_free_place(control);
    if (!listener_is_welcome(fd, &who))
        return;
    if (place < 0) {
        if (send(fd, full, sizeof full - 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            log_debug("control", "client %d is refused, and has already left", who.pid);
        return;
    }
    struct control_client *client = calloc(1, sizeof *client);
    if (!client)
        return;
    *client = (struct control_client){.control = control,
                                      .fd = fd_take(&taken),
                                      .pid = who.pid,
                                      .uid = (int)who.uid,
                                      .place = place,
                                      .number = ++control->clients_so_far};
    control->clients[place] = client;
    lines_init(&client->in, CONTROL_REQUEST_MAX, READ_CHUNK);
    buf_init(&client->out, CONTROL_ANSWER_MAX);
    if (!control_watch(client))
        client_free(client);
}

static bool control_on_short(void *arg)
{
    return false;
}

/* --- begin and end --- */

/* Renamed only after listen(), so that no client finds a socket that refuses it. */
static int open_socket(const struct sockaddr_un *addr, struct err *err)
{
    struct sockaddr_un hidden = *addr;
    str_addf(hidden.sun_path, sizeof hidden.sun_path, "~");
    FD_CLEANUP int fd = listener_make_unix(&hidden, SOCK_STREAM, err);
    if (fd >= 0 && rename(hidden.sun_path, addr->sun_path) != 0) {
        err_set(err, ERR_SYSTEM, errno, "cannot listen at %s", addr->sun_path);
        fd_close(&fd);
    }
    return fd_take(&fd);
}

struct control *control_new(const struct control_options *options, struct err *err)
{
    struct control *control = calloc(1, sizeof *control);
    if (!control) {
        err_set(err, ERR_SYSTEM, ENOMEM, "cannot listen for pchctl");
        return NULL;
    }
    *control = (struct control){.options = *options,
                                .patience = {.tv_sec = options->patience_ns / NS_PER_S,
                                             .tv_usec = options->patience_ns % NS_PER_S / 1000},
                                .addr = {.sun_family = AF_UNIX}};
    struct listener_options listening = {.base = options->base,
                                         .topic = "control",
                                         .retry_ns = NS_PER_S,
                                         .on_accept = control_on_accept,
                                         .on_short = control_on_short,
                                         .arg = control};
    if (snprintf(control->addr.sun_path, sizeof control->addr.sun_path, "%s/" CONTROL_SOCKET,
                 options->dir) >= (int)sizeof control->addr.sun_path) {
        err_set(err, ERR_SYSTEM, ENAMETOOLONG, "cannot listen in %s", options->dir);
        free(control);
        return NULL;
    }
    int fd = open_socket(&control->addr, err);
    control->listener = fd >= 0 ? listener_adopt(&listening, fd) : NULL;
    if (control->listener)
        return control;
    if (fd >= 0)
        err_set(err, ERR_SYSTEM, ENOMEM, "cannot listen for pchctl");
    control_free(control);
    return NULL;
}

void control_free(struct control *control)
{
    if (!control)
        return;
    for (int i = 0; i < CONTROL_CLIENTS_MAX; i++)
        if (control->clients[i])
            client_free(control->clients[i]);
    listener_free(control->listener);
    unlink(control->addr.sun_path);
    log_limit_end(&control->limit, "control");
    free(control);
}
