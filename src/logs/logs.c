/* SPDX-License-Identifier: Apache-2.0
 * See logs.h.
 */
#include "logs/logs.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/sigtext.h"
#include "base/str.h"
#include "os/proc.h"
#include "tee/tee.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TOPIC "logs"

/* A log process that ends sooner than this is not replaced at once. */
#define RESTART_WAIT_NS NS_PER_S
/* The longest wait for the log process's end. Its own deadlines are shorter. */
#define END_WAIT_NS (8 * NS_PER_S)
/* The wait for the log process's end is at least this long. */
#define END_WAIT_MIN_NS (200 * NS_PER_MS)

/* A file system that needs longer than this to check the directory counts as dead. */
#define ANSWER_WAIT_NS (10 * NS_PER_S)
#define LOOK_NS        (NS_PER_MS / 5)

enum {
    PIPE_BYTES = 64 * 1024, /* the size of a pipe */
    FAILURES_FEW = 3,
    LINES_MAX = 20, /* log lines within some seconds */
    NAME_SIZE = 32,
    REPORT_BYTES = 256 * 1024, /* of all lines together */
    REPORT_TEXT_MIN = 128
};

static const char *const stream_names[] = {[LOGS_STDOUT] = "stdout", [LOGS_STDERR] = "stderr"};

/* The pipes of one generation's commands, and the log process that reads them. */
struct logs_run {
    struct logs *logs;
    struct logs_run *next;
    struct tee tee;
    int control;
    struct watch told, clock;
    struct reap_watch watch; /* pid 0: the log process does not run */
    int64_t started_at;
    int failures; /* how many log processes in a row ended early */
    bool is_ending, is_over;
    bool has_trouble[TEE_BRANCH__COUNT];
    uint64_t said_lost[TEE_BRANCH__COUNT];
};

/* The command's rank; or the node's rank if the node's only command may start several ranks. */
static int number_of(const struct logs *logs, int index)
{
    const struct core_params *params = logs->params;
    bool has_ranks = logs->config->procs.count_is_set;
    return has_ranks ? params->node_rank * params->children + index : params->node_rank;
}

/* "rank.3", "node.3" */
static void name_of(const struct logs *logs, int index, char name[NAME_SIZE])
{
    snprintf(name, NAME_SIZE, "%s.%d", logs->config->procs.count_is_set ? "rank" : "node",
             number_of(logs, index));
}

/* --- to the log --- */

/* The number of bytes that were not kept, or not passed on. */
static uint64_t logs_run_lost(const struct logs_run *run, enum tee_branch which)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < run->tee.count; i++)
        sum += run->tee.states[i].branches[which].lost;
    return sum;
}

/* The reason why output is not kept, or not passed on; NULL: no trouble. */
static const char *trouble_of(const struct logs_run *run, enum tee_branch which)
{
    for (size_t i = 0; i < run->tee.count; i++) {
        const struct branch_state *state = &run->tee.states[i].branches[which];
        if (state->trouble)
            return strerror(state->trouble);
        if (state->is_full)
            return "writes do not finish";
    }
    return NULL;
}

static void place_of(const struct logs_run *run, enum tee_branch which, char *text, size_t size)
{
    if (which == TEE_FILE)
        snprintf(text, size, "kept in '%s'", run->logs->config->logs.dir);
    else
        str_copy(text, size, "passed on to standard output or error");
}

/* Logs once when writing begins to fail, and once when it works again. */
static void look_at_place(struct logs_run *run, enum tee_branch which)
{
    const char *trouble = trouble_of(run, which);
    uint64_t missing = logs_run_lost(run, which) - run->said_lost[which];
    char place[512];
    if (run->has_trouble[which] == (trouble != NULL))
        return;
    place_of(run, which, place, sizeof place);
    run->has_trouble[which] = trouble != NULL;
    if (!log_limit_ok(&run->logs->limit, TOPIC, LINES_MAX))
        return;
    if (trouble) {
        log_warn(TOPIC,
                 "the commands' output cannot be %s: %s; until this works again, pchrun drops it, "
                 "and the training goes on",
                 place, trouble);
        return;
    }
    run->said_lost[which] += missing;
    log_notice(TOPIC, "the commands' output is %s again; %" PRIu64 " bytes are missing", place,
               missing);
}

static void say_lost(const struct logs_run *run, enum tee_branch which)
{
    char place[512];
    uint64_t missing = logs_run_lost(run, which) - run->said_lost[which];
    place_of(run, which, place, sizeof place);
    if (missing > 0)
        log_warn(TOPIC, "%" PRIu64 " bytes of the commands' output were not %s", missing, place);
}

static void on_told(void *ctx)
{
    struct logs_run *run = ctx;
    char bytes[256];
    ssize_t n = recv(run->control, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        watch_end(&run->told); /* the log process has ended; logs_run_on_change() handles that */
    look_at_place(run, TEE_FILE);
    look_at_place(run, TEE_PASS);
}

/* --- one generation's --- */

/* All commands are started: closes pchrun's ends of the pipes. */
static void logs_run_begun(struct logs_run *run)
{
    for (size_t i = 0; i < run->tee.count; i++)
        fd_close(&run->tee.streams[i].writer);
}

/* Keeps only the lines and figures, which the report needs, and closes the rest. */
static void close_run(struct logs_run *run)
{
    watch_end(&run->told);
    watch_end(&run->clock);
    fd_close(&run->control);
    fd_close(&run->tee.control);
    logs_run_begun(run);
    for (size_t i = 0; i < run->tee.count; i++)
        fd_close(&run->tee.streams[i].fd);
}

static void logs_run_free(struct logs_run *run)
{
    if (run->watch.pid) {
        proc_kill(run->watch.pid, SIGKILL);
        reap_forget(run->logs->reap, &run->watch);
    }
    close_run(run);
    tee_states_free(run->tee.states, run->tee.count);
    for (size_t i = 0; i < run->tee.count; i++)
        free(run->tee.streams[i].path);
    free(run->tee.streams);
    free(run);
}

static void end_run(struct logs_run *run)
{
    run->is_over = true;
    say_lost(run, TEE_FILE);
    say_lost(run, TEE_PASS);
    close_run(run);
    run->logs->loop->has_changed = true;
}

static bool start_tee(struct logs_run *run, struct err *err)
{
    run->started_at = clock_now_ns();
    if (!tee_start(&run->tee, &run->watch.pid, err))
        return false;
    reap_watch(run->logs->reap, &run->watch);
    return true;
}

/* After several failures in a row, drops the bytes in the pipes, so that the commands do not block
 * for long. */
static void drop_waiting(struct logs_run *run)
{
    char bytes[PIPE_BYTES];
    for (size_t i = 0; run->failures >= FAILURES_FEW && i < run->tee.count; i++) {
        ssize_t n = read(run->tee.streams[i].fd, bytes, sizeof bytes);
        if (n > 0)
            run->tee.states[i].branches[TEE_FILE].lost += (uint64_t)n;
    }
}

static void try_again(struct logs_run *run)
{
    struct err err;
    if (start_tee(run, &err))
        return;
    run->failures++;
    drop_waiting(run);
    if (log_limit_ok(&run->logs->limit, TOPIC, LINES_MAX))
        log_warn(TOPIC, "%s; pchrun tries again", err.text);
    watch_at(&run->clock, clock_now_ns() + RESTART_WAIT_NS);
}

static void say_ended(int status)
{
    char how[128];
    struct err err;
    if (!WIFEXITED(status)) {
        sigtext_of_status(status, how, sizeof how);
        log_warn(TOPIC,
                 "the process that keeps the commands' output has ended (%s); what it had not "
                 "written is lost, and pchrun starts another one",
                 how);
        return;
    }
    err_set(&err, ERR_SYSTEM, WEXITSTATUS(status),
            "the process that keeps the commands' output cannot start%s",
            WEXITSTATUS(status) == EAGAIN
                ? " for lack of threads (check the limits on processes and memory)"
                : "");
    log_warn(TOPIC, "%s; pchrun tries again", err.text);
}

/* The log process ended early. Replaces it soon, because the commands block when their pipes are
 * full. */
static void replace(struct logs_run *run, int status)
{
    int64_t now = clock_now_ns(), at = run->started_at + RESTART_WAIT_NS;
    run->failures = at <= now ? 0 : run->failures + 1;
    drop_waiting(run);
    if (log_limit_ok(&run->logs->limit, TOPIC, LINES_MAX))
        say_ended(status);
    if (at <= now)
        try_again(run);
    else
        watch_at(&run->clock, at);
}

static void logs_run_on_change(void *ctx, enum reap_what what, int status)
{
    struct logs_run *run = ctx;
    if (what == REAP_STOPPED)
        proc_kill(run->watch.pid, SIGCONT);
    if (what != REAP_EXITED || run->is_over)
        return;
    tee_count_left(run->tee.states, run->tee.count);
    if (status == 0 || run->is_ending)
        end_run(run);
    else
        replace(run, status);
}

/* The restart is due, or the log process has not ended in time. */
static void logs_run_on_clock(void *ctx)
{
    struct logs_run *run = ctx;
    if (!run->is_ending) {
        try_again(run);
        return;
    }
    if (run->watch.pid) {
        proc_kill(run->watch.pid, SIGKILL);
        tee_count_left(run->tee.states, run->tee.count);
    }
    end_run(run);
}

/* The commands have ended. The log process keeps what is left in the pipes, until `until` at the
 * latest. The pipes may still hold output, so this starts a log process if none runs. */
static void logs_run_end(struct logs_run *run, int64_t until)
{
    struct err err;
    if (run->is_over)
        return;
    if (run->is_ending) {
        watch_at(&run->clock, clock_min(until, run->clock.at));
        return;
    }
    run->is_ending = true;
    shutdown(run->control, SHUT_WR);
    if (run->watch.pid || start_tee(run, &err)) {
        watch_at(&run->clock, until);
        return;
    }
    log_warn(TOPIC, "%s", err.text);
    end_run(run);
}

/* --- how it begins --- */

static bool word_stream(struct logs_run *run, size_t i, uint32_t attempt, uint32_t generation,
                        struct err *err)
{
    const struct logs *logs = run->logs;
    struct tee_stream *stream = &run->tee.streams[i];
    int index = (int)(i / LOGS_STREAM__COUNT), which = (int)(i % LOGS_STREAM__COUNT);
    char name[NAME_SIZE];
    name_of(logs, index, name);
    if (logs->config->logs.prefix)
        snprintf(stream->prefix, sizeof stream->prefix, "[%s%d] ",
                 logs->config->procs.count_is_set ? "" : "node ", number_of(logs, index));
    if (asprintf(&stream->path, "%s/attempt.%" PRIu32 "/gen.%" PRIu32 "/%s.%s",
                 logs->config->logs.dir, attempt, generation, name, stream_names[which]) < 0)
        stream->path = NULL;
    int fd = which == LOGS_STDOUT ? STDOUT_FILENO : STDERR_FILENO;
    stream->to = logs->config->logs.tee && !(logs->closed & 1U << fd) ? fd : -1;
    return stream->path || err_set(err, ERR_SYSTEM, ENOMEM, "cannot start");
}

static bool logs_run_open_stream(struct logs_run *run, size_t i, struct err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return err_set(err, ERR_SYSTEM, errno, "no pipe for the commands' output (logs.dir)");
    run->tee.streams[i].fd = ends[0];
    run->tee.streams[i].writer = ends[1];
    return fd_set_nonblock(ends[0], err);
}

static bool open_control(struct logs_run *run, struct err *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return err_set(err, ERR_SYSTEM, errno, "no socket to the process that keeps logs");
    run->control = ends[0];
    run->tee.control = ends[1];
    return watch_fd(&run->told, run->control, err);
}

static struct logs_run *new_run(struct logs *logs)
{
    size_t n = (size_t)logs->params->children * LOGS_STREAM__COUNT;
    struct logs_run *run = calloc(1, sizeof *run);
    if (!run)
        return NULL;
    *run = (struct logs_run){.logs = logs,
                             .control = -1,
                             .tee = {.control = -1,
                                     .out = logs->out,
                                     .max_size = (uint64_t)logs->config->logs.max_size,
                                     .keep = logs->config->logs.keep}};
    run->tee.by_line = logs->params->children > 1 || logs->config->logs.prefix;
    watch_init(&run->told, logs->loop->base, on_told, run);
    watch_init(&run->clock, logs->loop->base, logs_run_on_clock, run);
    run->watch = (struct reap_watch){.kind = REAP_HELPER, .fn = logs_run_on_change, .ctx = run};
    run->tee.streams = calloc(n, sizeof *run->tee.streams);
    run->tee.states = tee_states_new(n, (uint32_t)logs->config->logs.lines);
    if (!run->tee.streams || !run->tee.states) {
        logs_run_free(run);
        return NULL;
    }
    run->tee.count = n;
    for (size_t i = 0; i < n; i++)
        run->tee.streams[i].fd = run->tee.streams[i].writer = -1;
    return run;
}

/* --- generations --- */

/* Frees the older generations that have ended. */
static void free_older(struct logs *logs)
{
    struct logs_run **at = logs->run ? &logs->run->next : NULL;
    while (at && *at) {
        struct logs_run *older = *at;
        if (older->is_over && !older->watch.pid) {
            *at = older->next;
            logs_run_free(older);
        } else {
            at = &older->next;
        }
    }
}

bool logs_begin(struct logs *logs, uint32_t attempt, uint32_t generation, struct err *err)
{
    if (!logs->is_on)
        return true;
    if (logs->run)
        logs_run_end(logs->run, clock_now_ns() + END_WAIT_NS);
    struct logs_run *run = new_run(logs);
    if (!run)
        return err_set(err, ERR_SYSTEM, ENOMEM, "cannot keep the commands' output");
    bool ok = true;
    for (size_t i = 0; ok && i < run->tee.count; i++)
        ok = word_stream(run, i, attempt, generation, err) && logs_run_open_stream(run, i, err);
    if (!ok || !open_control(run, err) || !start_tee(run, err)) {
        logs_run_free(run);
        return false;
    }
    run->next = logs->run;
    logs->run = run;
    free_older(logs);
    return true;
}

void logs_output(const struct logs *logs, int index, int ret[LOGS_STREAM__COUNT])
{
    for (int i = 0; logs->run && i < LOGS_STREAM__COUNT; i++)
        ret[i] = logs->run->tee.streams[index * LOGS_STREAM__COUNT + i].writer;
}

void logs_begun(struct logs *logs)
{
    if (logs->run)
        logs_run_begun(logs->run);
}

/* --- the whole --- */

/* A child with a deadline checks the directory, because its file system may be dead. */
static bool logs_check_dir(struct logs *logs, struct err *err)
{
    sigset_t none;
    sigemptyset(&none);
    struct dirlock_request request = {
        .dir = logs->config->logs.dir, .answer_ns = ANSWER_WAIT_NS, .end = &none};
    return dirlock_take(&logs->dir, &request, logs->reap, err) == DIRLOCK_OK ||
           err_wrap(err, "the commands' output cannot be kept (logs.dir)");
}

bool logs_open(struct logs *logs, struct err *err)
{
    const struct config *config = logs->config;
    logs->out = -1;
    if (!config->logs.dir || logs->params->children == 0)
        return true;
    if (!logs_check_dir(logs, err))
        return false;
    /* A copy, because pchrun may close its standard output while the job runs. */
    logs->out = config->logs.tee ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3) : -1;
    if (config->logs.tee && logs->out < 0)
        return err_set(err, ERR_SYSTEM, errno, "cannot duplicate standard output (logs.tee)");
    logs->is_on = true;
    return true;
}

void logs_free(struct logs *logs)
{
    struct logs_run *next;
    for (struct logs_run *run = logs->run; run; run = next) {
        next = run->next;
        logs_run_free(run);
    }
    if (logs->is_on)
        fd_close(&logs->out);
    dirlock_free(&logs->dir);
    *logs = (struct logs){.out = -1};
}

void logs_end(struct logs *logs, int64_t deadline)
{
    int64_t now = clock_now_ns(), until = clock_min(deadline, now + END_WAIT_NS);
    if (until < now + END_WAIT_MIN_NS)
        until = now + END_WAIT_MIN_NS;
    for (struct logs_run *run = logs->run; run; run = run->next)
        logs_run_end(run, until);
    log_limit_end(&logs->limit, TOPIC);
}

bool logs_is_busy(const struct logs *logs)
{
    bool is_busy = false;
    for (const struct logs_run *run = logs->run; run; run = run->next)
        is_busy = is_busy || !run->is_over;
    return is_busy;
}

/* --- to others --- */

int64_t logs_last_at(const struct logs *logs)
{
    int64_t last = 0;
    for (size_t i = 0; logs->run && i < logs->run->tee.count; i++) {
        int64_t at = logs->run->tee.states[i].last_at;
        last = at > last ? at : last;
    }
    return last;
}

char *logs_error_lines(const struct logs *logs, int index, int64_t wait_ns, char *text, size_t size)
{
    const struct logs_run *run = logs->run;
    size_t at = (size_t)index * LOGS_STREAM__COUNT + LOGS_STDERR;
    int64_t until = clock_now_ns() + wait_ns;
    struct tail tail;
    text[0] = '\0';
    if (!run)
        return text;
    while (!run->is_over && !tee_is_read(&run->tee.streams[at], &run->tee.states[at]) &&
           clock_now_ns() < until)
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
    tee_read_tail(&run->tee.states[at], &tail);
    uint32_t lines = size < LOGS_ERROR_MAX ? (uint32_t)logs->config->logs.lines : UINT32_MAX;
    return tail_last(&tail, lines, text, size);
}

static void write_lines(struct writer *w, const char *key, char *text)
{
    char *rest = *text ? text : NULL, *line;
    writer_list(w, key);
    while ((line = strsep(&rest, "\n")))
        writer_text(w, NULL, line);
    writer_end(w);
}

/* How many bytes of text each list of lines may have. */
static size_t logs_text_size(const struct logs_run *run)
{
    size_t size = REPORT_BYTES / (2 * run->tee.count);
    if (size < REPORT_TEXT_MIN)
        return REPORT_TEXT_MIN;
    return size < TAIL_TEXT_MAX ? size : TAIL_TEXT_MAX;
}

static void write_stream(const struct logs *logs, size_t i, bool with_lines, struct writer *w)
{
    const struct logs_run *run = logs->run;
    struct tee_stream_state *state = &run->tee.states[i];
    size_t size = logs_text_size(run);
    char text[TAIL_TEXT_MAX];
    struct tail tail;
    writer_object(w, stream_names[i % LOGS_STREAM__COUNT]);
    writer_text(w, "file", run->tee.streams[i].path);
    writer_int(w, "bytes", (int64_t)state->bytes);
    writer_int(w, "lost", (int64_t)state->branches[TEE_FILE].lost);
    if (with_lines) {
        tee_read_tail(state, &tail);
        write_lines(w, "first", tail_first(&tail, text, size));
        write_lines(w, "last", tail_last(&tail, (uint32_t)logs->config->logs.lines, text, size));
    }
    writer_end(w);
}

const char *logs_traces(const struct logs *logs, char *path, size_t size)
{
    const char *file = logs->run ? logs->run->tee.streams[0].path : NULL; /* a command's output */
    int len = file ? (int)(strrchr(file, '/') - file) : 0;
    return file && snprintf(path, size, "%.*s/trace.", len, file) < (int)size ? path : NULL;
}

void logs_write(const struct logs *logs, bool with_lines, struct writer *w, const char *key)
{
    const struct logs_run *run = logs->run;
    char name[NAME_SIZE], traces[1024];
    if (!writer_object_if(w, key, run))
        return;
    writer_text(w, "dir", logs->config->logs.dir);
    writer_text(w, "traces", logs_traces(logs, traces, sizeof traces));
    writer_int(w, "lost", (int64_t)logs_run_lost(run, TEE_FILE));
    writer_int(w, "not_passed_on", (int64_t)logs_run_lost(run, TEE_PASS));
    writer_list(w, "commands");
    for (size_t i = 0; i < run->tee.count; i += LOGS_STREAM__COUNT) {
        name_of(logs, (int)(i / LOGS_STREAM__COUNT), name);
        writer_object(w, NULL);
        writer_text(w, "name", name);
        for (size_t j = i; j < i + LOGS_STREAM__COUNT; j++)
            write_stream(logs, j, with_lines && logs->config->logs.lines > 0, w);
        writer_end(w);
    }
    writer_end(w);
    writer_end(w);
}
