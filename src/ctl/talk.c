/* SPDX-License-Identifier: Apache-2.0
 * See talk.h.
 */
#include "ctl/talk.h"

#include "base/fd.h"
#include "wire/control.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { CHUNK = 64 * 1024 };

/* The socket must belong to this user; root accepts any user's. */
static bool talk_is_ours(int fd, struct err *err)
{
    struct ucred who;
    socklen_t len = sizeof who;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) != 0)
        return err_set(err, ERR_SYSTEM, errno, "cannot tell whose socket it is");
    return who.uid == geteuid() || geteuid() == 0 ||
           err_set(err, ERR_SYSTEM, 0, "its socket belongs to user %d", (int)who.uid);
}

void talk_denied(const char *dir, struct err *err)
{
    struct stat st;
    char whose[32] = "another user";
    if (stat(dir, &st) == 0)
        snprintf(whose, sizeof whose, "user %u", (unsigned)st.st_uid);
    err_set(
        err, ERR_SYSTEM, 0,
        "cannot enter %s: Permission denied; it is the pchrun of %s: run pchctl as that user, or "
        "as root",
        dir, whose);
}

bool talk_open(const char *dir, struct talk *ret, struct err *err)
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

void talk_close(struct talk *talk)
{
    fd_close(&talk->fd);
    lines_free(&talk->in);
}

/* A request is short: it fits into the empty buffer of the socket. */
bool talk_say(struct talk *talk, const char *line, size_t len, struct err *err)
{
    return send(talk->fd, line, len, MSG_NOSIGNAL) == (ssize_t)len ||
           err_set(err, ERR_SYSTEM, errno, "cannot ask pchrun");
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
