/* SPDX-License-Identifier: Apache-2.0
 *
 * charlm_net: the example's all-reduce, a star. A sum goes up to rank 0, is made there in the order
 * of the ranks, and comes back.
 *
 * It owns its sockets until the program ends. Joining has a deadline. Later waits have none while
 * the other rank lives, because that rank may be waiting for a save. A rank that dies closes its
 * socket; a host that dies is found by pchrun. Numbers are sent in the machine's own byte order.
 */
#include "charlm.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAGIC    UINT64_C(0x314d4c5241484302) /* also tells the byte order */
#define RETRY_MS 50

struct hello {
    uint64_t magic, token;
    long rank;
};

/* Rank 0 has one per rank, 0: none yet; the others have links[0], to rank 0. */
static int links[RANKS_MAX];

/* libpch catches SIGTERM, so any call may be interrupted. */
static bool transfer(int fd, void *data, size_t len, bool is_send)
{
    for (char *at = data, *end = at + len; at < end;) {
        size_t left = (size_t)(end - at);
        ssize_t n = is_send ? send(fd, at, left, MSG_NOSIGNAL) : recv(fd, at, left, 0);
        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        at += n > 0 ? n : 0;
    }
    return true;
}

/* 0: for ever. */
static void set_timeout(int fd, long seconds)
{
    struct timeval tv = {.tv_sec = seconds};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof tv); /* also of connect() */
}

/* Sockets that it accepts inherit all this. */
static int new_socket(const struct addrinfo *at)
{
    int on = 1, fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    set_timeout(fd, opt.join_timeout_s);
    return fd;
}

/* A connection from another program is closed without harm. A rank of this job with other numbers
 * ends the job. */
static bool admit(int fd, uint64_t token)
{
    struct hello hello;
    if (!transfer(fd, &hello, sizeof hello, false) || hello.magic != MAGIC) {
        close(fd);
        return false;
    }
    if (hello.rank < 1 || hello.rank >= opt.world || links[hello.rank] || hello.token != token)
        die("rank %ld cannot join: its number is taken, or its text or step differs", hello.rank);
    links[hello.rank] = fd;
    set_timeout(fd, 0);
    return true;
}

static void gather(const struct addrinfo *at, uint64_t token)
{
    int fd = new_socket(at);
    if (bind(fd, at->ai_addr, at->ai_addrlen) != 0 || listen(fd, RANKS_MAX) != 0)
        die("cannot listen at %s port %s: %m", opt.root, opt.port);
    for (long joined = 1; joined < opt.world;) {
        int link = accept(fd, NULL, NULL);
        if (link < 0 && errno == EAGAIN)
            die("only %ld of %ld ranks are here, and none came for %ld s", joined, opt.world,
                opt.join_timeout_s);
        joined += link >= 0 && admit(link, token);
    }
    close(fd);
}

static void connect_to_root(const struct addrinfo *at, uint64_t token)
{
    struct hello hello = {MAGIC, token, opt.rank};
    links[0] = new_socket(at);
    for (long tries = opt.join_timeout_s * 1000 / RETRY_MS;
         connect(links[0], at->ai_addr, at->ai_addrlen) != 0; tries--) {
        if (errno != ECONNREFUSED || tries == 0)
            die("no rank 0 at %s port %s within %ld s: %m", opt.root, opt.port, opt.join_timeout_s);
        usleep(RETRY_MS * 1000);
    }
    set_timeout(links[0], 0);
    if (!transfer(links[0], &hello, sizeof hello, true))
        die("lost rank 0: %m");
}

void net_join(uint64_t token)
{
    struct addrinfo want = {.ai_socktype = SOCK_STREAM}, *root;
    if (opt.world == 1)
        return;
    int rc = getaddrinfo(opt.root, opt.port, &want, &root);
    if (rc != 0)
        die("--root %s --port %s: %s", opt.root, opt.port, gai_strerror(rc));
    (opt.rank == 0 ? gather : connect_to_root)(root, token);
    freeaddrinfo(root);
}

long net_sum(struct gradient *values)
{
    static struct gradient more;
    const size_t size = sizeof more;
    if (opt.rank > 0 &&
        (!transfer(links[0], values, size, true) || !transfer(links[0], values, size, false)))
        return 0;
    for (long r = 1; opt.rank == 0 && r < opt.world; r++) {
        if (!transfer(links[r], &more, size, false))
            return r;
        for (size_t i = 0; i < size / sizeof(float); i++)
            ((float *)values)[i] += ((const float *)&more)[i];
    }
    for (long r = 1; opt.rank == 0 && r < opt.world; r++)
        if (!transfer(links[r], values, size, true))
            return r;
    return -1;
}
