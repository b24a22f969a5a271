/* SPDX-License-Identifier: Apache-2.0
 * See sink.h.
 */
#include "tee/sink.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* How long a slow place (a file or a terminal) may delay a command that prints; after that the
 * command's output is dropped. */
#define FULL_WAIT_NS (500 * NS_PER_MS)
#define RETRY_NS     (500 * NS_PER_MS)
/* How long the sink waits for the end of a line, so that other streams do not interrupt it. */
#define PARTIAL_WAIT_NS (500 * NS_PER_MS)

enum {
    IN_MAX = 32 * 1024,         /* bytes to take from a queue at once */
    LINE_MAX_BYTES = 16 * 1024, /* do not wait for the end of a longer line */
    NOTE_MAX = 256,
    STACK_BYTES = 1 << 20 /* enough for sanitizers, too; unused pages cost nothing */
};

/* --- both sides --- */

void bell_supervisor(const struct bell *bell)
{
    send(bell->supervisor, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static size_t word_note(char note[NOTE_MAX], uint64_t bytes, const char *why)
{
    int n = snprintf(note, NOTE_MAX,
                     "\n[pchrun: %" PRIu64 " bytes of output are missing here: %s]\n", bytes, why);
    return (size_t)n < NOTE_MAX ? (size_t)n : NOTE_MAX - 1;
}

/* --- the reader's side --- */

void branch_init(struct branch *branch, size_t size, struct branch_state *state)
{
    branch->state = state;
    branch->file.fd = -1;
    buf_init(&branch->queue, size);
    atomic_store(&state->waiting, 0);
}

/* Adds bytes and wakes the sink's thread. False: there is no memory for them. */
static bool branch_queue(struct sink *sink, struct branch *branch, const char *bytes, size_t n)
{
    pthread_mutex_lock(&sink->lock);
    bool ok = buf_add(&branch->queue, bytes, n);
    atomic_store(&branch->state->waiting, buf_len(&branch->queue));
    pthread_cond_signal(&sink->work);
    pthread_mutex_unlock(&sink->lock);
    return ok;
}

/* A queue that was full takes bytes again when half of it is free: so few notes are written. */
static bool is_free_again(const struct branch *branch)
{
    return branch->state->waiting <= branch->queue.max / 2;
}

bool branch_accepts(struct branch *branch, size_t n, int64_t now, int64_t *ret_until)
{
    if (branch->state->is_full && branch->dropped == 0 && is_free_again(branch))
        branch->state->is_full = false; /* no bytes came meanwhile */
    if (branch->state->is_full || branch->queue.max - branch->state->waiting >= n) {
        branch->full_since = 0;
        return true;
    }
    if (branch->full_since == 0)
        branch->full_since = now;
    if (now - branch->full_since < FULL_WAIT_NS) {
        *ret_until = clock_min(*ret_until, branch->full_since + FULL_WAIT_NS);
        return false;
    }
    branch->full_since = 0;
    branch->dropped = 0;
    branch->state->is_full = true;
    return true;
}

/* The first dropped bytes are reported; a note in the output counts them all later. */
static void branch_drop(struct sink *sink, struct branch *branch, size_t n)
{
    bool is_new = branch->dropped == 0;
    branch->state->is_full = true;
    branch->dropped += n;
    atomic_fetch_add(&branch->state->lost, n);
    if (is_new)
        bell_supervisor(sink->bell);
}

void branch_add(struct sink *sink, struct branch *branch, const char *bytes, size_t n)
{
    char note[NOTE_MAX];
    if (branch->state->is_full && is_free_again(branch)) {
        size_t len = word_note(note, branch->dropped, "writes took too long");
        if (branch->dropped == 0 || branch_queue(sink, branch, note, len)) {
            branch->state->is_full = false;
            branch->dropped = 0;
            bell_supervisor(sink->bell);
        }
    }
    if (branch->state->is_full || !branch_queue(sink, branch, bytes, n))
        branch_drop(sink, branch, n);
}

void sink_close(struct sink *sink)
{
    pthread_mutex_lock(&sink->lock);
    atomic_store(&sink->is_closing, true);
    pthread_cond_signal(&sink->work);
    pthread_mutex_unlock(&sink->lock);
}

/* --- files --- */

/* Makes all missing parts of the directory. Another sink may make them at the same time. */
static bool make_folder(const char *path)
{
    char dir[PATH_MAX];
    if (!str_copy(dir, sizeof dir, path)) {
        errno = ENAMETOOLONG;
        return false;
    }
    for (char *p = strchr(dir + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = '\0';
        if (mkdir(dir, 0777) != 0 && errno != EEXIST)
            return false;
        *p = '/';
    }
    return true;
}

static int open_at(const char *path, int flags)
{
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC | flags,
                0666);
}

/* O_NONBLOCK: if the path is a pipe without a reader, open() must not wait for one. */
static bool rotate_open_file(struct rotate *file, int flags)
{
    struct stat st;
    FD_CLEANUP int fd = open_at(file->path, flags | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT && make_folder(file->path))
        fd = open_at(file->path, flags | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) != 0)
        return false;
    if (!S_ISREG(st.st_mode)) {
        errno = EEXIST;
        return false;
    }
    file->size = (uint64_t)st.st_size;
    file->fd = fd_take(&fd);
    return true;
}

static bool move_on(const char *path, int from, int to)
{
    char old[PATH_MAX], new[PATH_MAX];
    int n = from == 0 ? snprintf(old, sizeof old, "%s", path)
                      : snprintf(old, sizeof old, "%s.%d", path, from);
    int m = snprintf(new, sizeof new, "%s.%d", path, to);
    if (n >= (int)sizeof old || m >= (int)sizeof new) {
        errno = ENAMETOOLONG;
        return false;
    }
    return rename(old, new) == 0 || errno == ENOENT;
}

static bool rotate_turn(struct rotate *file)
{
    fd_close(&file->fd);
    for (int i = file->keep; i > 0; i--)
        if (!move_on(file->path, i - 1, i))
            return false;
    return rotate_open_file(file, file->keep == 0 ? O_TRUNC : 0);
}

size_t rotate_write(struct rotate *file, const char *bytes, size_t n)
{
    size_t done = 0;
    if (file->fd < 0 && !rotate_open_file(file, 0))
        return 0;
    while (done < n) {
        size_t len = n - done;
        if (file->max_size > 0 && file->size >= file->max_size && !rotate_turn(file))
            break;
        if (file->max_size > 0 && len > file->max_size - file->size)
            len = (size_t)(file->max_size - file->size);
        ssize_t k = write(file->fd, bytes + done, len);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            break;
        done += (size_t)k;
        file->size += (uint64_t)k;
    }
    return done;
}

/* --- several streams in one, line by line --- */

size_t mixer_whole_lines(const char *bytes, size_t n)
{
    while (n > 0 && bytes[n - 1] != '\n' && bytes[n - 1] != '\r')
        n--;
    return n;
}

/* The length up to the first '\n' or '\r', which it includes. */
static size_t piece_len(const char *bytes, size_t n)
{
    size_t len = 0;
    while (len < n && bytes[len] != '\n' && bytes[len] != '\r')
        len++;
    return len < n ? len + 1 : n;
}

/* A '\n' that follows a '\r' begins no line, so it gets no prefix. Returns the end of what it
 * wrote. */
static char *begin_piece(struct mixer *mixer, struct mixer_stream *stream, char first, char *out)
{
    bool closes_other = mixer->open && mixer->open != stream;
    if (stream->has_cr && first != '\n')
        stream->is_in_line = false;
    if (closes_other) {
        *out++ = '\n';
        mixer->open->is_in_line = mixer->open->has_cr = false;
    }
    if (!stream->is_in_line)
        out = stpcpy(out, stream->prefix);
    stream->is_in_line = true;
    mixer->open = stream;
    return out;
}

size_t mixer_add(struct mixer *mixer, struct mixer_stream *stream, const char *bytes, size_t n,
                 char *out)
{
    char *at = out;
    for (size_t done = 0, len; done < n; done += len) {
        at = begin_piece(mixer, stream, bytes[done], at);
        len = piece_len(bytes + done, n - done);
        at = mempcpy(at, bytes + done, len);
        char last = bytes[done + len - 1];
        stream->has_cr = last == '\r';
        if (last != '\n')
            continue;
        stream->is_in_line = false;
        mixer->open = NULL;
    }
    return (size_t)(at - out);
}

/* --- the sink's own --- */

static void set_trouble(struct sink *sink, struct branch *branch, int why)
{
    if (atomic_exchange(&branch->state->trouble, why) != why)
        bell_supervisor(sink->bell);
}

static void miss(struct branch *branch, size_t n)
{
    branch->missing += n;
    atomic_fetch_add(&branch->state->lost, n);
}

/* The descriptor may be non-blocking: other processes share the open file and may set O_NONBLOCK.
 */
static size_t write_to(int fd, const char *bytes, size_t n)
{
    size_t done = 0;
    while (done < n) {
        ssize_t k = write(fd, bytes + done, n - done);
        if (k < 0 && errno == EAGAIN)
            poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
        else if (k <= 0 && errno != EINTR)
            break;
        done += k > 0 ? (size_t)k : 0;
    }
    return done;
}

static size_t sink_write_out(struct branch *branch, const char *bytes, size_t n)
{
    return branch->file.path ? rotate_write(&branch->file, bytes, n)
                             : write_to(branch->fd, bytes, n);
}

/* Writes the note in the place of the missing bytes. */
static bool write_note(struct branch *branch)
{
    char note[NOTE_MAX];
    size_t len = word_note(note, branch->missing, strerror(branch->state->trouble));
    if (sink_write_out(branch, note, len) < len)
        return false;
    branch->missing = 0;
    return true;
}

static void sink_put(struct sink *sink, struct branch *branch, const char *bytes, size_t n)
{
    int64_t now = clock_now_ns();
    if (branch->missing > 0 && now < branch->retry_at) {
        miss(branch, n);
        return;
    }
    bool is_well = branch->missing == 0 || write_note(branch);
    size_t done = is_well ? sink_write_out(branch, bytes, n) : 0;
    int why = errno;
    if (is_well && done == n) {
        set_trouble(sink, branch, 0);
        return;
    }
    branch->retry_at = now + RETRY_NS;
    miss(branch, n - done);
    set_trouble(sink, branch, why);
}

/* Copies the first bytes of the queue, which stay in it until they are written. */
static size_t branch_copy(struct sink *sink, struct branch *branch, char bytes[IN_MAX])
{
    pthread_mutex_lock(&sink->lock);
    size_t n = buf_len(&branch->queue);
    n = n < IN_MAX ? n : IN_MAX;
    memcpy(bytes, buf_bytes(&branch->queue), n);
    pthread_mutex_unlock(&sink->lock);
    return n;
}

static void branch_take(struct sink *sink, struct branch *branch, size_t n)
{
    pthread_mutex_lock(&sink->lock);
    buf_drop(&branch->queue, n);
    atomic_store(&branch->state->waiting, buf_len(&branch->queue));
    pthread_mutex_unlock(&sink->lock);
}

/* Writes bytes as they come. */
static void deliver_bytes(struct sink *sink, struct branch *branch)
{
    char bytes[IN_MAX];
    size_t n = branch_copy(sink, branch, bytes);
    sink_put(sink, branch, bytes, n);
    branch_take(sink, branch, n);
}

static void deliver_lines(struct sink *sink, struct branch *branch)
{
    char bytes[IN_MAX];
    int64_t now = clock_now_ns();
    bool is_due = branch->partial_at > 0 && now >= branch->partial_at;
    size_t n = branch_copy(sink, branch, bytes);
    bool takes_all = is_due || n >= LINE_MAX_BYTES || atomic_load(&sink->is_closing);
    size_t taken = takes_all ? n : mixer_whole_lines(bytes, n);
    size_t len = mixer_add(&sink->mixer, &branch->mixed, bytes, taken, sink->text);
    sink_put(sink, branch, sink->text, len);
    branch_take(sink, branch, taken);
    branch->seen = n - taken;
    if (taken == n)
        branch->partial_at = 0;
    else if (taken > 0 || branch->partial_at == 0)
        branch->partial_at = now + PARTIAL_WAIT_NS;
}

/* Call with the lock held. */
static bool is_ready(struct sink *sink, struct branch *branch, int64_t now)
{
    size_t n = buf_len(&branch->queue);
    return n > 0 && (branch->partial_at == 0 || now >= branch->partial_at || branch->seen != n ||
                     atomic_load(&sink->is_closing));
}

/* Takes the branches in turn, so that much output in one does not delay the others. */
static struct branch *next_ready(struct sink *sink, int64_t *ret_until)
{
    int64_t now = clock_now_ns();
    *ret_until = CLOCK_NEVER;
    for (size_t i = 0; i < sink->count; i++) {
        struct branch *branch = sink->branches[(sink->next + i) % sink->count];
        if (is_ready(sink, branch, now)) {
            sink->next = (sink->next + i + 1) % sink->count;
            return branch;
        }
        if (branch->partial_at > 0)
            *ret_until = clock_min(*ret_until, branch->partial_at);
    }
    return NULL;
}

/* NULL: no more work will come. */
static struct branch *wait_for_work(struct sink *sink)
{
    struct branch *branch;
    int64_t until;
    pthread_mutex_lock(&sink->lock);
    while (!(branch = next_ready(sink, &until)) && !atomic_load(&sink->is_closing)) {
        struct timespec at = {.tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S};
        if (until == CLOCK_NEVER)
            pthread_cond_wait(&sink->work, &sink->lock);
        else
            pthread_cond_timedwait(&sink->work, &sink->lock, &at);
    }
    pthread_mutex_unlock(&sink->lock);
    return branch;
}

/* Opens the files early, so that they exist before any output and errors show at once. */
static void open_files(struct sink *sink)
{
    for (size_t i = 0; i < sink->count; i++) {
        struct rotate *file = &sink->branches[i]->file;
        if (!file->path)
            continue;
        rotate_write(file, "", 0);
        set_trouble(sink, sink->branches[i], file->fd < 0 ? errno : 0);
    }
}

static void *sink_run(void *arg)
{
    struct sink *sink = arg;
    struct branch *branch;
    open_files(sink);
    while ((branch = wait_for_work(sink))) {
        (sink->by_line ? deliver_lines : deliver_bytes)(sink, branch);
        eventfd_write(sink->bell->event, 1);
    }
    atomic_store(&sink->is_done, true);
    eventfd_write(sink->bell->event, 1);
    return NULL;
}

bool sink_init(struct sink *sink, size_t max, bool by_line, struct bell *bell)
{
    pthread_condattr_t monotonic;
    *sink = (struct sink){.lock = PTHREAD_MUTEX_INITIALIZER,
                          .branches = calloc(max, sizeof(struct branch *)),
                          .by_line = by_line,
                          .text = by_line ? malloc(MIXER_MAX(IN_MAX)) : NULL,
                          .bell = bell};
    return sink->branches && (!by_line || sink->text) && pthread_condattr_init(&monotonic) == 0 &&
           pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0 &&
           pthread_cond_init(&sink->work, &monotonic) == 0;
}

void sink_put_in(struct sink *sink, struct branch *branch)
{
    sink->branches[sink->count++] = branch;
}

bool sink_start(struct sink *sink)
{
    errno = sink->count > 0 ? thread_start(&sink->thread, STACK_BYTES, sink_run, sink) : 0;
    return errno == 0;
}

bool sink_is_done(const struct sink *sink)
{
    return sink->count == 0 || atomic_load(&sink->is_done);
}
