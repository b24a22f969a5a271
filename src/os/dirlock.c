/* SPDX-License-Identifier: Apache-2.0
 * See dirlock.h.
 */
#include "os/dirlock.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* How long dirlock_free() waits for the child to release the lock. */
#define LET_GO_NS        (NS_PER_S / 2)
#define HOLDER_WRITES_US 100000

/* The child's answer. After the answer HELD a second answer may follow. */
struct answer {
    enum dirlock_result result;
    struct err err;
};

/* --- in the child --- */

static bool has_folder(const char *path)
{
    struct stat st;
    char folder[PATH_MAX];
    if (!str_copy(folder, sizeof folder, path) || !strrchr(folder, '/'))
        return false;
    strrchr(folder, '/')[1] = '\0';
    return stat(folder, &st) == 0;
}

static bool make_dir(const char *path, struct err *err)
{
    struct stat st;
    if (stat(path, &st) == 0)
        return S_ISDIR(st.st_mode) ||
               err_set(err, ERR_SYSTEM, ENOTDIR, "cannot use the directory '%s'", path);
    if (errno != ENOENT)
        return err_set(err, ERR_SYSTEM, errno, "cannot look at the directory '%s'", path);
    if (mkdir(path, 0777) == 0 || errno == EEXIST) /* another node may make it at the same time */
        return true;
    if (errno != ENOENT)
        return err_set(err, ERR_SYSTEM, errno, "cannot make the directory '%s'", path);
    if (has_folder(path)) /* for example in /proc */
        return err_set(err, ERR_SYSTEM, 0,
                       "cannot make the directory '%s': its file system does not allow it", path);
    return err_set(err, ERR_SYSTEM, 0,
                   "cannot make the directory '%s': its parent directory is missing; is its file "
                   "system mounted?",
                   path);
}

static bool dirlock_check_dir(const struct dirlock_request *request, struct err *err)
{
    if ((request->parent && !make_dir(request->parent, err)) || !make_dir(request->dir, err))
        return false;
    return access(request->dir, W_OK | X_OK) == 0 ||
           err_set(err, ERR_SYSTEM, errno, "cannot write to the directory '%s'", request->dir);
}

static void say(int line, enum dirlock_result result, const struct err *err)
{
    struct answer answer = {.result = result};
    if (err)
        answer.err = *err;
    if (!fd_write_all(line, &answer, sizeof answer))
        _exit(1);
}

/* A failure is ignored: the text is only for the messages of other supervisors. */
static void write_owner_into(const struct dirlock_request *request)
{
    int fd = open(request->file, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0)
        (void)!fd_write_all(fd, request->owner, strlen(request->owner));
    fd_close(&fd);
}

/* The holder writes its name right after it has the lock. Until then the file has the name of an
 * earlier one. */
static void read_holder(int fd, struct err *ret)
{
    usleep(HOLDER_WRITES_US);
    ssize_t n = pread(fd, ret->text, sizeof ret->text - 1, 0);
    ret->text[n > 0 ? n : 0] = '\0';
    str_printable(ret->text);
}

/* flock(2) may be missing. On NFS it is a lock at the server, which may not run a lock service
 * (ENOLCK). Lustre needs a mount option (ENOSYS). */
static enum dirlock_result lock_file(int fd, int line)
{
    int rc = flock(fd, LOCK_EX | LOCK_NB);
    if (rc < 0 && errno == EWOULDBLOCK) {
        struct err holder = {0};
        read_holder(fd, &holder);
        say(line, DIRLOCK_HELD, &holder);
        do
            rc = flock(fd, LOCK_EX);
        while (rc < 0 && errno == EINTR);
    }
    return rc == 0 ? DIRLOCK_OK : DIRLOCK_NONE;
}

/* False if a user removed the file while we waited: then we have the lock of a deleted file. */
static bool is_still_there(int fd, const char *path)
{
    struct stat ours, now;
    return fstat(fd, &ours) == 0 && stat(path, &now) == 0 && ours.st_ino == now.st_ino &&
           ours.st_dev == now.st_dev;
}

/* The open descriptor holds the lock. It is read-only, so that the file system can be remounted
 * read-only. NFS needs a writable one. */
static enum dirlock_result take(const struct dirlock_request *request, int line, struct err *err)
{
    int mode = O_RDONLY;
    for (;;) {
        int fd = open(request->file, mode | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
        if (fd < 0) {
            err_set(err, ERR_SYSTEM, errno, "cannot open '%s'", request->file);
            return DIRLOCK_FAILED;
        }
        enum dirlock_result result = lock_file(fd, line);
        if (result == DIRLOCK_NONE && errno == EBADF && mode == O_RDONLY) {
            mode = O_RDWR;
            close(fd);
            continue;
        }
        if (result == DIRLOCK_NONE)
            err_set(err, ERR_SYSTEM, errno, "'%s' cannot be locked", request->file);
        if (result == DIRLOCK_NONE || is_still_there(fd, request->file))
            return result;
        close(fd);
    }
}

/* While the child waits for the lock, it does not read its socket. But it dies with its parent, so
 * it never takes the lock for a dead pchrun. */
static void dirlock_hold(const void *arg, int line)
{
    const struct dirlock_request *request = arg;
    struct err err = {0};
    char byte;
    enum dirlock_result result = DIRLOCK_OK;
    if (!dirlock_check_dir(request, &err))
        result = DIRLOCK_FAILED;
    else if (request->file)
        result = take(request, line, &err);
    if (request->file && result == DIRLOCK_OK)
        write_owner_into(request);
    say(line, result, &err);
    /* The parent sends nothing: recv() returns when it dies or closes the socket. */
    while (request->file && result == DIRLOCK_OK && recv(line, &byte, 1, 0) < 0 && errno == EINTR)
        ;
}

/* --- in the parent --- */

static enum dirlock_result too_late(const struct dirlock_request *request, bool is_held,
                                    struct err *err)
{
    if (is_held)
        return DIRLOCK_HELD;
    err_set(err, ERR_SYSTEM, 0,
            "the directory '%s' did not answer within %d s; is its file system reachable?",
            request->dir, (int)(request->answer_ns / NS_PER_S));
    return DIRLOCK_FAILED;
}

static enum dirlock_result dirlock_wait_for_answer(const struct dirlock *lock,
                                                   const struct dirlock_request *request,
                                                   int signals, struct err *err)
{
    struct answer answer;
    bool is_held = false;
    struct err holder = {0};
    int64_t until = clock_now_ns() + request->answer_ns;
    for (;;) {
        switch (helper_read(&lock->holder, signals, until, &answer, sizeof answer)) {
        case HELPER_LATE:
            *err = holder;
            return too_late(request, is_held, err);
        case HELPER_SIGNAL:
            return DIRLOCK_SIGNAL;
        case HELPER_ENDED:
            err_set(err, ERR_SYSTEM, 0, "the process that checked '%s' has ended without an answer",
                    request->dir);
            return DIRLOCK_FAILED;
        case HELPER_ANSWER:
            break;
        }
        if (answer.result != DIRLOCK_HELD) {
            *err = answer.err;
            return answer.result;
        }
        is_held = true;
        holder = answer.err;
        until = clock_now_ns() + request->wait_ns;
        request->on_held(request->ctx, holder.text);
    }
}

enum dirlock_result dirlock_take(struct dirlock *lock, const struct dirlock_request *request,
                                 struct reap *reap, struct err *err)
{
    *lock = (struct dirlock){.holder.reap = reap};
    FD_CLEANUP int signals = signalfd(-1, request->end, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0) {
        err_set(err, ERR_SYSTEM, errno, "cannot open a descriptor for signals (signalfd)");
        return DIRLOCK_FAILED;
    }
    if (!helper_ask(&lock->holder, dirlock_hold, request, err)) {
        err_wrap(err, "cannot check '%s'", request->dir);
        return DIRLOCK_FAILED;
    }
    enum dirlock_result result = dirlock_wait_for_answer(lock, request, signals, err);
    if (result == DIRLOCK_NONE || (result == DIRLOCK_OK && !request->file))
        fd_close(&lock->holder.answer); /* then the child ends by itself */
    else if (result != DIRLOCK_OK) /* a child that waits for the lock does not read the socket */
        helper_end(&lock->holder, true, clock_now_ns() + LET_GO_NS);
    return result;
}

void dirlock_free(struct dirlock *lock)
{
    helper_end(&lock->holder, false, clock_now_ns() + LET_GO_NS);
}
