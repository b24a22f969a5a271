/* SPDX-License-Identifier: Apache-2.0
 * See listener.h. To tell which process has a port, finds the inode of the port's socket in
 * /proc/net/tcp and tcp6, then the process that has this inode in /proc/PID/fd.
 */
#include "net/listener.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <glob.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdio.h>
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
     * accept() fails even if no connection waits, and on_short() would close another. */
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
     * Other connections may wait. */
    return errno != EAGAIN && errno != EWOULDBLOCK;
}

static void listener_on_readable(evutil_socket_t fd, short what, void *arg)
{
    for (int i = 0; i < ACCEPTS_PER_WAKE && accept_one(arg, fd); i++)
        ;
}

/* --- the process that has a port --- */

/* Reads a line's local address: 8 or 32 hexadecimal digits, as words in the host's byte order. */
static bool parse_host(const char *hex, union netaddr *ret)
{
    size_t words = strlen(hex) / 8;
    uint32_t raw[4] = {0};
    if (words != 1 && words != 4)
        return false;
    for (size_t i = 0; i < words; i++)
        if (sscanf(hex + 8 * i, "%8" SCNx32, &raw[i]) != 1)
            return false;
    memset(ret, 0, sizeof *ret);
    ret->any.sa_family = words == 1 ? AF_INET : AF_INET6;
    if (words == 1)
        memcpy(&ret->v4.sin_addr, raw, 4);
    else
        memcpy(&ret->v6.sin6_addr, raw, 16);
    return true;
}

static bool is_any(const union netaddr *a)
{
    return a->any.sa_family == AF_INET ? a->v4.sin_addr.s_addr == INADDR_ANY
                                       : IN6_IS_ADDR_UNSPECIFIED(&a->v6.sin6_addr);
}

/* The inode of the socket; 0: not found. A port may have a listening socket and connections:
 * returns the listening socket if there is one. */
static uint64_t find_inode(const char *path, const union netaddr *where)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    uint64_t best = 0;
    bool is_listening = false;
    char line[512];
    while (!is_listening && fgets(line, sizeof line, file)) {
        char host[40];
        unsigned port, state;
        uint64_t inode;
        union netaddr there;
        if (sscanf(line, " %*d: %32[0-9A-F]:%x %*s %x %*s %*s %*s %*s %*s %" SCNu64, host, &port,
                   &state, &inode) != 4)
            continue;
        if ((int)port != netaddr_port(where) || inode == 0 || !parse_host(host, &there))
            continue;
        if (!is_any(&there) && !is_any(where) && !netaddr_same_host(&there, where))
            continue;
        best = inode;
        is_listening = state == 0x0a; /* TCP_LISTEN */
    }
    fclose(file);
    return best;
}

static bool find_process(uint64_t inode, char *text, size_t size)
{
    char socket[64], target[64], path[64], name[64];
    glob_t all;
    bool found = false;
    snprintf(socket, sizeof socket, "socket:[%" PRIu64 "]", inode);
    if (glob("/proc/[1-9]*/fd/*", GLOB_NOSORT, NULL, &all) != 0)
        return false;
    for (size_t i = 0; !found && i < all.gl_pathc; i++) {
        ssize_t n = readlink(all.gl_pathv[i], target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        found = str_is(target, socket);
        if (!found)
            continue;
        int pid = atoi(all.gl_pathv[i] + strlen("/proc/"));
        snprintf(path, sizeof path, "/proc/%d/comm", pid);
        if (!fd_read_line(path, name, sizeof name))
            str_copy(name, sizeof name, "?");
        snprintf(text, size, "pid %d (%s) holds it", pid, name);
    }
    globfree(&all);
    return found;
}

/* "pid 4711 (python3) holds it", or that the process cannot be seen. Only root sees other users'
 * processes. Other network namespaces are invisible. Returns text. */
static char *portowner_of(const union netaddr *where, char *text, size_t size)
{
    uint64_t inode = find_inode("/proc/net/tcp", where);
    if (!inode)
        inode = find_inode("/proc/net/tcp6", where);
    if (!inode || !find_process(inode, text, size))
        str_copy(text, size, "no permission to see which process holds it");
    return text;
}

/* --- making sockets --- */

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
                       "cannot listen on %s: the port is in use; %s; set another port by "
                       "cluster.port or in cluster.nodes",
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
    const int wait_s = 5;
    FD_CLEANUP int fd = socket(where->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || !listener_set_up(fd, where))
        return errno;
    if (listener->options.waits_for_bytes)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &wait_s, sizeof wait_s);
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

bool listener_where(const struct listener *listener, char *text, size_t size)
{
    bool is_loopback = true;
    text[0] = '\0';
    for (size_t i = 0; i < listener->n; i++) {
        union netaddr own;
        socklen_t len = sizeof own;
        char one[NETADDR_TEXT_MAX];
        if (getsockname(event_get_fd(&listener->readable[i]), &own.any, &len) != 0)
            continue;
        is_loopback = is_loopback && netaddr_is_loopback(&own);
        str_addf(text, size, "%s%s", text[0] ? ", " : "", netaddr_text(&own, one, sizeof one));
    }
    return is_loopback;
}
