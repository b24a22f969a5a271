/* SPDX-License-Identifier: Apache-2.0
 * See control.h. Read first: unix(7).
 *
 * A client is freed only by control_on_event(), control_on_late() and control_free(). Other code
 * shuts the socket down, and the next read finds the end.
 */
#include "status/control.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "loop/watch.h"
#include "net/listener.h"
#include "json/json.h"
#include "json/writer.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FOLLOW_MAX = 256 * 1024 }; /* bytes of unread events per client */

struct control_client {
    struct control *control;
    struct bufferevent *stream; /* NULL: there is no client */
    struct watch late;          /* the end of the time for the request */
    int pid, uid;
    size_t unread_max; /* bytes */
    bool has_asked, follows, waits, is_cut;
};

struct control {
    struct control_options options;
    struct timeval patience;
    struct sockaddr_un addr;
    struct listener *listener;
    struct control_client clients[CONTROL_CLIENTS_MAX];
    struct log_limit limit;
};

/* --- a request --- */

/* A year: short enough that no computation with it overflows. */
#define LEFT_MAX_MS (INT64_C(366) * 24 * 3600 * 1000)

static bool take_flag(const struct json *member, bool *ret, struct err *err)
{
    return json_bool(member, ret) ||
           err_set(err, ERR_PROTOCOL, 0, "\"%s\" is not true or false", json_key(member));
}

static bool take_member(const struct json *member, struct control_request *ret, struct err *err)
{
    const char *key = json_key(member), *text = json_text(member);
    int64_t ms = -1;
    if (str_is(key, "follow"))
        return take_flag(member, &ret->follows, err);
    if (str_is(key, "all"))
        return take_flag(member, &ret->is_of_all, err);
    if (str_is(key, "save"))
        return take_flag(member, &ret->saves, err);
    if (str_is(key, "left_ms")) {
        bool ok = json_int(member, &ms) && ms >= 0 && ms <= LEFT_MAX_MS;
        ret->left_ns = ok ? ms * NS_PER_MS : NOTICE_LEFT_UNKNOWN;
        return ok || err_set(err, ERR_PROTOCOL, 0,
                             "\"left_ms\" must be a number of milliseconds, at most a year");
    }
    if (str_is(key, "text"))
        return (text && str_copy(ret->text, sizeof ret->text, text) && str_printable(ret->text)) ||
               err_set(err, ERR_PROTOCOL, 0, "\"text\" must be a text of at most %d bytes",
                       CONTROL_TEXT_MAX);
    return str_is(key, "version") || str_is(key, "do") ||
           err_set(err, ERR_PROTOCOL, 0, "a request may not have a member \"%.40s\"", key);
}

/* Checks the version first: a wrong version may be the reason for all other errors. */
static bool take_members(const struct json *root, struct control_request *ret, struct err *err)
{
    if (json_kind(root) != JSON_IS_OBJECT)
        return err_set(err, ERR_PROTOCOL, 0, "a request is an object, not %s",
                       json_kind_name(root));
    if (json_int_at(root, "version", -1) != CONTROL_VERSION)
        return err_set(err, ERR_PROTOCOL, 0,
                       "this pchrun (" PCHRUN_VERSION ") speaks version %d of the protocol; use "
                       "the pchctl that came with it",
                       CONTROL_VERSION);
    while (ret->verb < CONTROL__COUNT &&
           !str_is(json_text_at(root, "do"), control_names[ret->verb]))
        ret->verb++;
    if (ret->verb == CONTROL__COUNT)
        return err_set(err, ERR_PROTOCOL, 0, "\"do\" names no request that this pchrun knows");
    for (const struct json *member = json_first(root); member; member = json_next(member))
        if (!take_member(member, ret, err))
            return false;
    return true;
}

bool control_read(const char *line, size_t len, struct control_request *ret, struct err *err)
{
    *ret = (struct control_request){.left_ns = NOTICE_LEFT_UNKNOWN};
    JSON_CLEANUP struct json *root = json_read("request", line, len, err);
    return root && take_members(root, ret, err);
}

/* --- clients --- */

static void control_shut(struct control_client *client)
{
    shutdown(bufferevent_getfd(client->stream), SHUT_RDWR);
}

/* libevent closes the socket in the next iteration of the loop. */
static void client_free(struct control_client *client)
{
    control_shut(client);
    watch_end(&client->late);
    bufferevent_free(client->stream);
    client->stream = NULL;
}

static size_t unread_bytes(const struct control_client *client)
{
    return evbuffer_get_length(bufferevent_get_output(client->stream));
}

static void tell_cut_off(struct control_client *client, const char *why)
{
    if (log_limit_ok(&client->control->limit, "control", LOG_LIMIT_FEW))
        log_info("control", "closed the connection of client %d: %s", client->pid, why);
}

/* After the answer the connection ends, unless the client follows events. */
static void end_if_answered(struct control_client *client)
{
    if (client->has_asked && !client->follows && !client->waits && unread_bytes(client) == 0)
        control_shut(client);
}

static void control_on_written(struct bufferevent *stream, void *arg)
{
    end_if_answered(arg);
}

/* The client has closed the connection, or did not read in time. */
static void control_on_event(struct bufferevent *stream, short what, void *arg)
{
    struct control_client *client = arg;
    if (what & BEV_EVENT_TIMEOUT)
        tell_cut_off(client, "it does not read its answers");
    client_free(client);
}

/* Needs its own timer: libevent's timeout would start again with each byte. */
static void control_on_late(void *ctx)
{
    tell_cut_off(ctx, "it sends no request");
    client_free(ctx);
}

void control_answer(struct control_client *client, const char *text, size_t len)
{
    if (client->is_cut)
        return;
    if (unread_bytes(client) + len > client->unread_max ||
        bufferevent_write(client->stream, text, len) != 0) {
        tell_cut_off(client, "it does not read its answers");
        client->is_cut = true;
        control_shut(client);
    }
    client->waits = false;
    end_if_answered(client);
}

void control_answer_all(struct control *control, bool follows, const char *text, size_t len)
{
    for (int i = 0; control && i < CONTROL_CLIENTS_MAX; i++) {
        struct control_client *client = &control->clients[i];
        if (client->stream && (follows ? client->follows : client->waits))
            control_answer(client, text, len);
    }
}

/* --- what clients send --- */

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
    watch_at(&client->late, CLOCK_NEVER);
    if (len > CONTROL_REQUEST_MAX)
        err_set(&err, ERR_PROTOCOL, 0, "a request has at most %d bytes", CONTROL_REQUEST_MAX);
    if (len > CONTROL_REQUEST_MAX || !control_read(line, len, &request, &err)) {
        control_refuse(client, &err);
        return;
    }
    request.pid = client->pid;
    request.uid = client->uid;
    log_debug("control", "client %d: %s", client->pid, control_names[request.verb]);
    client->follows = request.follows && request.verb == CONTROL_EVENTS;
    client->waits = !control->options.asked(control->options.ctx, client, &request);
    /* From now on the smaller maximum applies: that for unread events. */
    if (client->follows)
        client->unread_max = unread_bytes(client) + FOLLOW_MAX;
}

/* Bytes after the request are ignored, but the end of the connection is not. */
static void control_on_read(struct bufferevent *stream, void *arg)
{
    struct control_client *client = arg;
    struct evbuffer *in = bufferevent_get_input(stream);
    size_t len = 0;
    char *line = client->has_asked ? NULL : evbuffer_readln(in, &len, EVBUFFER_EOL_LF);
    if (!line)
        len = evbuffer_get_length(in);
    if (!client->has_asked && (line || len > CONTROL_REQUEST_MAX))
        control_take(client, line, len);
    if (client->has_asked)
        evbuffer_drain(in, evbuffer_get_length(in));
    free(line);
}

/* --- accepting --- */

/* NULL: all places are in use. */
static struct control_client *free_client(struct control *control)
{
    for (int i = 0; i < CONTROL_CLIENTS_MAX; i++)
        if (!control->clients[i].stream)
            return &control->clients[i];
    return NULL;
}

static void control_on_accept(void *arg, int fd, const union netaddr *peer)
{
    static const char full[] =
        "{\"version\":1,\"ok\":false,\"error\":\"too many clients are connected already\"}\n";
    FD_CLEANUP int taken = fd;
    struct control *control = arg;
    struct ucred who;
    struct control_client *client = free_client(control);
    if (!listener_is_welcome(fd, &who))
        return;
    if (!client) {
        if (send(fd, full, sizeof full - 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            log_debug("control", "client %d is refused, and has already disconnected", who.pid);
        return;
    }
    struct bufferevent *stream =
        bufferevent_socket_new(control->options.base, fd, BEV_OPT_CLOSE_ON_FREE);
    if (!stream)
        return;
    fd_take(&taken);
    *client = (struct control_client){.control = control,
                                      .stream = stream,
                                      .pid = who.pid,
                                      .uid = (int)who.uid,
                                      .unread_max = CONTROL_ANSWER_MAX};
    watch_init(&client->late, control->options.base, control_on_late, client);
    watch_at(&client->late, clock_now_ns() + control->options.patience_ns);
    bufferevent_setcb(stream, control_on_read, control_on_written, control_on_event, client);
    /* Write all at once: if the client has shut its side down, no second write follows. */
    bufferevent_set_max_single_write(stream, CONTROL_ANSWER_MAX);
    bufferevent_set_timeouts(stream, NULL, &control->patience);
    bufferevent_enable(stream, EV_READ | EV_WRITE);
}

/* --- begin and end --- */

/* The socket gets its name only after listen(): a client that finds the name can connect. */
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
                                         .arg = control};
    /* The path fits: the ranks' socket in the same directory has a path at least as long. */
    str_addf(control->addr.sun_path, sizeof control->addr.sun_path, "%s/" CONTROL_SOCKET,
             options->dir);
    int fd = open_socket(&control->addr, err);
    control->listener = fd >= 0 ? listener_adopt(&listening, fd) : NULL;
    if (control->listener)
        return control;
    if (fd >= 0)
        err_set(err, ERR_SYSTEM, ENOMEM, "cannot listen for pchctl");
    control_free(control);
    return NULL;
}

/* Sends without the event loop, which has ended. */
static void send_rest(struct control_client *client)
{
    struct evbuffer *out = bufferevent_get_output(client->stream);
    size_t len = evbuffer_get_length(out);
    if (len > 0 && send(bufferevent_getfd(client->stream), evbuffer_pullup(out, -1), len,
                        MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        log_debug("control", "cannot send client %d its whole answer", client->pid);
}

void control_free(struct control *control)
{
    if (!control)
        return;
    for (int i = 0; i < CONTROL_CLIENTS_MAX; i++)
        if (control->clients[i].stream) {
            send_rest(&control->clients[i]);
            client_free(&control->clients[i]);
        }
    listener_free(control->listener);
    unlink(control->addr.sun_path);
    log_limit_end(&control->limit, "control");
    free(control);
}
