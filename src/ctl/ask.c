/* SPDX-License-Identifier: Apache-2.0
 * See ctl.h.
 */
#include "ctl/ctl.h"

#include "base/clock.h"
#include "base/fd.h"
#include "json/writer.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* A running pchrun answers at once; a stopped pchrun never answers. */
#define ANSWER_WAIT_NS (5 * NS_PER_S)

enum { CHUNK = 64 * 1024 };

/* --- the connection --- */

/* The socket must belong to this user; root accepts any user's. */
static bool talk_is_ours(int fd, struct err *err)
{
    struct ucred who;
    socklen_t len = sizeof who;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) != 0)
        return err_set(err, ERR_SYSTEM, errno, "cannot find out which user owns the socket");
    return who.uid == geteuid() || geteuid() == 0 ||
           err_set(err, ERR_SYSTEM, 0, "its socket belongs to user %d", (int)who.uid);
}

void talk_denied(const char *dir, struct err *err)
{
    struct stat st;
    char whose[32] = "another user";
    if (stat(dir, &st) == 0)
        snprintf(whose, sizeof whose, "user %u", (unsigned)st.st_uid);
    err_set(err, ERR_SYSTEM, 0,
            "cannot enter %s: Permission denied; it belongs to the pchrun of %s: run pchctl as "
            "that user, or as root",
            dir, whose);
}

static bool talk_connect(const char *dir, struct talk *ret, struct err *err)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    FD_CLEANUP int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_set(err, ERR_SYSTEM, errno, "cannot make a Unix socket");
    if (snprintf(addr.sun_path, sizeof addr.sun_path, "%s/" CONTROL_SOCKET, dir) >=
        (int)sizeof addr.sun_path)
        return err_set(err, ERR_SYSTEM, ENAMETOOLONG, "cannot connect to the socket in %s", dir);
    bool is_there = connect(fd, (struct sockaddr *)&addr, sizeof addr) == 0;
    if (!is_there && errno == EACCES) {
        talk_denied(dir, err);
        return false;
    }
    if (!is_there)
        return err_set(err, ERR_SYSTEM, errno, "cannot connect to %s", addr.sun_path);
    if (!talk_is_ours(fd, err))
        return false;
    *ret = (struct talk){.fd = fd_take(&fd)};
    lines_init(&ret->in, CONTROL_ANSWER_MAX, CHUNK);
    return true;
}

/* A request is short: it fits into the empty socket buffer, so one send() is enough. */
static bool talk_send(struct talk *talk, enum control_verb verb, const struct ctl_options *options,
                      struct err *err)
{
    struct writer w;
    size_t len;
    writer_init(&w, CONTROL_REQUEST_MAX + 1, WRITER_LINE);
    writer_object(&w, NULL);
    writer_int(&w, "version", CONTROL_VERSION);
    writer_text(&w, "do", control_names[verb]);
    if (verb == CONTROL_STATUS && options)
        writer_bool(&w, "all", true);
    if (verb == CONTROL_EVENTS)
        writer_bool(&w, "follow", options->follows);
    if (verb == CONTROL_STOP && options->saves)
        writer_bool(&w, "save", true);
    if (verb == CONTROL_DRAIN && options->in_ns >= 0)
        writer_int(&w, "left_ms", options->in_ns / NS_PER_MS);
    if (verb == CONTROL_DRAIN && options->text)
        writer_text(&w, "text", options->text);
    writer_end(&w);
    const char *text = writer_done(&w, &len);
    bool ok = text && send(talk->fd, text, len, MSG_NOSIGNAL) == (ssize_t)len;
    if (!ok)
        err_set(err, ERR_SYSTEM, text ? errno : ENOMEM, "cannot ask pchrun");
    writer_free(&w);
    return ok;
}

bool talk_open(const char *dir, enum control_verb verb, const struct ctl_options *options,
               struct talk *ret, struct err *err)
{
    *ret = (struct talk){.fd = -1};
    return talk_connect(dir, ret, err) && talk_send(ret, verb, options, err);
}

void talk_close(struct talk *talk)
{
    fd_close(&talk->fd);
    lines_free(&talk->in);
}

enum talk_result talk_read(struct talk *talk, int64_t until, char **ret_line, size_t *ret_len,
                           struct err *err)
{
    char data[CHUNK];
    enum lines_result next;
    while ((next = lines_next(&talk->in, ret_line, ret_len)) == LINES_NONE) {
        ssize_t n = recv(talk->fd, data, sizeof data, 0);
        if (n == 0 || (n < 0 && errno == ECONNRESET))
            return TALK_END;
        bool is_empty = n < 0 && (errno == EAGAIN || errno == EINTR);
        if (is_empty && fd_wait(talk->fd, -1, until) < 0) {
            err_set(err, ERR_PEER, 0, "pchrun does not answer; is it stopped?");
            return TALK_LATE;
        }
        if (!is_empty && (n < 0 || !lines_add(&talk->in, data, (size_t)n))) {
            err_set(err, ERR_SYSTEM, n < 0 ? errno : ENOMEM, "cannot read the answer");
            return TALK_FAILED;
        }
    }
    if (next == LINES_ONE)
        return TALK_LINE;
    err_set(err, ERR_PROTOCOL, 0, "the answer is too long");
    return TALK_FAILED;
}

/* --- the answer --- */

static bool answer_take(struct answer *ret, const char *line, size_t len, struct err *err)
{
    *ret = (struct answer){.text = strdup(line)};
    if (!ret->text)
        return err_set(err, ERR_SYSTEM, ENOMEM, "cannot read the answer");
    ret->root = json_read("answer", line, len, err);
    return ret->root || err_wrap(err, "this is not pchrun's answer");
}

bool answer_read(struct answer *ret, const char *line, size_t len, struct err *err)
{
    return answer_take(ret, line, len, err) && json_make_printable(ret->root, err);
}

static bool await_answer(struct talk *talk, bool is_raw, int64_t until, struct answer *ret,
                         struct err *err)
{
    char *line;
    size_t len;
    enum talk_result result = talk_read(talk, until, &line, &len, err);
    if (result == TALK_END) {
        err_set(err, ERR_PEER, 0, "pchrun has closed the connection; has it ended?");
        err->sys_errno = ECONNRESET;
    }
    if (result != TALK_LINE || !(is_raw ? answer_take : answer_read)(ret, line, len, err))
        return false;
    return json_bool_at(ret->root, "ok") ||
           err_set(err, ERR_PEER, 0, "%s", json_text_at(ret->root, "error"));
}

/* Waits until each has begun its answer. Returns when the time is over, too. */
static void await_begins(const struct talk *talks, int n, int64_t until)
{
    struct pollfd polled[FIND_JOBS_MAX];
    int left = n;
    for (int i = 0; i < n; i++)
        polled[i] = (struct pollfd){.fd = talks[i].fd, .events = POLLIN};
    while (left > 0 && clock_now_ns() < until) {
        int64_t wait_ms = (until - clock_now_ns()) / NS_PER_MS + 1;
        if (poll(polled, (nfds_t)n, (int)wait_ms) < 0 && errno != EINTR)
            return;
        left = 0;
        for (int i = 0; i < n; i++) {
            if (polled[i].revents)
                polled[i].fd = -1; /* not polled again */
            left += polled[i].fd >= 0;
        }
    }
}

void ask_each(struct asked *list, int n, const struct ctl_options *options, int64_t wait_ns)
{
    struct talk talks[FIND_JOBS_MAX];
    int64_t until = clock_now_ns() + wait_ns;
    for (int i = 0; i < n; i++) {
        list[i].answer = (struct answer){0};
        if (!talk_open(list[i].dir, CONTROL_STATUS, options, &talks[i], &list[i].err))
            talk_close(&talks[i]);
    }
    await_begins(talks, n, until);
    for (int i = 0; i < n; i++) {
        /* If it has begun, its answer may be long. */
        bool has_begun = talks[i].fd >= 0 && fd_wait(talks[i].fd, -1, 0) >= 0;
        int64_t end = has_begun ? clock_now_ns() + ANSWER_WAIT_NS : 0;
        if (talks[i].fd < 0 || !await_answer(&talks[i], options && options->is_raw, end,
                                             &list[i].answer, &list[i].err))
            answer_free(&list[i].answer);
        talk_close(&talks[i]);
    }
}

bool ask(const char *dir, enum control_verb verb, const struct ctl_options *options,
         struct answer *ret, struct err *err)
{
    struct talk talk;
    *ret = (struct answer){0};
    bool ok =
        talk_open(dir, verb, options, &talk, err) &&
        await_answer(&talk, options && options->is_raw, clock_now_ns() + ANSWER_WAIT_NS, ret, err);
    talk_close(&talk);
    return ok;
}

bool ask_found_nobody(const struct err *err)
{
    int why = err->sys_errno;
    return why == ENOENT || why == ECONNREFUSED || why == ECONNRESET || why == EPIPE;
}

void answer_free(struct answer *answer)
{
    json_free(answer->root);
    free(answer->text);
    *answer = (struct answer){0};
}

void ask_pause(int64_t ns)
{
    struct timespec left = {.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
    while (ns > 0 && nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}
