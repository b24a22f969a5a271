/* SPDX-License-Identifier: Apache-2.0
 *
 * file: two sources that watch a file which other programs write.
 *
 * With `file` an existing file is a notice. Its content may be one notice as JSON, or a text for
 * people. Removing the file cancels the notice. Content without a line end, or incomplete JSON, is
 * read again before it counts.
 *
 * With `kubernetes` the notice is an annotation of the pod, in a file of a downward API volume.
 * This is for clusters that announce the end before the SIGTERM. The value is read like a file's
 * content. A missing or empty value, or a word that means no, is not a notice.
 *
 * inotify tells of changes in the file's directory. The file may appear, change, be replaced, moved
 * or removed. It may also be a symbolic link into a directory that is replaced as a whole, as in
 * Kubernetes. On a shared file system, where inotify misses changes of other machines, and while
 * the directory is missing, the file is also read every `interval`.
 */
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "watch/answers/body.h"
#include "watch/watchrun.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONTENT_MAX      65536
#define PODINFO_USUAL    "/etc/podinfo/annotations"
#define ANNOTATION_USUAL "pchrun/notice"

/* A writer may not have finished. So the file is read when it is closed, or this time after its
 * first change. */
#define SETTLE_NS (100 * NS_PER_MS)

#define CHANGES                                                                         \
    (IN_CREATE | IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | \
     IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)
#define UNFINISHED (IN_CREATE | IN_MODIFY | IN_ATTRIB)

static struct file {
    const char *path;
    const char *annotation; /* the key of the notice; NULL: the whole file is the notice */
    char dir[4096];
    const char *name; /* the file's name in path */
    bool is_far;      /* inotify misses changes */
    bool is_closed;   /* the last event: a writer has closed the file */
    struct watch_timer timer;
    struct trouble trouble;
    char data[CONTENT_MAX + 1];
    size_t len;
    int64_t changed_ns; /* the file's own time, by the wall clock */
    /* Since when, and at which length, the content is incomplete; 0: it is complete. */
    int64_t unfinished_ns;
    size_t unfinished_len;
} file;

static void look_within(int64_t ns)
{
    int64_t at = clock_now_ns() + ns;
    if (file.timer.at_ns > at)
        watch_call_at(&file.timer, at);
}

/* ---- the content ---- */

enum file_found {
    FILE_READ,    /* `data` is its content */
    FILE_NOTHING, /* the file is missing */
    FILE_FAILED,  /* *err: the file cannot be read now */
};

static enum file_found file_read(struct err *err)
{
    /* Non-blocking: a FIFO without a writer must not block us. */
    FD_CLEANUP int fd = open(file.path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return FILE_NOTHING;
    err_set(err, ERR_SYSTEM, errno, "cannot read %.200s", file.path);
    if (fd < 0 || fstat(fd, &st) != 0)
        return FILE_FAILED;
    if (!S_ISREG(st.st_mode)) {
        err_set(err, ERR_USAGE, 0, "%.200s is not a regular file", file.path);
        return FILE_FAILED;
    }
    ssize_t n = fd_read_all(fd, file.data, sizeof file.data);
    file.len = n > 0 ? (size_t)n : 0;
    file.changed_ns = st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec;
    if (n < 0)
        err_set(err, ERR_SYSTEM, errno, "cannot read %.200s", file.path);
    else if (file.len > CONTENT_MAX)
        err_set(err, ERR_USAGE, 0, "%.200s has more than %d bytes", file.path, CONTENT_MAX);
    return n < 0 || file.len > CONTENT_MAX ? FILE_FAILED : FILE_READ;
}

/* `wanted`: only this value counts. NULL: any value but "" and words that mean no. */
static bool is_notice(const char *value, const char *wanted)
{
    static const char *const no[] = {"", "false", "no", "none", "null", "0"};
    if (wanted)
        return str_is(value, wanted);
    for (size_t i = 0; i < ARRAY_LEN(no); i++)
        if (strcasecmp(value, no[i]) == 0)
            return false;
    return true;
}

/* A notice without an id gets one: from the file's path and time, or from the annotation and its
 * value, which is also its key. */
static bool file_read_notice(const char *text, size_t len, struct events *events, struct err *err)
{
    char what[4200];
    struct event *event = events->list;
    if (!body_notice(text, len, clock_min(file.changed_ns, clock_real_ns()), events, err))
        return false;
    if (events->count == 0 || event->id[0])
        return true;
    if (file.annotation)
        snprintf(what, sizeof what, "%s %.300s", file.annotation, text);
    else
        snprintf(what, sizeof what, "%s %" PRId64, file.path, file.changed_ns);
    event_id(event->id, file.annotation ? "annotation" : "file", what);
    if (file.annotation)
        str_copy(event->key, sizeof event->key, event->id);
    return true;
}

static bool read_annotation(struct events *events, struct err *err)
{
    struct buf value;
    buf_init(&value, CONTENT_MAX + 1);
    bool ok = body_annotation(file.data, file.len, file.annotation, &value, err);
    const char *text = (const char *)buf_bytes(&value);
    if (ok && buf_len(&value) > 0 && is_notice(text, watch.options.value))
        ok = file_read_notice(text, strlen(text), events, err);
    buf_free(&value);
    return ok;
}

static bool has_end(void)
{
    const char *last = file.len > 0 ? &file.data[file.len - 1] : "";
    return *last == '\n' || *last == '}';
}

/* True while the file may still be written: a slow writer may have emptied it first. Waits until it
 * is closed, if inotify shows that, but not for ever. If it shrinks, the wait begins again. */
static bool may_go_on(bool is_notice)
{
    int64_t now = clock_now_ns(), patience = watch.options.interval_ns;
    if (is_notice && file.is_closed && !file.is_far)
        patience = clock_min(patience, SETTLE_NS);
    if (file.unfinished_ns == 0 || file.len < file.unfinished_len)
        file.unfinished_ns = now;
    file.unfinished_len = file.len;
    return now - file.unfinished_ns < patience && clock_real_ns() - file.changed_ns < patience;
}

/* While the volume of an annotation is replaced or missing, the last state stays. */
static void file_take(void)
{
    struct events events = {0};
    struct err err;
    enum file_found found = file_read(&err);
    bool ok = found == FILE_NOTHING && !file.annotation;
    if (found == FILE_NOTHING && file.annotation)
        err_set(&err, ERR_NOT_FOUND, 0, "the file is missing");
    if (found == FILE_READ)
        ok = file.annotation ? read_annotation(&events, &err)
                             : file_read_notice(file.data, file.len, &events, &err);
    if (found != FILE_READ || file.annotation || (ok && has_end())) {
        file.unfinished_ns = 0;
    } else if (may_go_on(ok)) {
        look_within(SETTLE_NS);
        return;
    }
    if (!ok) {
        watch_failed(&file.trouble, file.path, &err);
        return;
    }
    watch_works(&file.trouble, file.path);
    watch_tell(0, &events);
}

/* ---- the changes ---- */

static void file_look(void)
{
    file_take();
    if (file.is_far)
        look_within(watch.options.interval_ns);
}

static bool add_watch(void)
{
    if (watch.fd < 0)
        watch.fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    return watch.fd >= 0 && inotify_add_watch(watch.fd, file.dir, CHANGES) >= 0;
}

/* If the directory is missing, looks for it again at each interval. */
static void file_on_timer(void *ctx)
{
    if (file.is_far && add_watch())
        file.is_far = !fd_is_local_dir(file.dir);
    file_look();
}

/* True if the event may concern our file. With Kubernetes's links only "..data" changes. */
static bool is_about_us(const struct inotify_event *event)
{
    if (event->len == 0 || file.annotation)
        return true;
    return str_is(event->name, file.name) || str_starts(event->name, "..");
}

/* The directory was removed or moved, which ends its inotify watch. */
#define ENDED (IN_IGNORED | IN_MOVE_SELF | IN_DELETE_SELF | IN_UNMOUNT)

/* Remembers whether the last writer has closed the file: an open writer may still write. */
static void note_writer(unsigned mask)
{
    if (mask & (IN_CLOSE_WRITE | IN_MOVED_TO))
        file.is_closed = true;
    else if (mask & ~(unsigned)IN_ATTRIB)
        file.is_closed = false;
}

static void file_on_change(void)
{
    _Alignas(struct inotify_event) char data[4096];
    ssize_t n = read(watch.fd, data, sizeof data);
    bool is_finished = false, is_unfinished = false;
    const struct inotify_event *event;
    for (ssize_t at = 0; at < n; at += (ssize_t)(sizeof *event + event->len)) {
        event = (const struct inotify_event *)(const void *)(data + at);
        if (event->mask & ENDED) {
            fd_close(&watch.fd);
            file.is_far = is_finished = true;
            file.is_closed = false;
            break;
        }
        if (event->mask & IN_Q_OVERFLOW)
            is_finished = true;
        if (!is_about_us(event))
            continue;
        *(event->mask & UNFINISHED ? &is_unfinished : &is_finished) = true;
        note_writer(event->mask);
    }
    if (is_finished)
        file_look();
    else if (is_unfinished)
        look_within(SETTLE_NS);
}

/* ---- the start ---- */

static bool file_split(struct err *err)
{
    const char *slash = strrchr(file.path, '/');
    size_t len = slash ? (size_t)(slash - file.path) : 0;
    file.name = slash ? slash + 1 : file.path;
    if (!file.name[0] || len + 2 > sizeof file.dir)
        return err_set(err, ERR_USAGE, 0, "\"%.200s\" is not the path of a file", file.path);
    memcpy(file.dir, file.path, len);
    file.dir[len] = '\0';
    if (len == 0)
        str_copy(file.dir, sizeof file.dir, slash ? "/" : ".");
    return true;
}

/* False: there is no such directory. */
static bool watch_file(const char *path, struct err *err)
{
    file.path = path;
    file.timer = (struct watch_timer){.at_ns = CLOCK_NEVER, .fn = file_on_timer};
    if (!file_split(err))
        return false;
    if (!add_watch())
        return err_set(err, ERR_NOT_FOUND, errno, "cannot watch the directory %.300s", file.dir);
    watch.on_fd = file_on_change;
    file.is_far = !fd_is_local_dir(file.dir);
    if (file.is_far)
        log_info(
            watch.options.source->word.name,
            "inotify misses changes by other machines in %s: the file is read at each interval",
            file.dir);
    file_look();
    return true;
}

static bool file_start(struct err *err)
{
    return watch_file(watch.options.path, err);
}

static bool kubernetes_start(struct err *err)
{
    const char *path = watch.options.path ? watch.options.path : PODINFO_USUAL;
    file.annotation = watch.options.annotation ? watch.options.annotation : ANNOTATION_USUAL;
    return watch_file(path, err) ||
           err_set(err, ERR_NOT_FOUND, 0,
                   "there is no %.200s; give the pod a volume of the downward API with its "
                   "annotations (fieldPath: metadata.annotations), and name the file here",
                   path);
}

const struct source source_file = {
    .word = {"file", "a file: a notice as long as it exists", "PATH", " "},
    .interval_ns = NS_PER_S,
    .topics = 1,
    .start = file_start,
};

const struct source source_kubernetes = {
    .word = {"kubernetes", "an annotation of the pod, in a file of the downward API", "[PATH]",
             " annotation value "},
    .interval_ns = NS_PER_S,
    .topics = 1,
    .start = kubernetes_start,
};
