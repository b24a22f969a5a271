/* SPDX-License-Identifier: Apache-2.0
 * See statefile.h.
 */
#include "os/statefile.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/sigtext.h"
#include "base/str.h"
#include "os/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    TEMP_DIGITS = 8, /* in the name of a temporary file */
    TEMP_OLD_S = 60,
    LINKS_MAX = 40 /* as many as the kernel follows */
};

/* How long statefile_free() waits for the end of a standby writer that sleeps. */
#define LET_GO_NS (NS_PER_S / 2)

/* --- the path --- */

/* Replaces `path` by the target of the link there. */
static bool follow(char path[PATH_MAX], struct err *err)
{
    char target[PATH_MAX];
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n < 0)
        return err_set(err, ERR_SYSTEM, errno, "cannot read the symbolic link '%s'", path);
    target[n] = '\0';
    if (target[0] == '/')
        path[0] = '\0';
    else
        strrchr(path, '/')[1] = '\0';
    return str_addf(path, PATH_MAX, "%s", target) ||
           err_set(err, ERR_SYSTEM, ENAMETOOLONG, "cannot follow a symbolic link to '%s'", target);
}

static bool check_folder_of(const char *path, struct err *err)
{
    char dir[PATH_MAX];
    struct stat st;
    str_copy(dir, sizeof dir, path);
    strrchr(dir, '/')[1] = '\0';
    if (stat(dir, &st) == 0)
        return true;
    return err_set(err, ERR_USAGE, errno, "the directory '%s' must exist already", dir);
}

bool statefile_resolve(const char *path, char **ret, struct err *err)
{
    char now[PATH_MAX];
    struct stat st;
    *ret = NULL;
    if (!str_copy(now, sizeof now, path) || now[0] != '/')
        return err_set(err, ERR_USAGE, ENAMETOOLONG, "cannot use the path '%s'", path);
    for (int left = LINKS_MAX; lstat(now, &st) == 0 && S_ISLNK(st.st_mode); left--) {
        if (left == 0)
            return err_set(err, ERR_USAGE, ELOOP, "cannot follow the symbolic link '%s'", path);
        if (!follow(now, err))
            return false;
    }
    bool is_there = lstat(now, &st) == 0;
    if (is_there && !S_ISREG(st.st_mode))
        return err_set(err, ERR_USAGE, 0, "'%s' is not a regular file, so it is not replaced", now);
    if (!is_there && !check_folder_of(now, err))
        return false;
    *ret = strdup(now);
    return *ret || err_set(err, ERR_SYSTEM, ENOMEM, "cannot use the path '%s'", path);
}

/* --- the writer --- */

/* The functions from here to do_task() run in the child. Our threads hold no lock of the C library,
 * so the child may call any function but those of the shared event loop. */

static bool writer_open_dir(const char *path, int *ret_fd, struct err *err)
{
    char dir[4096];
    if (!str_copy(dir, sizeof dir, path) || !strrchr(dir, '/'))
        return err_set(err, ERR_SYSTEM, ENAMETOOLONG, "cannot write '%s'", path);
    strrchr(dir, '/')[dir[0] == '/' && !strchr(dir + 1, '/')] = '\0';
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* Another writer may make the directory at the same time. */
    if (fd < 0 && errno == ENOENT && (mkdir(dir, 0777) == 0 || errno == EEXIST))
        fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_set(err, ERR_SYSTEM, errno, "cannot open the directory '%s', or make it", dir);
    *ret_fd = fd;
    return true;
}

static bool writer_fill(const char *temp, const void *data, size_t len, struct err *err)
{
    FD_CLEANUP int fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return err_set(err, ERR_SYSTEM, errno, "cannot create '%s'", temp);
    if (!fd_write_all(fd, data, len) || fsync(fd) != 0)
        return err_set(err, ERR_SYSTEM, errno, "cannot write '%s'", temp);
    int last = fd_take(&fd);
    if (close(last) != 0) /* NFS reports a full disk only here */
        return err_set(err, ERR_SYSTEM, errno, "cannot close '%s'", temp);
    return true;
}

/* "NAME.01234567.tmp" */
static bool is_temp_of(const char *entry, const char *name)
{
    size_t len = strlen(name);
    return strncmp(entry, name, len) == 0 && entry[len] == '.' &&
           strspn(entry + len + 1, "0123456789abcdef") == TEMP_DIGITS &&
           str_is(entry + len + 1 + TEMP_DIGITS, ".tmp");
}

/* Removes temporary files of killed writers. A temporary file older than the file just replaced is
 * no longer written. Both times come from the clock of that file system. */
static void writer_sweep(const struct statefile *file, int dir_fd)
{
    struct stat now, st;
    struct dirent *entry;
    int fd = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);
    bool ok = stream && stat(file->path, &now) == 0;
    while (ok && (entry = readdir(stream)))
        if (is_temp_of(entry->d_name, strrchr(file->path, '/') + 1) &&
            fstatat(dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            st.st_mtime + TEMP_OLD_S < now.st_mtime)
            unlinkat(dir_fd, entry->d_name, 0);
    if (stream)
        closedir(stream);
}

/* False for a device or a pipe: a rename over it would destroy it for all its users. A rename over
 * a directory fails anyway. */
static bool writer_may_replace(const char *path, struct err *err)
{
    struct stat st;
    return lstat(path, &st) != 0 || S_ISREG(st.st_mode) || S_ISLNK(st.st_mode) ||
           S_ISDIR(st.st_mode) ||
           err_set(err, ERR_SYSTEM, 0, "'%s' is not a regular file, so it is not replaced", path);
}

/* Some file systems cannot sync a directory. */
static bool writer_sync_dir(int dir, const char *path, struct err *err)
{
    return fsync(dir) == 0 || errno == EINVAL || errno == ENOTSUP ||
           err_set(err, ERR_SYSTEM, errno, "cannot sync the directory of '%s'", path);
}

static bool writer_replace(const struct statefile *file, const void *data, size_t len,
                           struct err *err)
{
    FD_CLEANUP int dir = -1;
    if (!writer_open_dir(file->path, &dir, err) || !writer_may_replace(file->path, err))
        return false;
    /* The check comes last, so that little time passes between the check and the rename. */
    bool is_done = writer_fill(file->temp, data, len, err) &&
                   (!file->check || file->check(file->ctx, err)) &&
                   (rename(file->temp, file->path) == 0 ||
                    err_set(err, ERR_SYSTEM, errno, "cannot replace '%s'", file->path));
    if (!is_done) {
        unlink(file->temp);
        return false;
    }
    if (!writer_sync_dir(dir, file->path, err))
        return false;
    if (!file->has_swept)
        writer_sweep(file, dir);
    return true;
}

bool statefile_is_missing(const struct statefile *file)
{
    return access(file->path, F_OK) != 0 && errno == ENOENT;
}

/* Another writer may create the file meanwhile. Its content is newer and must stay, so link() is
 * used: it replaces no file. Some file systems have no link(). */
bool statefile_put_back(const struct statefile *file, const void *data, size_t len, struct err *err)
{
    char temp[PATH_MAX] = "";
    FD_CLEANUP int dir = -1;
    if (!str_addf(temp, sizeof temp, "%s.%08x.tmp", file->path, (unsigned)getpid()))
        return err_set(err, ERR_SYSTEM, ENAMETOOLONG, "cannot write '%s' anew", file->path);
    bool is_done =
        writer_open_dir(file->path, &dir, err) && writer_fill(temp, data, len, err) &&
        (link(temp, file->path) == 0 || errno == EEXIST || rename(temp, file->path) == 0 ||
         err_set(err, ERR_SYSTEM, errno, "cannot write '%s' anew", file->path));
    unlink(temp);
    return is_done;
}

/* --- appending --- */

static int writer_open(const struct statefile *file, struct err *err)
{
    struct stat st;
    /* O_NOCTTY: a terminal must not become ours. O_NONBLOCK: do not wait for a pipe's reader. */
    int how = O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    int fd = open(file->path, how, 0644);
    if (fd < 0)
        err_set(err, ERR_SYSTEM, errno, "cannot open '%s'", file->path);
    else if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        err_set(err, ERR_SYSTEM, 0, "'%s' is not a regular file, so it is not written", file->path);
    else
        return fd;
    fd_close(&fd);
    return -1;
}

/* The writer of an older attempt may still run. Its lines then go into the old file. */
static bool writer_rotate(const struct statefile *file, int *fd, struct err *err)
{
    char old[PATH_MAX];
    if (snprintf(old, sizeof old, "%s.1", file->path) >= (int)sizeof old)
        return err_set(err, ERR_SYSTEM, ENAMETOOLONG, "cannot rename '%s'", file->path);
    if (rename(file->path, old) != 0 && errno != ENOENT)
        return err_set(err, ERR_SYSTEM, errno, "cannot rename '%s' to '%s'", file->path, old);
    fd_close(fd);
    *fd = writer_open(file, err);
    return *fd >= 0;
}

/* True if the file ends within a line, perhaps because a writer was killed. */
static bool ends_within_line(int fd, off_t size)
{
    char last;
    return size > 0 && pread(fd, &last, 1, size - 1) == 1 && last != '\n';
}

static bool writer_add(const struct statefile *file, const void *data, size_t len, struct err *err)
{
    FD_CLEANUP int dir = -1;
    FD_CLEANUP int fd = -1;
    if (!writer_open_dir(file->path, &dir, err) || (file->check && !file->check(file->ctx, err)))
        return false;
    fd = writer_open(file, err);
    if (fd < 0)
        return false;
    off_t size = lseek(fd, 0, SEEK_END);
    if (size > 0 && (size_t)size >= file->max) {
        if (!writer_rotate(file, &fd, err))
            return false;
        size = lseek(fd, 0, SEEK_END);
    }
    bool is_cut = ends_within_line(fd, size);
    if ((!is_cut || fd_write_all(fd, "\n", 1)) && fd_write_all(fd, data, len))
        return true;
    int why = errno;
    bool is_clean =
        ftruncate(fd, size) == 0; /* removes the part written before the disk was full */
    return err_set(err, ERR_SYSTEM, why, "cannot write '%s'%s", file->path,
                   is_clean ? "" : "; a part of a line remains in it");
}

/* The writer's answer. */
struct written {
    bool ok;
    struct err err; /* if ok: a text to log, or "" */
};

struct task {
    struct statefile *file;
    statefile_check_fn *look; /* NULL: write the data */
    const void *data;
    size_t len;
};

static void do_task(const struct task *task, int answer)
{
    struct statefile *file = task->file;
    struct written written = {0};
    if (task->look)
        written.ok = task->look(file->ctx, &written.err);
    else
        written.ok = (file->is_journal ? writer_add : writer_replace)(file, task->data, task->len,
                                                                      &written.err);
    file->has_swept = file->has_swept || !task->look;
    if (!fd_write_all(answer, &written, sizeof written))
        _exit(1);
}

static void do_one_task(const void *arg, int answer)
{
    do_task(arg, answer);
}

/* --- the standby writer --- */

/* Memory that the supervisor shares with the standby writer. The supervisor writes it while the
 * writer sleeps. Only the part of this memory that is used takes real memory. */
struct statefile_room {
    statefile_check_fn *look; /* of the task; both processes have the same program in memory */
    size_t len, packed;       /* `data` begins with the content; what pack() stored follows it */
    char data[STATEFILE_MAX + STATEFILE_PACK_MAX];
};

/* Each byte from the supervisor is a task; the end of its socket is the end of the writer. */
static void do_standby(const void *arg, int line)
{
    struct statefile *file = *(struct statefile *const *)arg;
    const struct statefile_room *room = file->room;
    char byte;
    for (;;) {
        ssize_t n = recv(line, &byte, 1, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        struct task task = {.file = file, .look = room->look, .data = room->data, .len = room->len};
        file->standby->unpack(file->ctx, room->data + room->len, room->packed);
        do_task(&task, line);
    }
}

/* The functions from here on run in the supervisor. */

/* A killed writer may still read its memory, so each writer has a new one. */
static bool share_room(struct statefile *file, struct err *err)
{
    if (file->room)
        munmap(file->room, sizeof *file->room);
    file->room = mmap(NULL, sizeof *file->room, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (file->room != MAP_FAILED)
        return true;
    file->room = NULL;
    return err_set(err, ERR_SYSTEM, errno, "no memory to share with a writer");
}

static void end_standby(struct statefile *file)
{
    bool is_hung = file->is_busy;
    if (file->standby && file->writer.answer > 0)
        (void)file->standby->watch(file, -1, NULL);
    helper_end(&file->writer, is_hung, is_hung ? 0 : clock_now_ns() + LET_GO_NS);
}

bool statefile_begin(struct statefile *file, struct err *err)
{
    file->has_answered = false;
    if (share_room(file, err) && helper_ask(&file->writer, do_standby, &file, err)) {
        if (file->standby->watch(file, file->writer.answer, err))
            return true;
        end_standby(file);
    }
    return err_wrap(err, "cannot start the writer of '%s'", file->path);
}

/* True if the sleeping writer was killed, and reap has not told it yet. */
static bool has_died(const struct statefile *file)
{
    char byte;
    return file->writer.watch.pid &&
           recv(file->writer.answer, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* If the writer dies now, its end is the end of the task. */
static bool send_task(struct statefile *file, const struct task *task, struct err *err)
{
    if (has_died(file))
        end_standby(file);
    if (!file->writer.watch.pid && !statefile_begin(file, err))
        return false;
    struct statefile_room *room = file->room;
    if (task->len)
        memcpy(room->data, task->data, task->len);
    room->look = task->look;
    room->len = task->len;
    room->packed =
        file->standby->pack(file->ctx, room->data + task->len, sizeof room->data - task->len);
    (void)send(file->writer.answer, "", 1, MSG_NOSIGNAL);
    return true;
}

static bool start_task(struct statefile *file, statefile_check_fn *look, const void *data,
                       size_t len, struct err *err)
{
    struct task task = {.file = file, .look = look, .data = data, .len = len};
    if (!(file->standby ? send_task(file, &task, err)
                        : helper_ask(&file->writer, do_one_task, &task, err)))
        return err_wrap(err, "cannot write '%s'", file->path);
    file->has_swept = file->has_swept || !look;
    file->is_given_up = false;
    file->is_busy = true;
    return true;
}

static void statefile_tell(struct statefile *file, const struct err *err)
{
    if (file->fn)
        file->fn(file->ctx, file->tag, err);
}

static void start_next(struct statefile *file)
{
    void *data = file->next;
    struct err err;
    if (!data)
        return;
    file->next = NULL;
    file->tag = file->next_tag;
    if (!start_task(file, NULL, data, file->next_len, &err))
        statefile_tell(file, &err);
    free(data);
}

static void end_task(struct statefile *file, const struct written *written)
{
    file->is_busy = false;
    if (written->ok && written->err.text[0])
        log_warn("record", "%s", written->err.text);
    if (!file->is_given_up)
        statefile_tell(file, written->ok ? NULL : &written->err);
    /* fn may have begun a new write. */
    if (!file->is_busy)
        start_next(file);
}

bool statefile_take(struct statefile *file)
{
    struct written written;
    if (!file->is_busy || file->is_given_up)
        return false;
    ssize_t n = read(file->writer.answer, &written, sizeof written);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n != (ssize_t)sizeof written)
        return false;
    file->has_answered = true;
    end_task(file, &written);
    return true;
}

/* The end of the dead writer has just made room below the limit on processes. A writer that never
 * answered would only die again. */
static void renew_standby(struct statefile *file)
{
    struct err err;
    if (file->has_answered && !statefile_begin(file, &err))
        log_warn("record", "%s; the next write tries again", err.text);
}

static void on_writer(void *ctx, enum reap_what what, int status)
{
    struct statefile *file = ctx;
    struct written written;
    char how[80];
    if (what != REAP_EXITED)
        return;
    bool is_told =
        file->is_busy && read(file->writer.answer, &written, sizeof written) == sizeof written;
    if (!is_told) {
        written.ok = false;
        err_set(&written.err, ERR_SYSTEM, 0, "cannot write '%s': its writer ended with %s",
                file->path, sigtext_of_status(status, how, sizeof how));
    }
    if (file->standby)
        (void)file->standby->watch(file, -1, NULL);
    fd_close(&file->writer.answer);
    if (file->standby && status != REAP_LOST)
        renew_standby(file);
    if (file->is_busy)
        end_task(file, &written);
}

bool statefile_init(struct statefile *file, const char *path, struct reap *reap, struct err *err)
{
    uint32_t ours; /* random, so that two supervisors with one path use two temporary files */
    if (getrandom(&ours, sizeof ours, GRND_NONBLOCK) != (ssize_t)sizeof ours)
        ours = (uint32_t)getpid();
    file->path = strdup(path);
    file->writer = (struct helper){.reap = reap, .watch = {.fn = on_writer, .ctx = file}};
    if (!file->path || asprintf(&file->temp, "%s.%08" PRIx32 ".tmp", path, ours) < 0) {
        file->temp = NULL; /* undefined after a failed asprintf() */
        statefile_free(file);
        return err_set(err, ERR_SYSTEM, ENOMEM, "cannot prepare to write '%s'", path);
    }
    return true;
}

void statefile_free(struct statefile *file)
{
    end_standby(file);
    if (file->room)
        munmap(file->room, sizeof *file->room);
    free(file->next);
    free(file->path);
    free(file->temp);
    *file = (struct statefile){0};
}

static bool keep_for_later(struct statefile *file, uint64_t tag, const void *data, size_t len)
{
    void *copy = malloc(len ? len : 1);
    if (!copy)
        return false;
    if (len)
        memcpy(copy, data, len);
    free(file->next);
    file->next = copy;
    file->next_len = len;
    file->next_tag = tag;
    return true;
}

bool statefile_write(struct statefile *file, uint64_t tag, const void *data, size_t len,
                     struct err *err)
{
    if (len > STATEFILE_MAX)
        return err_set(err, ERR_SYSTEM, EFBIG, "cannot write '%s'", file->path);
    if (!file->is_busy) {
        file->tag = tag;
        return start_task(file, NULL, data, len, err);
    }
    return keep_for_later(file, tag, data, len) ||
           err_set(err, ERR_SYSTEM, ENOMEM, "cannot write '%s'", file->path);
}

bool statefile_look(struct statefile *file, uint64_t tag, statefile_check_fn *look, struct err *err)
{
    file->tag = tag;
    return start_task(file, look, NULL, 0, err);
}

/* SIGCHLD is blocked, so an early one stays pending. */
static void wait_for_writers_end(const struct statefile *file, int64_t until)
{
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    for (;;) {
        reap_all(file->writer.reap);
        int64_t left = until - clock_now_ns();
        if (!file->is_busy || left <= 0)
            return;
        sigtimedwait(&child, NULL,
                     &(struct timespec){.tv_sec = left / NS_PER_S, .tv_nsec = left % NS_PER_S});
    }
}

void statefile_wait(struct statefile *file, int64_t wait_ns)
{
    int64_t until = clock_now_ns() + wait_ns;
    while (statefile_take(file) && file->is_busy && fd_wait(file->writer.answer, -1, until) >= 0)
        ;
    if (file->is_busy)
        wait_for_writers_end(file, until);
    statefile_give_up(file);
}

bool statefile_is_busy(const struct statefile *file)
{
    return file->is_busy;
}

bool statefile_is_awaited(const struct statefile *file)
{
    return statefile_is_busy(file) && !file->is_given_up;
}

void statefile_give_up(struct statefile *file)
{
    struct err err;
    if (!statefile_is_awaited(file))
        return;
    file->is_given_up = true;
    proc_kill(file->writer.watch.pid, SIGKILL);
    err_set(&err, ERR_SYSTEM, 0, "cannot write '%s' in time; is its file system reachable?",
            file->path);
    err.sys_errno = ETIMEDOUT;
    statefile_tell(file, &err);
}
