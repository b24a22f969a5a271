/* SPDX-License-Identifier: Apache-2.0
 * See folder.h.
 */
#include "watch/folder.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define CHANGES                                                                         \
    (IN_CREATE | IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | \
     IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)
#define UNFINISHED (IN_CREATE | IN_MODIFY | IN_ATTRIB)

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif
#define ZFS_MAGIC 0x2fc12fc1

/* True for a file system that only this machine writes to. */
static bool is_local(const char *dir)
{
    static const unsigned local[] = {
        EXT4_SUPER_MAGIC,      XFS_SUPER_MAGIC,  BTRFS_SUPER_MAGIC, TMPFS_MAGIC,
        OVERLAYFS_SUPER_MAGIC, F2FS_SUPER_MAGIC, RAMFS_MAGIC,       ZFS_MAGIC};
    struct statfs fs;
    if (statfs(dir, &fs) != 0)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(local); i++)
        if ((unsigned)fs.f_type == local[i])
            return true;
    return false;
}

static bool folder_split(struct folder *folder, struct err *err)
{
    const char *slash = strrchr(folder->path, '/');
    size_t len = slash ? (size_t)(slash - folder->path) : 0;
    folder->name = slash ? slash + 1 : folder->path;
    if (!folder->name[0] || len + 2 > sizeof folder->dir)
        return err_set(err, ERR_USAGE, 0, "\"%.200s\" is not the path of a file", folder->path);
    memcpy(folder->dir, folder->path, len);
    folder->dir[len] = '\0';
    if (len == 0)
        str_copy(folder->dir, sizeof folder->dir, slash ? "/" : ".");
    return true;
}

static bool add_watch(struct folder *folder)
{
    if (watch.fd < 0)
        watch.fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    return watch.fd >= 0 && inotify_add_watch(watch.fd, folder->dir, CHANGES) >= 0;
}

static void look_within(struct folder *folder, int64_t ns)
{
    int64_t at = clock_now_ns() + ns;
    if (folder->timer.at_ns > at)
        watch_call_at(&folder->timer, at);
}

void folder_look_again(struct folder *folder)
{
    look_within(folder, FOLDER_SETTLE_NS);
}

static void folder_look(struct folder *folder)
{
    folder->changed(folder);
    if (folder->is_far)
        look_within(folder, watch.options.interval_ns);
}

/* If the directory is missing, looks for it again at each interval. */
static void folder_on_timer(void *ctx)
{
    struct folder *folder = ctx;
    if (folder->is_far && add_watch(folder))
        folder->is_far = !is_local(folder->dir);
    folder_look(folder);
}

/* True if the event may concern our file. With Kubernetes's links only "..data" changes. */
static bool is_about_us(const struct folder *folder, const struct inotify_event *event)
{
    if (event->len == 0 || folder->is_all)
        return true;
    return str_is(event->name, folder->name) || str_starts(event->name, "..");
}

/* True if the directory was removed or moved, which ends its inotify watch. */
static bool is_end(const struct inotify_event *event)
{
    return event->mask & (IN_IGNORED | IN_MOVE_SELF | IN_DELETE_SELF | IN_UNMOUNT);
}

/* Remembers whether the last writer has closed the file: an open writer may still write. */
static void note_writer(struct folder *folder, unsigned mask)
{
    if (mask & (IN_CLOSE_WRITE | IN_MOVED_TO))
        folder->is_closed = true;
    else if (mask & ~(unsigned)IN_ATTRIB)
        folder->is_closed = false;
}

static void folder_on_change(void *ctx)
{
    struct folder *folder = ctx;
    _Alignas(struct inotify_event) char data[4096];
    ssize_t n = read(watch.fd, data, sizeof data);
    bool is_finished = false, is_unfinished = false;
    const struct inotify_event *event;
    for (ssize_t at = 0; at < n; at += (ssize_t)(sizeof *event + event->len)) {
        event = (const struct inotify_event *)(const void *)(data + at);
        if (is_end(event)) {
            fd_close(&watch.fd);
            folder->is_far = is_finished = true;
            folder->is_closed = false;
            break;
        }
        if (event->mask & IN_Q_OVERFLOW)
            is_finished = true;
        if (!is_about_us(folder, event))
            continue;
        *(event->mask & UNFINISHED ? &is_unfinished : &is_finished) = true;
        note_writer(folder, event->mask);
    }
    if (is_finished)
        folder_look(folder);
    else if (is_unfinished)
        folder_look_again(folder);
}

bool folder_watch(struct folder *folder, struct err *err)
{
    folder->timer =
        (struct watch_timer){.at_ns = CLOCK_NEVER, .fn = folder_on_timer, .ctx = folder};
    if (!folder_split(folder, err))
        return false;
    if (!add_watch(folder))
        return err_set(err, ERR_NOT_FOUND, errno, "cannot watch the directory %.300s", folder->dir);
    watch.on_fd = folder_on_change;
    watch.fd_ctx = folder;
    folder->is_far = !is_local(folder->dir);
    if (folder->is_far) {
        log_info(watch.options.source->word.name,
                 "others may write to the file system of %s unseen: it is looked at all the time",
                 folder->dir);
        look_within(folder, watch.options.interval_ns);
    }
    return true;
}

enum folder_found folder_read(struct folder *folder, struct err *err)
{
    /* Non-blocking: a FIFO without a writer must not block us. */
    FD_CLEANUP int fd = open(folder->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return FOLDER_NOTHING;
    err_set(err, ERR_SYSTEM, errno, "cannot read %.200s", folder->path);
    if (fd < 0 || fstat(fd, &st) != 0)
        return FOLDER_FAILED;
    if (!S_ISREG(st.st_mode)) {
        err_set(err, ERR_USAGE, 0, "%.200s is not a regular file", folder->path);
        return FOLDER_FAILED;
    }
    folder->len = 0;
    ssize_t n;
    while ((n = read(fd, folder->data + folder->len, sizeof folder->data - folder->len)) > 0)
        folder->len += (size_t)n;
    folder->changed_ns = st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec;
    if (n < 0)
        err_set(err, ERR_SYSTEM, errno, "cannot read %.200s", folder->path);
    else if (folder->len > FOLDER_FILE_MAX)
        err_set(err, ERR_USAGE, 0, "%.200s has more than %d bytes", folder->path, FOLDER_FILE_MAX);
    return n < 0 || folder->len > FOLDER_FILE_MAX ? FOLDER_FAILED : FOLDER_FILE;
}
