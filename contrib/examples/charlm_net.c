/* SPDX-License-Identifier: Apache-2.0
 *
 * charlm_net: the example's all-reduce. Rank 0 listens, the others connect to it and say who they
 * are; a sum goes up to rank 0, is made there in the order of the ranks, and comes back.
 *
 * Numbers travel as the machine has them: all ranks must be of one byte order, which the HELLO's
 * magic tells. A struct net owns its sockets. Joining has a deadline; after it a wait lasts as long
 * as the other rank lives, for it may rightly be waiting for a save: a rank that dies closes its
 * socket, and a host that dies is found by keep-alive. One thread at a time.
 */
#include "charlm.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HELLO_MAGIC   UINT64_C(0x31304d4c52414843) /* "CHARLM01" */
#define HELLO_WAIT_MS 5000 /* a stranger that says nothing holds up the others no longer */
#define RETRY_MS      50
#define DEAD_HOST_S   30

struct hello {
    uint64_t magic, token;
    int32_t rank, world;
};

enum verdict { JOINED, BAD_WORLD, BAD_RANK, BAD_TOKEN, VERDICT__COUNT };

static const char *const verdict_text[] = {
    [JOINED] = "joined",
    [BAD_WORLD] = "it counts another number of ranks than rank 0: start all with one world size",
    [BAD_RANK] = "its rank is taken or out of range: give each process a rank of its own",
    [BAD_TOKEN] = "its step, text or options differ from rank 0's: start all with the same ones",
};

static int64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * INT64_C(1000) + ts.tv_nsec / 1000000;
}

static bool send_all(int fd, const void *data, size_t len)
{
    for (const char *p = data; len > 0;) {
        ssize_t n = send(fd, p, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        p += n;
        len -= (size_t)n;
    }
    return true;
}

/* errno is 0 where the other side has closed. */
static bool recv_all(int fd, void *data, size_t len)
{
    for (char *p = data; len > 0;) {
        ssize_t n = recv(fd, p, len, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = 0;
        if (n <= 0)
            return false;
        p += n;
        len -= (size_t)n;
    }
    return true;
}

/* 0: for ever. */
static void set_timeouts(int fd, int64_t ms)
{
    struct timeval tv = {ms / 1000, ms % 1000 * 1000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)); /* connect() obeys it, too */
}

static void set_lasting(int fd)
{
    int on = 1, idle = DEAD_HOST_S / 2, interval = DEAD_HOST_S / 6, count = 3;
    int unanswered_ms = DEAD_HOST_S * 1000;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, sizeof(unanswered_ms));
    set_timeouts(fd, 0);
}

/* ADDR:PORT, [ADDR]:PORT. The caller frees *ret by freeaddrinfo(). */
static bool look_up(const char *root, int flags, struct addrinfo **ret, struct why *why)
{
    char host[256];
    const char *colon = strrchr(root, ':');
    const char *start = root + (*root == '['), *end = colon;
    if (colon && start > root && end > start && end[-1] == ']')
        end--;
    if (!colon || !colon[1] || end <= start || (size_t)(end - start) >= sizeof(host))
        return why_set(why, 0, "--root %s: not ADDR:PORT", root);
    memcpy(host, start, (size_t)(end - start));
    host[end - start] = '\0';
    struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_flags = flags};
    int rc = getaddrinfo(host, colon + 1, &want, ret);
    if (rc != 0)
        return why_set(why, 0, "--root %s: %s", root, gai_strerror(rc));
    return true;
}

/* --- rank 0 --- */

static int listen_at(const char *root, int backlog, struct why *why)
{
    struct addrinfo *list;
    if (!look_up(root, AI_PASSIVE | AI_NUMERICSERV, &list, why))
        return -1;
    int fd = -1, on = 1, failed = 0;
    for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
            bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, backlog) == 0)
            break;
        failed = errno;
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    freeaddrinfo(list);
    if (fd < 0)
        why_set(why, failed, "cannot listen at %s (--root)", root);
    return fd;
}

static enum verdict judge(const struct net *net, const struct hello *hello, uint64_t token)
{
    if (hello->world != net->world)
        return BAD_WORLD;
    if (hello->rank < 1 || hello->rank >= net->world || net->links[hello->rank] >= 0)
        return BAD_RANK;
    return hello->token == token ? JOINED : BAD_TOKEN;
}

/* Takes one connection. A stranger is sent away and does no harm; a rank of ours that does not fit
 * ends the job. */
static bool admit(struct net *net, int fd, uint64_t token, struct why *why)
{
    struct hello hello;
    set_timeouts(fd, HELLO_WAIT_MS);
    if (!recv_all(fd, &hello, sizeof(hello)) || hello.magic != HELLO_MAGIC) {
        close(fd);
        return true;
    }
    uint32_t verdict = judge(net, &hello, token);
    bool told = send_all(fd, &verdict, sizeof(verdict));
    if (verdict == JOINED && told) {
        set_lasting(fd);
        net->links[hello.rank] = fd;
        return true;
    }
    close(fd);
    if (verdict == JOINED)
        return true; /* it hung up, and may come again */
    return why_set(why, 0, "rank %d cannot join: %s", (int)hello.rank, verdict_text[verdict]);
}

static bool why_missing(const struct net *net, int timeout_s, struct why *why)
{
    char missing[200] = "";
    for (int r = 1; r < net->world; r++) {
        size_t used = strlen(missing);
        if (net->links[r] < 0)
            snprintf(missing + used, sizeof(missing) - used, " %d", r);
    }
    return why_set(why, 0, "did not join within %d s: rank%s", timeout_s, missing);
}

static bool gather(struct net *net, const struct net_options *options, struct why *why)
{
    int listener = listen_at(options->root, options->world, why);
    if (listener < 0)
        return false;
    int64_t deadline = now_ms() + options->timeout_s * INT64_C(1000);
    bool ok = true;
    for (int joined = 0; ok && joined < net->world - 1;) {
        struct pollfd wait = {.fd = listener, .events = POLLIN};
        int64_t left = deadline - now_ms();
        if (left <= 0)
            ok = why_missing(net, options->timeout_s, why);
        if (left <= 0 || poll(&wait, 1, (int)left) <= 0)
            continue;
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            ok = admit(net, fd, options->token, why);
        joined = 0;
        for (int r = 1; r < net->world; r++)
            joined += net->links[r] >= 0;
    }
    close(listener);
    return ok;
}

/* --- the other ranks --- */

static int connect_once(const struct addrinfo *list, int64_t left_ms)
{
    int failed = 0;
    for (const struct addrinfo *a = list; a; a = a->ai_next) {
        int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (fd < 0)
            return -1;
        set_timeouts(fd, left_ms);
        if (connect(fd, a->ai_addr, a->ai_addrlen) == 0)
            return fd;
        failed = errno;
        close(fd);
    }
    errno = failed;
    return -1;
}

/* Connects and says who we are. 1: joined; 0: nobody there yet, errno says why; -1: refused. */
static int try_join(struct net *net, const struct addrinfo *list, const struct hello *hello,
                    int64_t left_ms, struct why *why)
{
    int fd = connect_once(list, left_ms);
    if (fd < 0)
        return 0;
    uint32_t verdict;
    if (!send_all(fd, hello, sizeof(*hello)) || !recv_all(fd, &verdict, sizeof(verdict))) {
        int failed = errno;
        close(fd);
        errno = failed ? failed : ECONNRESET;
        return 0;
    }
    if (verdict == JOINED) {
        set_lasting(fd);
        net->links[0] = fd;
        return 1;
    }
    close(fd);
    why_set(why, 0, "rank 0 refuses rank %d: %s", net->rank,
            verdict < VERDICT__COUNT ? verdict_text[verdict] : "no reason that we know");
    return -1;
}

static bool join(struct net *net, const struct net_options *options, struct why *why)
{
    struct addrinfo *list;
    if (!look_up(options->root, AI_NUMERICSERV, &list, why))
        return false;
    const struct hello hello = {HELLO_MAGIC, options->token, options->rank, options->world};
    int64_t deadline = now_ms() + options->timeout_s * INT64_C(1000);
    int rc = 0;
    for (int64_t left = deadline - now_ms(); rc == 0 && left > 0; left = deadline - now_ms()) {
        rc = try_join(net, list, &hello, left, why);
        if (rc == 0) {
            int failed = errno;
            poll(NULL, 0, RETRY_MS);
            errno = failed;
        }
    }
    if (rc == 0)
        why_set(why, errno, "no rank 0 at %s (--root) within %d s", options->root,
                options->timeout_s);
    freeaddrinfo(list);
    return rc == 1;
}

/* --- all ranks --- */

bool net_init(struct net *net, const struct net_options *options, struct why *why)
{
    *net = (struct net){.rank = options->rank, .world = options->world};
    if (net->world == 1)
        return true;
    net->links = malloc((size_t)net->world * sizeof(int));
    net->incoming = malloc(options->longest * sizeof(float));
    net->longest = options->longest;
    if (!net->links || !net->incoming) {
        free(net->links);
        net->links = NULL;
        return why_set(why, 0, "no memory for %d connections", net->world);
    }
    for (int r = 0; r < net->world; r++)
        net->links[r] = -1;
    return net->rank == 0 ? gather(net, options, why) : join(net, options, why);
}

void net_fini(struct net *net)
{
    for (int r = 0; net->links && r < net->world; r++)
        if (net->links[r] >= 0)
            close(net->links[r]);
    free(net->links);
    free(net->incoming);
    *net = (struct net){0};
}

static bool lost(int rank, struct why *why)
{
    int failed = errno;
    if (failed == 0)
        return why_set(why, 0, "lost rank %d: it closed the connection", rank);
    return why_set(why, failed, "lost rank %d", rank);
}

static bool give(struct net *net, int rank, const void *data, size_t len, struct why *why)
{
    return send_all(net->links[rank], data, len) || lost(rank, why);
}

static bool take(struct net *net, int rank, void *data, size_t len, struct why *why)
{
    return recv_all(net->links[rank], data, len) || lost(rank, why);
}

bool net_sum(struct net *net, float *values, size_t n, struct why *why)
{
    size_t bytes = n * sizeof(float);
    if (net->world == 1)
        return true;
    if (n > net->longest)
        return why_set(why, 0, "a sum of %zu values, %zu were agreed on", n, net->longest);
    if (net->rank > 0)
        return give(net, 0, values, bytes, why) && take(net, 0, values, bytes, why);
    for (int r = 1; r < net->world; r++) {
        if (!take(net, r, net->incoming, bytes, why))
            return false;
        for (size_t i = 0; i < n; i++)
            values[i] += net->incoming[i];
    }
    for (int r = 1; r < net->world; r++)
        if (!give(net, r, values, bytes, why))
            return false;
    return true;
}

bool net_compare(struct net *net, uint64_t word, bool *ret_same, struct why *why)
{
    uint64_t theirs, same = 1;
    if (net->rank > 0) {
        if (!give(net, 0, &word, sizeof(word), why) || !take(net, 0, &same, sizeof(same), why))
            return false;
        *ret_same = same;
        return true;
    }
    for (int r = 1; r < net->world; r++) {
        if (!take(net, r, &theirs, sizeof(theirs), why))
            return false;
        same = same && theirs == word;
    }
    for (int r = 1; r < net->world; r++)
        if (!give(net, r, &same, sizeof(same), why))
            return false;
    *ret_same = same;
    return true;
}
