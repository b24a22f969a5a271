/* SPDX-License-Identifier: Apache-2.0
 * See rundir.h. Read first: unix(7), flock(2).
 */
#include "procs/rundir.h"

#include "base/fd.h"
#include "base/str.h"
#include "net/listener.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STALE_MAX = 64, FILES_MAX = 65536 };

/* Lock before the socket exists: is_stale() ignores directories without a socket. On file systems
 * without flock (NFS) no lock succeeds, so the directory never looks stale. */
static bool make_lock(struct rundir *dir, struct err *err)
{
    dir->lock = open(dir->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir->lock < 0)
        return err_set(err, ERR_SYSTEM, errno, "cannot open %s", dir->path);
    if (flock(dir->lock, LOCK_EX | LOCK_NB) != 0)
        errno = 0;
    return true;
}

/* After mkdtemp() in `base` has failed. Names the first directory of the path that is missing. */
static bool no_base(const char *base, struct err *err)
{
    int why = errno;
    char missing[RUNDIR_BASE_MAX + 1] = "";
    for (const char *end = base; *end && (end == base || access(missing, F_OK) == 0);) {
        end += 1 + strcspn(end + 1, "/");
        snprintf(missing, sizeof missing, "%.*s", (int)(end - base), base);
    }
    if (why == ENOENT)
        return err_set(err, ERR_SYSTEM, 0, "there is no directory %s; mkdir -p %s makes it",
                       missing, base);
    return err_set(err, ERR_SYSTEM, why, "cannot make a directory in %s", base);
}

static bool make_in(const char *base, struct rundir *ret, int *ret_listen, struct err *err)
{
    struct rundir dir = {.addr = {.sun_family = AF_UNIX}, .lock = -1};
    if (base[0] != '/')
        return err_set(err, ERR_USAGE, 0, "%s is not an absolute path", base);
    if (!str_copy(dir.base, RUNDIR_BASE_MAX + 1, base))
        return err_set(err, ERR_USAGE, 0, "%s is too long for a Unix socket's path (%zu at most)",
                       base, RUNDIR_BASE_MAX);
    str_addf(dir.path, sizeof dir.path, "%s/" RUNDIR_PREFIX "XXXXXX", base);
    mode_t mask = umask(077); /* applies to mkdtemp, too */
    bool is_made = mkdtemp(dir.path);
    umask(mask);
    if (!is_made)
        return no_base(base, err);
    str_addf(dir.addr.sun_path, sizeof dir.addr.sun_path, "%s/socket", dir.path);
    if (!make_lock(&dir, err) ||
        (*ret_listen = listener_make_unix(&dir.addr, SOCK_SEQPACKET, err)) < 0) {
        rundir_remove(&dir);
        return false;
    }
    *ret = dir;
    return true;
}

/* /dev/shm comes last, though it is fastest. logind removes a user's files there when the user's
 * last session ends (RemoveIPC), and a scheduler's job belongs to no session. A directory that the
 * user named is never skipped. */
bool rundir_make(const char *wanted, struct rundir *ret, int *ret_listen, struct err *err)
{
    const char *bases[] = {getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp", "/dev/shm"};
    char tried[sizeof err->text] = "";
    if (wanted)
        return make_in(wanted, ret, ret_listen, err) ||
               err_wrap(err, "run_dir cannot be used (name another, or leave it out)");
    for (size_t i = 0; i < ARRAY_LEN(bases); i++) {
        struct err why;
        if (!bases[i] || !bases[i][0])
            continue;
        if (make_in(bases[i], ret, ret_listen, &why))
            return true;
        if (why.sys_errno == EMFILE) { /* other directories would fail, too */
            *err = why;
            return err_wrap(err, "cannot make the socket for processes");
        }
        str_addf(tried, sizeof tried, "%s%s", tried[0] ? "; " : "", why.text);
    }
    return err_set(err, ERR_SYSTEM, 0,
                   "no writable directory for the socket; set --run-dir to one (%s)", tried);
}

/* False if the directory was removed or replaced. */
static bool rundir_is_ours(const struct rundir *dir)
{
    struct stat ours, there;
    return fstat(dir->lock, &ours) == 0 && lstat(dir->path, &there) == 0 &&
           ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

static bool make_again(struct rundir *dir, struct err *err)
{
    if (rundir_is_ours(dir))
        return true;
    mode_t mask = umask(077);
    bool is_made = mkdir(dir->path, 0700) == 0;
    umask(mask);
    if (!is_made)
        return err_set(err, ERR_SYSTEM, errno, "cannot make the directory %s again", dir->path);
    fd_close(&dir->lock);
    return make_lock(dir, err);
}

bool rundir_mend(struct rundir *dir, int *ret_listen, struct err *err)
{
    struct stat there;
    *ret_listen = -1;
    if (lstat(dir->addr.sun_path, &there) == 0)
        return true;
    return (make_again(dir, err) &&
            (*ret_listen = listener_make_unix(&dir->addr, SOCK_SEQPACKET, err)) >= 0) ||
           err_wrap(err, "the socket that processes attach to was removed (name another run_dir)");
}

/* Removes the error files, which the commands write. Other files may belong to other programs. */
static void remove_files(const struct rundir *dir)
{
    DIR *stream = opendir(dir->path);
    if (!stream)
        return;
    int left = FILES_MAX;
    struct dirent *entry;
    while (left-- > 0 && (entry = readdir(stream)))
        if (str_starts(entry->d_name, RUNDIR_FILE_PREFIX))
            unlinkat(dirfd(stream), entry->d_name, 0);
    closedir(stream);
}

bool rundir_remove(struct rundir *dir)
{
    /* Without a lock the directory was made just now. */
    if (dir->lock >= 0 && !rundir_is_ours(dir)) {
        fd_close(&dir->lock);
        return true;
    }
    unlink(dir->addr.sun_path);
    if (rmdir(dir->path) != 0 && errno == ENOTEMPTY)
        remove_files(dir);
    fd_close(&dir->lock);
    return rmdir(dir->path) == 0 || errno == ENOENT;
}

/* True for a directory of this user with a socket and no lock: its supervisor has died. */
static bool is_stale(int base, const char *name)
{
    struct stat st, socket;
    FD_CLEANUP int dir = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return dir >= 0 && fstat(dir, &st) == 0 && st.st_uid == geteuid() &&
           fstatat(dir, "socket", &socket, AT_SYMLINK_NOFOLLOW) == 0 &&
           flock(dir, LOCK_EX | LOCK_NB) == 0;
}

void rundir_find_stale(const struct rundir *dir, void (*found)(void *ctx, const char *name),
                       void *ctx)
{
    DIR *stream = opendir(dir->base);
    if (!stream)
        return;
    int left = STALE_MAX;
    struct dirent *entry;
    while (left > 0 && (entry = readdir(stream))) {
        if (!str_starts(entry->d_name, RUNDIR_PREFIX) || !is_stale(dirfd(stream), entry->d_name))
            continue;
        left--;
        found(ctx, entry->d_name);
    }
    closedir(stream);
}
