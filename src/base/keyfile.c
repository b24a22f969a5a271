/* SPDX-License-Identifier: Apache-2.0
 * See keyfile.h.
 */
#include "base/keyfile.h"

#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "pchrun-key-1:"

enum {
    PREFIX_LEN = sizeof PREFIX - 1,
    DIGITS = 2 * sizeof(struct key),
    TEXT_MAX = PREFIX_LEN + DIGITS + 1, /* with its newline */
};

void key_wipe(struct key *key)
{
    explicit_bzero(key, sizeof *key);
}

/* ---- reading ---- */

bool keyfile_parse(const char *text, size_t len, struct key *ret)
{
    if (len == TEXT_MAX && text[len - 1] == '\n')
        len--;
    if (len != PREFIX_LEN + DIGITS || memcmp(text, PREFIX, PREFIX_LEN) != 0)
        return false;
    for (size_t i = 0; i < sizeof ret->bytes; i++) {
        const char *at = text + PREFIX_LEN + 2 * i;
        int high = str_hex_digit(at[0]), low = str_hex_digit(at[1]);
        if (high < 0 || low < 0) {
            key_wipe(ret);
            return false;
        }
        ret->bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* Refuses a file that another user could read or replace. */
static bool check_access(const char *path, const struct stat *st, struct err *err)
{
    if (!S_ISREG(st->st_mode))
        return err_set(err, ERR_USAGE, 0, "%.200s is not a regular file; name the key file", path);
    if (st->st_uid != geteuid() && st->st_uid != 0)
        return err_set(err, ERR_USAGE, 0,
                       "the key file %.150s belongs to user %u, who could replace it; it must "
                       "belong to you or root: chown %u %.150s",
                       path, st->st_uid, geteuid(), path);
    if (st->st_mode & (S_IRWXO | S_IWGRP))
        return err_set(err, ERR_USAGE, 0,
                       "the key file %.150s is open to others (mode %04o); close it: chmod "
                       "g-w,o= %.150s (a Kubernetes secret: defaultMode 0440)",
                       path, st->st_mode & 07777, path);
    return true;
}

static bool read_key(int fd, const char *path, struct key *ret, struct err *err)
{
    char text[TEXT_MAX + 1]; /* one byte more, to detect a longer file */
    ssize_t len = fd_read_all(fd, text, sizeof text);
    if (len < 0)
        return err_set(err, ERR_SYSTEM, errno, "cannot read the key file %.200s", path);
    bool is_key = keyfile_parse(text, (size_t)len, ret);
    explicit_bzero(text, sizeof text);
    return is_key || err_set(err, ERR_USAGE, 0,
                             "the key file %.150s %s: a line with \"" PREFIX
                             "\" and %d hexadecimal digits is missing; copy the job's key again, "
                             "or make a new one: pchrun --make-key FILE",
                             path, len == 0 ? "is empty" : "does not hold a key", DIGITS);
}

bool keyfile_read(const char *path, struct key *ret, struct err *err)
{
    struct stat st;
    /* Non-blocking: opening a FIFO would wait for its writer. */
    FD_CLEANUP int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == ENOENT)
        return err_set(err, ERR_USAGE, 0,
                       "there is no key file %.150s; make it once and copy it to every node: "
                       "pchrun --make-key %.150s",
                       path, path);
    if (fd < 0 || fstat(fd, &st) != 0)
        return err_set(err, ERR_USAGE, errno, "cannot open the key file %.200s", path);
    return check_access(path, &st, err) && read_key(fd, path, ret, err);
}

/* ---- making ---- */

static bool random_text(char text[TEXT_MAX + 1])
{
    struct key key;
    if (getrandom(&key, sizeof key, 0) != (ssize_t)sizeof key)
        return false;
    memcpy(text, PREFIX, PREFIX_LEN);
    for (size_t i = 0; i < sizeof key.bytes; i++)
        snprintf(text + PREFIX_LEN + 2 * i, 3, "%02x", key.bytes[i]);
    text[TEXT_MAX - 1] = '\n';
    key_wipe(&key);
    return true;
}

/* Sets the mode again, because the umask may have removed bits of it. */
static bool write_key(int fd)
{
    char text[TEXT_MAX + 1];
    bool ok = random_text(text) && fchmod(fd, S_IRUSR | S_IWUSR) == 0 &&
              fd_write_all(fd, text, TEXT_MAX) && fsync(fd) == 0;
    explicit_bzero(text, sizeof text);
    return ok;
}

bool keyfile_make(const char *path, struct err *err)
{
    FD_CLEANUP int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd < 0 && errno == EEXIST)
        return err_set(err, ERR_USAGE, 0,
                       "%.200s is there already, and may be the key of a job: it is not "
                       "overwritten; name another file, or remove it first",
                       path);
    if (fd < 0)
        return err_set(err, ERR_USAGE, errno, "cannot make the key file %.200s", path);
    if (write_key(fd))
        return true;
    err_set(err, ERR_SYSTEM, errno, "cannot write the key file %.200s", path);
    unlink(path);
    return false;
}
