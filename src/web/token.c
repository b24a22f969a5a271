/* SPDX-License-Identifier: Apache-2.0
 * See token.h.
 */
#include "web/token.h"

#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HOW_TO_MAKE "(umask 077; openssl rand -hex 24 >%.150s)"

static bool token_check_access(const char *path, const struct stat *st, struct err *err)
{
    if (!S_ISREG(st->st_mode))
        return err_set(err, ERR_USAGE, 0,
                       "%.200s is not a regular file; name the file with the token", path);
    if (st->st_uid != geteuid() && st->st_uid != 0)
        return err_set(err, ERR_USAGE, 0,
                       "the token file %.150s belongs to user %u; it must belong to you or root",
                       path, st->st_uid);
    if (st->st_mode & (S_IRWXG | S_IRWXO))
        return err_set(err, ERR_USAGE, 0,
                       "the token file %.150s is open to others (mode %04o); close it: chmod 600 "
                       "%.150s",
                       path, st->st_mode & 07777, path);
    return true;
}

static bool token_take(const char *path, char *text, char ret[GUARD_TOKEN_MAX + 1], struct err *err)
{
    size_t len = strcspn(text, "\n");
    bool is_last = text[len] == '\0' || text[len + 1] == '\0';
    text[len] = '\0';
    if (is_last && len >= GUARD_TOKEN_MIN && len <= GUARD_TOKEN_MAX &&
        str_is_of(text, STR_LETTERS STR_DIGITS "-._~"))
        return str_copy(ret, GUARD_TOKEN_MAX + 1, text);
    return err_set(err, ERR_USAGE, 0,
                   "the token file %.150s must be one line of %d to %d letters and digits; make a "
                   "new one: " HOW_TO_MAKE,
                   path, GUARD_TOKEN_MIN, GUARD_TOKEN_MAX, path);
}

bool token_read(const char *path, char ret[GUARD_TOKEN_MAX + 1], struct err *err)
{
    struct stat st;
    char text[GUARD_TOKEN_MAX + 3] = ""; /* one byte more than a newline, to detect a longer file */
    /* Non-blocking: opening a FIFO would wait for its writer. */
    FD_CLEANUP int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == ENOENT)
        return err_set(err, ERR_USAGE, 0, "there is no token file %.150s; make it: " HOW_TO_MAKE,
                       path, path);
    if (fd < 0 || fstat(fd, &st) != 0)
        return err_set(err, ERR_USAGE, errno, "cannot open the token file %.200s", path);
    if (!token_check_access(path, &st, err))
        return false;
    if (fd_read_all(fd, text, sizeof text - 1) < 0)
        return err_set(err, ERR_SYSTEM, errno, "cannot read the token file %.200s", path);
    bool ok = token_take(path, text, ret, err);
    explicit_bzero(text, sizeof text);
    return ok;
}
