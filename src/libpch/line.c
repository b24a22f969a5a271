/* SPDX-License-Identifier: Apache-2.0
 * See line.h. Read first: unix(7), memfd_create(2).
 */
#include "libpch/line.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "libpch/robustlock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    ATTACH_WAIT_S = 60,
    LOOK_AGAIN_MS = 1000, /* how often a wait checks the liveness word */
    FDS = 2               /* the supervisor's page, the process's page */
};

#define CLOSED_BY_PROGRAM "this program has closed libpch's connection to pchrun"

bool (*line_is_over)(void);
void (*line_show_page)(int fd);

static bool is_given_up(void)
{
    return line_is_over && line_is_over();
}

void line_say(const char *fmt, ...)
{
    char text[700] = "pch: ";
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text + 5, sizeof text - 6, fmt, ap);
    va_end(ap);
    str_printable(text);
    str_addf(text, sizeof text, "\n");
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
    /* POLLERR: a pipe without a reader, and the write would end the program by SIGPIPE. */
    if (poll(&p, 1, 0) == 1 && p.revents == POLLOUT && write(STDERR_FILENO, text, strlen(text)) < 0)
        return;
}

void line_lost(struct pch *job, const char *how)
{
    struct live *live = job_live(job);
    char who[32] = "";
    if (atomic_exchange(&live->is_lost, true))
        return;
    if (live->counts) { /* a process that only reports steps trains on without pchrun */
        atomic_store(&live->state, LIVE_OFF);
        return;
    }
    atomic_store(&live->state, LIVE_LEAVING);
    if (job->rank >= 0)
        str_addf(who, sizeof who, "rank %d: ", job->rank);
    line_say("%s%s; the training ends here", who, how);
}

/* Says why the connection to the supervisor has ended. */
static const char *how_it_ended(const struct pch *job)
{
    const struct page_supervisor *page = job_live(job)->supervisor;
    if (!line_is_ours(job))
        return CLOSED_BY_PROGRAM;
    return page_was_released(page) ? "pchrun has ended the connection" : "pchrun has died";
}

void line_check(struct pch *job)
{
    if (!page_is_alive(job_live(job)->supervisor))
        line_lost(job, how_it_ended(job));
}

/* The kernel's unique number of a socket; 0: not supported. */
static uint64_t cookie_of(int fd)
{
    uint64_t cookie = 0;
    socklen_t len = sizeof cookie;
    return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len) == 0 ? cookie : 0;
}

bool line_is_ours(const struct pch *job)
{
    return job->cookie == 0 || cookie_of(job->fd) == job->cookie;
}

/* 1: sent; 0: the socket is full; -1: the connection has ended. */
static int try_send(struct pch *job, unsigned connection, const uint8_t *data, size_t size,
                    int *ret_fd)
{
    int result = -1;
    pthread_mutex_lock(&job->lock);
    if (job->connection != connection || !job_can_talk(job_live(job))) {
        /* the connection has ended */
    } else if (!line_is_ours(job)) {
        line_lost(job, CLOSED_BY_PROGRAM);
    } else if (send(job->fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) {
        result = 1;
    } else if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM || errno == EINTR) {
        *ret_fd = job->fd;
        result = page_is_alive(job_live(job)->supervisor) ? 0 : -1;
        line_check(job);
    } else {
        line_lost(job, how_it_ended(job));
    }
    pthread_mutex_unlock(&job->lock);
    return result;
}

static bool send_over(struct pch *job, unsigned connection, const struct procmsg *msg)
{
    uint8_t frame[FRAME_MAX];
    size_t size = procmsg_encode(msg, frame, sizeof frame);
    int result, fd = -1;
    while ((result = try_send(job, connection, frame, size, &fd)) == 0) {
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        poll(&p, 1, LOOK_AGAIN_MS);
        if (is_given_up())
            break;
    }
    return result == 1;
}

bool line_send(struct pch *job, const struct procmsg *msg)
{
    return send_over(job, job->connection, msg);
}

static bool line_parse(const uint8_t *data, size_t n, struct procmsg *ret)
{
    struct frame frame;
    size_t size;
    return frame_parse(FRAME_PROC, data, n, &frame, &size) == FRAME_OK && size == n &&
           procmsg_decode(&frame, ret);
}

/* Drops messages that no thread waits for. A LOOK needs no action: it only wakes the reader. */
static void line_take_message(struct pch *job, const struct procmsg *msg)
{
    if (msg->type == PROCMSG_ANSWER) {
        if (msg->step != job->answer.step)
            return;
        job->answer.is_there = true;
        job->answer.action = msg->action;
    } else if (msg->type == PROCMSG_SCRATCH_DIR) {
        job->scratch_answered++;
        str_copy(job->scratch, sizeof job->scratch, msg->path);
    }
}

/* Reads all pending messages. Returns NULL, or why the connection has ended. */
static const char *line_receive(struct pch *job)
{
    uint8_t data[FRAME_MAX + 1];
    struct procmsg msg;
    if (!line_is_ours(job))
        return CLOSED_BY_PROGRAM;
    for (;;) {
        ssize_t n = recv(job->fd, data, sizeof data, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        /* Messages from before a reset can still be read. */
        if (n < 0 && (errno == EINTR || errno == ECONNRESET))
            continue;
        if (n <= 0)
            return how_it_ended(job);
        if (!line_parse(data, (size_t)n, &msg))
            return "pchrun does not speak this libpch's protocol";
        line_take_message(job, &msg);
    }
    return page_is_alive(job_live(job)->supervisor) ? NULL : how_it_ended(job);
}

/* Waits at the socket on behalf of all threads, without the lock. */
static void read_turn(struct pch *job)
{
    struct pollfd p = {.fd = job->fd, .events = POLLIN};
    job->has_reader = true;
    pthread_mutex_unlock(&job->lock);
    poll(&p, 1, LOOK_AGAIN_MS);
    pthread_mutex_lock(&job->lock);
    job->has_reader = false;
    if (job_can_talk(job_live(job))) {
        const char *how = line_receive(job);
        if (how)
            line_lost(job, how);
    }
    pthread_cond_broadcast(&job->turn);
}

bool line_ask(struct pch *job, unsigned connection, const struct procmsg *msg, line_done_fn *done,
              const void *arg)
{
    bool ok = false, is_over = false;
    if (!send_over(job, connection, msg))
        return false;
    pthread_mutex_lock(&job->lock);
    while (job->connection == connection && !(ok = done(job, arg)) && !is_over &&
           job_can_talk(job_live(job))) {
        if (job->has_reader)
            pthread_cond_wait(&job->turn, &job->lock);
        else
            read_turn(job);
        pthread_mutex_unlock(&job->lock);
        is_over = is_given_up();
        pthread_mutex_lock(&job->lock);
    }
    pthread_mutex_unlock(&job->lock);
    return ok;
}

/* Attaching */

static bool connect_to(struct pch *job, const char *path, struct err *err)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct timeval limit = {.tv_sec = ATTACH_WAIT_S};
    struct ucred who;
    socklen_t len = sizeof who;
    if (!str_copy(addr.sun_path, sizeof addr.sun_path, path))
        return err_set(err, ERR_USAGE, 0, "PCH_SOCKET is longer than a Unix socket's path may be");
    FD_CLEANUP int first = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    /* The socket is never descriptor 0, 1 or 2, even if the program has closed those. */
    FD_CLEANUP int fd = first < 0 ? -1 : fcntl(first, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0)
        return err_set(err, ERR_SYSTEM, errno, "cannot make a socket");
    int rc;
    while ((rc = connect(fd, (struct sockaddr *)&addr, sizeof addr)) != 0 && errno == EINTR &&
           !is_given_up())
        ;
    if (rc != 0)
        return err_set(err, errno == ECONNREFUSED ? ERR_PEER : ERR_SYSTEM, errno, "cannot connect");
    job->supervisor_pid =
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 ? (int)who.pid : 0;
    job->cookie = cookie_of(fd);
    job->fd = fd_take(&fd);
    return true;
}

/* Receives one message and its descriptors (-1: none). A supervisor that refuses sends a message.
 * If the connection closes without one, the supervisor has died. */
static bool receive_with_fds(int fd, struct procmsg *ret, int fds[FDS], struct err *err)
{
    uint8_t data[FRAME_MAX + 1];
    union {
        char room[CMSG_SPACE(FDS * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec io = {.iov_base = data, .iov_len = sizeof data};
    struct msghdr head = {.msg_iov = &io,
                          .msg_iovlen = 1,
                          .msg_control = &control,
                          .msg_controllen = sizeof control.room};
    ssize_t n;
    while ((n = recvmsg(fd, &head, MSG_CMSG_CLOEXEC | MSG_DONTWAIT)) < 0 &&
           (errno == EINTR || errno == ECONNRESET))
        head.msg_controllen = sizeof control.room;
    if (n <= 0)
        return err_set(err, ERR_PEER, 0, "it ended the connection");
    struct cmsghdr *c = CMSG_FIRSTHDR(&head);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(FDS * sizeof(int)))
        memcpy(fds, CMSG_DATA(c), FDS * sizeof(int));
    return line_parse(data, (size_t)n, ret) ||
           err_set(err, ERR_PROTOCOL, 0, "it does not speak this libpch's protocol");
}

/* Checks the size first: access to a page that is too short would raise SIGBUS. */
static void *map_page(int fd, int prot, struct err *err)
{
    if (fd < 0 || lseek(fd, 0, SEEK_END) < PAGE_SIZE_BYTES) {
        err_set(err, ERR_PROTOCOL, 0, "the shared memory that it sent is missing or too small");
        return NULL;
    }
    void *page = mmap(NULL, PAGE_SIZE_BYTES, prot, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        err_set(err, ERR_SYSTEM, errno, "cannot map the shared memory");
        return NULL;
    }
    return page;
}

static void unmap_pages(struct live *live)
{
    if (live->supervisor)
        munmap((void *)(uintptr_t)live->supervisor, PAGE_SIZE_BYTES);
    if (live->process && robustlock_release(live->process))
        munmap(live->process, PAGE_SIZE_BYTES);
    live->supervisor = NULL;
    live->process = NULL;
}

static bool map_pages(struct pch *job, const int fds[FDS], struct err *err)
{
    struct live *live = job_live(job);
    live->supervisor = map_page(fds[0], PROT_READ, err);
    if (!live->supervisor)
        return false;
    if (live->supervisor->magic != PAGE_MAGIC || live->supervisor->version != PAGE_VERSION)
        return err_set(err, ERR_PROTOCOL, 0, "its shared memory has another version (%u, not %d)",
                       live->supervisor->version, PAGE_VERSION);
    live->process = map_page(fds[1], PROT_READ | PROT_WRITE, err);
    if (!live->process)
        return false;
    if (job->is_wiped) {
        madvise((void *)(uintptr_t)live->supervisor, PAGE_SIZE_BYTES, MADV_DONTFORK);
        madvise(live->process, PAGE_SIZE_BYTES, MADV_DONTFORK);
    }
    return true;
}

static bool line_wait_for_answer(int fd, struct err *err)
{
    int64_t deadline = clock_now_ns() + ATTACH_WAIT_S * NS_PER_S;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    for (int64_t left; (left = deadline - clock_now_ns()) > 0;)
        if (poll(&p, 1, (int)(left / NS_PER_MS) + 1) == 1)
            return true;
        else if (is_given_up())
            return err_set(err, ERR_SYSTEM, 0, "a signal has ended the wait for its answer");
    return err_set(err, ERR_SYSTEM, 0, "it did not answer within %d s", ATTACH_WAIT_S);
}

static bool line_is_welcome(const struct procmsg *msg, struct err *err)
{
    if (msg->type == PROCMSG_REFUSED)
        return err_set(err, ERR_USAGE, 0, "it refused: %s", msg->text);
    if (msg->type != PROCMSG_WELCOME)
        return err_set(err, ERR_PROTOCOL, 0, "it answered %s", procmsg_name(msg->type));
    return true;
}

static bool take_welcome(struct pch *job, struct err *err)
{
    struct procmsg msg;
    int fds[FDS] = {-1, -1};
    bool ok = line_wait_for_answer(job->fd, err) && receive_with_fds(job->fd, &msg, fds, err) &&
              line_is_welcome(&msg, err) && map_pages(job, fds, err);
    if (ok && line_show_page)
        line_show_page(fds[1]);
    fd_close(&fds[0]);
    fd_close(&fds[1]);
    if (!ok)
        return false;
    job->rank = msg.rank;
    job->notices = msg.word;
    /* If WELCOME has no path, the environment's path for the same step stays. */
    if (msg.path[0] || msg.step != job->resume_step)
        str_copy(job->resume_path, sizeof job->resume_path, msg.path);
    job->resume_step = msg.step;
    return true;
}

bool line_attach(struct pch *job, const char *path, const struct procmsg *attach, struct err *err)
{
    uint8_t frame[FRAME_MAX];
    size_t size = procmsg_encode(attach, frame, sizeof frame);
    if (!connect_to(job, path, err))
        return false;
    /* EPIPE: the supervisor may have refused and closed already; its answer is still readable. */
    bool is_sent = send(job->fd, frame, size, MSG_NOSIGNAL) >= 0 || errno == EPIPE ||
                   err_set(err, ERR_SYSTEM, errno, "cannot send");
    if (is_sent && take_welcome(job, err))
        return true;
    line_close(job);
    return false;
}

void line_goodbye(struct pch *job, uint64_t step, int status, int wait_ms)
{
    uint8_t frame[FRAME_MAX];
    struct procmsg msg = {.type = PROCMSG_CLOSE, .step = step, .number = status};
    size_t size = procmsg_encode(&msg, frame, sizeof frame);
    struct pollfd p = {.fd = job->fd, .events = POLLOUT};
    if (!job_can_talk(job_live(job)) || !line_is_ours(job))
        return;
    if (send(p.fd, frame, size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && poll(&p, 1, wait_ms) == 1 &&
        send(p.fd, frame, size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return; /* then the supervisor only sees that the connection is closed */
}

void line_drop(struct pch *job)
{
    int fd = job->fd;
    if (fd >= 0 && line_is_ours(job))
        close(fd);
    job->fd = -1;
}

void line_close(struct pch *job)
{
    pthread_mutex_lock(&job->lock);
    atomic_store(&job_live(job)->state, LIVE_OFF);
    /* Wakes the thread that reads the socket; it sees LIVE_OFF and returns. */
    if (job->fd >= 0 && line_is_ours(job))
        shutdown(job->fd, SHUT_RDWR);
    line_drop(job);
    unmap_pages(job_live(job));
    job->connection++;
    job->scratch_asked = job->scratch_answered = 0;
    pthread_cond_broadcast(&job->turn);
    pthread_mutex_unlock(&job->lock);
}
