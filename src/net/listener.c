/* SPDX-License-Identifier: Apache-2.0
 * See listener.h.
 */
#include "net/listener.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "net/portowner.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ACCEPTS_PER_WAKE = 16, BACKLOG = 4096 };

struct listener {
    struct listener_options options;
    size_t n;
    struct event readable[NETADDR_LIST_MAX]; /* each owns its socket */
    struct event retry;
    bool is_reported; /* reset when an accept succeeds */
};

/* False: memory is short. */
static bool listen_on(struct listener *listener)
{
    bool ok = true;
    for (size_t i = 0; i < listener->n; i++)
        ok &= event_add(&listener->readable[i], NULL) == 0;
    return ok;
}

static void back_off(struct listener *listener, int error)
{
    char text[32];
    struct err why;
    err_set(&why, ERR_SYSTEM, error, "cannot accept connections");
    int64_t ns = listener->options.retry_ns;
    if (!listener->is_reported)
        log_warn(listener->options.topic, "%s; trying again every %s", why.text,
                 str_duration(ns, text, sizeof text));
    listener->is_reported = true;
    struct timeval tv = {.tv_sec = ns / NS_PER_S, .tv_usec = ns % NS_PER_S / 1000};
    /* No memory for the timer: retry at once, or accepting would never resume. */
    if (evtimer_add(&listener->retry, &tv) != 0)
        event_active(&listener->retry, EV_TIMEOUT, 0);
    for (size_t i = 0; i < listener->n; i++)
        event_del(&listener->readable[i]);
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
    struct listener *listener = arg;
    if (!listen_on(listener))
        back_off(listener, ENOMEM);
}

static bool is_shortage(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static int accept_from(int on, union netaddr *ret_peer)
{
    socklen_t size = sizeof *ret_peer;
    memset(ret_peer, 0, sizeof *ret_peer);
    return accept4(on, &ret_peer->any, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

/* Accepts one connection. False: accept no more until the next wake-up. */
static bool accept_one(struct listener *listener, int on)
{
    const struct listener_options *options = &listener->options;
    union netaddr peer;
    int fd = accept_from(on, &peer);
    /* on_short() has closed a connection: accept only one in its place. Without a free descriptor
     * accept() fails even if none waits, and on_short() would close another one. */
    bool is_tight =
        fd < 0 && is_shortage(errno) && options->on_short && options->on_short(options->arg);
    if (is_tight)
        fd = accept_from(on, &peer);
    if (fd >= 0) {
        listener->is_reported = false;
        options->on_accept(options->arg, fd, &peer);
        return !is_tight;
    }
    if (is_shortage(errno)) {
        back_off(listener, errno);
        return false;
    }
    /* Any other error is the network error of one connection, which broke before it was accepted.
     * Others may wait. */
    return errno != EAGAIN && errno != EWOULDBLOCK;
}

static void listener_on_readable(evutil_socket_t fd, short what, void *arg)
{
    for (int i = 0; i < ACCEPTS_PER_WAKE && accept_one(arg, fd); i++)
        ;
}

static bool listener_set_up(int fd, const union netaddr *where)
{
    int yes = 1, no = 0;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0)
        return false;
    /* "::" also accepts IPv4, whatever the system's default. */
    if (where->any.sa_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    return bind(fd, &where->any, netaddr_size(where)) == 0 && listen(fd, BACKLOG) == 0;
}

static bool say_why(const union netaddr *where, int error, struct err *err)
{
    char at[NETADDR_TEXT_MAX], who[128];
    netaddr_text(where, at, sizeof at);
    if (error == EADDRINUSE)
        return err_set(err, ERR_SYSTEM, 0,
                       "cannot listen on %s: the port is in use; %s; set cluster.port to another",
                       at, portowner_of(where, who, sizeof who));
    if (error == EADDRNOTAVAIL)
        return err_set(err, ERR_SYSTEM, 0,
                       "cannot listen on %s: this machine does not have that address; "
                       "check cluster.bind, or the node rank",
                       at);
    return err_set(err, ERR_SYSTEM, error, "cannot listen on %s%s", at, netaddr_lacks(where));
}

/* Takes ownership of the socket. */
static void listener_watch(struct listener *listener, int fd)
{
    event_assign(&listener->readable[listener->n++], listener->options.base, fd,
                 EV_READ | EV_PERSIST, listener_on_readable, listener);
}

/* Adds one socket. Returns 0 or an errno. */
static int listener_add(struct listener *listener, const union netaddr *where)
{
    FD_CLEANUP int fd = socket(where->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || !listener_set_up(fd, where))
        return errno;
    listener_watch(listener, fd_take(&fd));
    return 0;
}

/* Skips missing addresses: "localhost" has an IPv6 address even where IPv6 is off. */
static bool add_all(struct listener *listener, const struct netaddr_list *where, struct err *err)
{
    for (size_t i = 0; i < where->n; i++) {
        int error = listener_add(listener, &where->all[i]);
        bool is_absent = error == EADDRNOTAVAIL || error == EAFNOSUPPORT;
        if (error && !(is_absent && (listener->n > 0 || i + 1 < where->n)))
            return say_why(&where->all[i], error, err);
    }
    return true;
}

static struct listener *listener_make(const struct listener_options *options)
{
    struct listener *listener = calloc(1, sizeof *listener);
    if (!listener)
        return NULL;
    listener->options = *options;
    evtimer_assign(&listener->retry, options->base, on_retry, listener);
    return listener;
}

struct listener *listener_new(const struct listener_options *options,
                              const struct netaddr_list *where, struct err *err)
{
    struct listener *listener = listener_make(options);
    if (!listener) {
        err_set(err, ERR_SYSTEM, ENOMEM, "cannot listen");
        return NULL;
    }
    bool ok = add_all(listener, where, err) &&
              (listen_on(listener) || err_set(err, ERR_SYSTEM, ENOMEM, "cannot listen"));
    if (ok)
        return listener;
    listener_free(listener);
    return NULL;
}

struct listener *listener_adopt(const struct listener_options *options, int fd)
{
    FD_CLEANUP int taken = fd;
    struct listener *listener = listener_make(options);
    if (!listener)
        return NULL;
    listener_watch(listener, fd_take(&taken));
    if (listen_on(listener))
        return listener;
    listener_free(listener);
    return NULL;
}

int listener_make_unix(const struct sockaddr_un *addr, int type, struct err *err)
{
    FD_CLEANUP int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        err_set(err, ERR_SYSTEM, errno, "cannot make a Unix socket");
        return -1;
    }
    mode_t mask = umask(0177);
    bool is_bound = bind(fd, (const struct sockaddr *)addr, sizeof *addr) == 0;
    umask(mask);
    if (is_bound && listen(fd, SOMAXCONN) == 0)
        return fd_take(&fd);
    err_set(err, ERR_SYSTEM, errno, is_bound ? "cannot listen at %s" : "cannot bind %s",
            addr->sun_path);
    return -1;
}

bool listener_is_welcome(int fd, struct ucred *ret)
{
    socklen_t len = sizeof *ret;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret, &len) == 0 &&
           (ret->uid == geteuid() || ret->uid == 0);
}

void listener_free(struct listener *listener)
{
    if (!listener)
        return;
    for (size_t i = 0; i < listener->n; i++) {
        event_del(&listener->readable[i]);
        close(event_get_fd(&listener->readable[i]));
    }
    evtimer_del(&listener->retry);
    free(listener);
}

int listener_port(const struct listener *listener)
{
    union netaddr own;
    socklen_t size = sizeof own;
    if (getsockname(event_get_fd(&listener->readable[0]), &own.any, &size) != 0)
        return 0;
    return netaddr_port(&own);
}
