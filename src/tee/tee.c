/* SPDX-License-Identifier: Apache-2.0
 * See tee.h. One thread reads, and blocks in poll only; each sink has its own thread.
 */
#include "tee/tee.h"

#include "base/clock.h"
#include "base/fd.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* After the supervisor's end: how long the process still reads. */
#define LINGER_NS NS_PER_S
/* At the end: how long a place may make no progress, and how long it may take in all. */
#define FLUSH_STALL_NS NS_PER_S
#define FLUSH_NS       (5 * NS_PER_S)

enum {
    CHUNK = 64 * 1024, /* bytes to read at once */
    FILE_QUEUE = 512 * 1024,
    PASS_QUEUE = 256 * 1024,
    TORN_TRIES = 100
};

/* The places: the files, standard output, standard error. */
enum { SINK_FILES, SINK_OUT, SINK_ERR, SINK__COUNT };

struct route {
    struct tee_stream_state *state;
    int fd; /* -1: at its end */
    struct linematch match;
    struct branch branches[TEE_BRANCH__COUNT];
    struct sink *pass; /* NULL: not passed on */
};

struct reader {
    struct route *routes;
    size_t count;
    struct pollfd *polls; /* one for each route, then the bell's event and `control` */
    struct sink sinks[SINK__COUNT];
    struct bell bell;
    int control; /* -1: closed, so the process ends at `until` */
    int64_t until;
};

/* --- shared by both processes --- */

struct tee_stream_state *tee_states_new(size_t count, uint32_t lines)
{
    struct tee_stream_state *states = mmap(NULL, count * sizeof *states, PROT_READ | PROT_WRITE,
                                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (states == MAP_FAILED)
        return NULL;
    for (size_t i = 0; i < count; i++)
        states[i].tail.lines = lines;
    return states;
}

void tee_states_free(struct tee_stream_state *states, size_t count)
{
    if (states)
        munmap(states, count * sizeof *states);
}

/* First look whether the pipe is empty, then whether is_reading is false. If both are true, the
 * tail has all bytes. */
bool tee_is_read(const struct tee_stream *stream, struct tee_stream_state *state)
{
    int waiting;
    return ioctl(stream->fd, FIONREAD, &waiting) == 0 && waiting == 0 &&
           !atomic_load(&state->is_reading);
}

void tee_count_left(struct tee_stream_state *states, size_t count)
{
    for (size_t i = 0; i < count * TEE_BRANCH__COUNT; i++) {
        struct branch_state *branch =
            &states[i / TEE_BRANCH__COUNT].branches[i % TEE_BRANCH__COUNT];
        atomic_fetch_add(&branch->lost, atomic_exchange(&branch->waiting, 0));
    }
}

/* With much output, or after a kill, the copy may be inconsistent: readers must allow for that. */
void tee_read_tail(struct tee_stream_state *state, struct tail *ret)
{
    for (int i = 0; i < TORN_TRIES; i++) {
        uint32_t version = atomic_load(&state->version);
        *ret = state->tail;
        atomic_thread_fence(memory_order_seq_cst);
        if (version % 2 == 0 && version == atomic_load(&state->version))
            return;
    }
}

/* --- the reader --- */

static void keep_tail(struct tee_stream_state *state, const char *bytes, size_t n)
{
    atomic_fetch_add(&state->version, 1);
    tail_add(&state->tail, bytes, n);
    atomic_fetch_add(&state->version, 1);
    atomic_fetch_add(&state->bytes, n);
    atomic_store(&state->last_at, clock_now_ns());
}

/* n == 0: the stream has ended. */
static void match_lines(struct reader *reader, struct route *route, const char *bytes, size_t n)
{
    struct linematch *match = &route->match;
    int64_t at = route->state->last_at;
    bool is_wanted = match->rules.step || match->rules.failure;
    if (is_wanted && (n > 0 ? linematch_add(match, bytes, n, at) : linematch_end(match, at)))
        bell_supervisor(&reader->bell);
}

/* Adds to the queues first: after a kill, only bytes in them can be counted as lost. */
static void read_stream(struct reader *reader, struct route *route)
{
    char bytes[CHUNK];
    atomic_store(&route->state->is_reading, true);
    ssize_t n = read(route->fd, bytes, sizeof bytes);
    if (n > 0) {
        branch_add(&reader->sinks[SINK_FILES], &route->branches[TEE_FILE], bytes, (size_t)n);
        if (route->pass)
            branch_add(route->pass, &route->branches[TEE_PASS], bytes, (size_t)n);
        keep_tail(route->state, bytes, (size_t)n);
        match_lines(reader, route, bytes, (size_t)n);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        match_lines(reader, route, NULL, 0);
        fd_close(&route->fd);
    }
    atomic_store(&route->state->is_reading, false);
}

/* Asks both branches, because each has its own deadline. */
static bool accepts(struct route *route, int64_t now, int64_t *ret_until)
{
    bool does = branch_accepts(&route->branches[TEE_FILE], CHUNK, now, ret_until);
    if (route->pass && !branch_accepts(&route->branches[TEE_PASS], CHUNK, now, ret_until))
        does = false;
    return does;
}

/* Polls the routes that can be read now; poll(2) leaves out a negative descriptor. */
static void tee_choose(struct reader *reader, int64_t now, int64_t *ret_until)
{
    for (size_t i = 0; i < reader->count; i++) {
        struct route *route = &reader->routes[i];
        bool is_ready = route->fd >= 0 && accepts(route, now, ret_until);
        reader->polls[i] = (struct pollfd){.fd = is_ready ? route->fd : -1, .events = POLLIN};
    }
}

static bool has_open(const struct reader *reader)
{
    size_t i = 0;
    while (i < reader->count && reader->routes[i].fd < 0)
        i++;
    return i < reader->count;
}

static int timeout_ms(int64_t until, int64_t now)
{
    if (until == CLOCK_NEVER)
        return -1;
    return until <= now ? 0 : (int)((until - now + NS_PER_MS - 1) / NS_PER_MS);
}

static void tee_turn(struct reader *reader)
{
    int64_t now = clock_now_ns(), until = reader->until;
    size_t n = reader->count;
    uint64_t rings;
    tee_choose(reader, now, &until);
    reader->polls[n] = (struct pollfd){.fd = reader->bell.event, .events = POLLIN};
    reader->polls[n + 1] = (struct pollfd){.fd = reader->control, .events = POLLIN};
    poll(reader->polls, n + 2, timeout_ms(until, now));
    if (reader->polls[n].revents && read(reader->bell.event, &rings, sizeof rings) < 0)
        return;
    /* The supervisor never sends anything: so it has closed the socket, or died. */
    if (reader->polls[n + 1].revents) {
        fd_close(&reader->control);
        reader->until = clock_now_ns() + LINGER_NS;
    }
    for (size_t i = 0; i < n; i++)
        if (reader->polls[i].revents)
            read_stream(reader, &reader->routes[i]);
}

/* --- the end --- */

static bool is_flushed(const struct reader *reader)
{
    int i = 0;
    while (i < SINK__COUNT && sink_is_done(&reader->sinks[i]))
        i++;
    return i == SINK__COUNT;
}

static size_t count_left(struct reader *reader)
{
    size_t n = 0;
    for (size_t i = 0; i < reader->count * TEE_BRANCH__COUNT; i++)
        n += reader->routes[i / TEE_BRANCH__COUNT].state->branches[i % TEE_BRANCH__COUNT].waiting;
    return n;
}

/* Waits until all is written, or until a place makes no progress. */
static void wait_for_sinks(struct reader *reader)
{
    int64_t until = clock_now_ns() + FLUSH_NS, stalls_at = until;
    size_t before = SIZE_MAX;
    for (;;) {
        struct pollfd bell = {.fd = reader->bell.event, .events = POLLIN};
        int64_t now = clock_now_ns();
        uint64_t rings;
        size_t left = count_left(reader);
        if (left < before)
            stalls_at = clock_min(now + FLUSH_STALL_NS, until);
        before = left;
        if (is_flushed(reader) || now >= stalls_at)
            return;
        if (poll(&bell, 1, timeout_ms(stalls_at, now)) > 0 &&
            read(bell.fd, &rings, sizeof rings) < 0)
            return;
    }
}

/* --- the process --- */

/* Leaves the terminal and the process group, blocks all signals but SIGKILL, and closes the
 * supervisor's descriptors except those to write to. */
static void go_apart(const struct tee *tee, const int *keep, size_t n)
{
    sigset_t all;
    unsigned unused = 1U << STDIN_FILENO | 1U << STDOUT_FILENO | 1U << STDERR_FILENO;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setsid();
    prctl(PR_SET_NAME, "pchrun-logs");
    if (tee->out >= 0)
        dup2(tee->out, STDOUT_FILENO);
    fd_range(3, FD_RANGE_CLOSE, keep, n);
    for (size_t i = 0; i < tee->count; i++)
        if (tee->streams[i].to >= 0)
            unused &= ~(1U << tee->streams[i].to);
    fd_silence(unused);
    if (chdir("/") != 0)
        errno = 0; /* harmless: the process only keeps a directory in use */
}

/* Two streams to one file share a sink, to keep their order. */
static bool is_one_file(void)
{
    struct stat out, err;
    return fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
           out.st_dev == err.st_dev && out.st_ino == err.st_ino;
}

static void init_route(struct reader *reader, size_t i, const struct tee *tee, bool is_joined)
{
    struct route *route = &reader->routes[i];
    const struct tee_stream *stream = &tee->streams[i];
    struct branch *file = &route->branches[TEE_FILE], *pass = &route->branches[TEE_PASS];
    route->state = &tee->states[i];
    route->match.rules = tee->rules;
    route->match.found = &route->state->found;
    route->match.found->is_within = false;
    route->fd = stream->fd;
    if (atomic_load(&route->state->version) % 2 != 0) /* the last log process was killed */
        atomic_fetch_add(&route->state->version, 1);
    atomic_store(&route->state->is_reading, false);
    branch_init(file, FILE_QUEUE, &route->state->branches[TEE_FILE]);
    branch_init(pass, PASS_QUEUE, &route->state->branches[TEE_PASS]);
    file->file.path = stream->path;
    file->file.max_size = tee->max_size;
    file->file.keep = tee->keep;
    sink_put_in(&reader->sinks[SINK_FILES], file);
    if (stream->to < 0)
        return;
    pass->fd = stream->to;
    pass->mixed.prefix = stream->prefix;
    route->pass = &reader->sinks[!is_joined && stream->to == STDERR_FILENO ? SINK_ERR : SINK_OUT];
    sink_put_in(route->pass, pass);
}

static bool tee_init(struct reader *reader, const struct tee *tee)
{
    size_t n = tee->count; /* at least one command */
    assert(n > 0);
    bool is_joined = is_one_file();
    *reader = (struct reader){.routes = calloc(n, sizeof *reader->routes),
                              .count = n,
                              .polls = calloc(n + 2, sizeof *reader->polls),
                              .control = tee->control,
                              .until = CLOCK_NEVER};
    reader->bell = (struct bell){.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                 .supervisor = dup(tee->control)};
    bool ok = reader->routes && reader->polls && reader->bell.event >= 0;
    for (int i = 0; ok && i < SINK__COUNT; i++)
        ok = sink_init(&reader->sinks[i], n, i != SINK_FILES && tee->by_line, &reader->bell);
    for (size_t i = 0; ok && i < n; i++)
        init_route(reader, i, tee, is_joined);
    for (int i = 0; ok && i < SINK__COUNT; i++)
        ok = sink_start(&reader->sinks[i]);
    return ok;
}

static _Noreturn void tee_run(const struct tee *tee)
{
    struct reader reader;
    if (!tee_init(&reader, tee))
        _exit(errno ? errno : ENOMEM);
    while (has_open(&reader) && clock_now_ns() < reader.until)
        tee_turn(&reader);
    for (size_t i = 0; i < reader.count; i++) /* a thread that hangs would keep the pipes open */
        fd_close(&reader.routes[i].fd);
    for (int i = 0; i < SINK__COUNT; i++)
        sink_close(&reader.sinks[i]);
    wait_for_sinks(&reader);
    _exit(EXIT_SUCCESS);
}

bool tee_start(const struct tee *tee, pid_t *ret_pid, struct err *err)
{
    int *keep = calloc(tee->count + 1, sizeof *keep);
    if (!keep)
        return err_set(err, ERR_SYSTEM, ENOMEM, "cannot keep the commands' output");
    for (size_t i = 0; i < tee->count; i++)
        keep[i] = tee->streams[i].fd;
    keep[tee->count] = tee->control;
    pid_t pid = fork();
    int why = errno;
    if (pid == 0) {
        go_apart(tee, keep, tee->count + 1);
        tee_run(tee);
    }
    free(keep);
    if (pid > 0)
        *ret_pid = pid;
    return pid > 0 || err_set(err, ERR_SYSTEM, why,
                              "cannot start the process that keeps the commands' output");
}
