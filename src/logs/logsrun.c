/* SPDX-License-Identifier: Apache-2.0
 * See logsrun.h.
 */
#include "logs/logsrun.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/sigtext.h"
#include "base/str.h"
#include "os/proc.h"

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

enum {
    PIPE_BYTES = 64 * 1024, /* the size of a pipe */
    FAILURES_FEW = 3,
    LINES_MAX = 20, /* log lines within some seconds */
};

const char *const logs_stream_names[] = {[LOGS_STDOUT] = "stdout", [LOGS_STDERR] = "stderr"};

/* The command's rank; or the node's rank if the node's only command may start several ranks. */
static int number_of(const struct logs *logs, int index)
{
    const struct core_params *params = logs->params;
    bool has_ranks = logs->config->procs.count_is_set;
    return has_ranks ? params->node_rank * params->children + index : params->node_rank;
}

void logs_name(const struct logs *logs, int index, char name[LOGS_NAME_SIZE])
{
    snprintf(name, LOGS_NAME_SIZE, "%s.%d", logs->config->procs.count_is_set ? "rank" : "node",
             number_of(logs, index));
}

/* --- to the log --- */

uint64_t logs_run_lost(const struct logs_run *run, enum tee_branch which)
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
    if (run->logs->on_found && run == run->logs->run)
        run->logs->on_found(run->logs->ctx);
}

/* --- one generation's --- */

void logs_run_begun(struct logs_run *run)
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

void logs_run_free(struct logs_run *run)
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

/* The pipes may still hold output, so this starts a log process if none runs. */
void logs_run_end(struct logs_run *run, int64_t until)
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
    char name[LOGS_NAME_SIZE];
    logs_name(logs, index, name);
    if (logs->config->logs.prefix)
        snprintf(stream->prefix, sizeof stream->prefix, "[%s%d] ",
                 logs->config->procs.count_is_set ? "" : "node ", number_of(logs, index));
    if (asprintf(&stream->path, "%s/attempt.%" PRIu32 "/gen.%" PRIu32 "/%s.%s",
                 logs->config->logs.dir, attempt, generation, name, logs_stream_names[which]) < 0)
        stream->path = NULL;
    int fd = which == LOGS_STDOUT ? STDOUT_FILENO : STDERR_FILENO;
    stream->to = logs->config->logs.tee && !(logs->closed & 1U << fd) ? fd : -1;
    return stream->path || err_set(err, ERR_SYSTEM, ENOMEM, "cannot start");
}

static bool logs_run_open_stream(struct logs_run *run, size_t i, struct err *err)
{
    int ends[2];
    if (!fd_pipe(ends, 0, err))
        return err_wrap(err, "the commands' output cannot be kept (logs.dir)");
    run->tee.streams[i].fd = ends[0];
    run->tee.streams[i].writer = ends[1];
    return true;
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

static const regex_t *pattern_of(const struct logs *logs, enum logs_pattern which)
{
    return logs->has_pattern[which] ? &logs->patterns[which] : NULL;
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
                                     .keep = logs->config->logs.keep,
                                     .rules = {.step = pattern_of(logs, LOGS_STEP),
                                               .failure = pattern_of(logs, LOGS_FAILURE)}}};
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

struct logs_run *logs_run_new(struct logs *logs, uint32_t attempt, uint32_t generation,
                              struct err *err)
{
    struct logs_run *run = new_run(logs);
    bool ok = true;
    if (!run) {
        err_set(err, ERR_SYSTEM, ENOMEM, "cannot keep the commands' output");
        return NULL;
    }
    for (size_t i = 0; ok && i < run->tee.count; i++)
        ok = word_stream(run, i, attempt, generation, err) && logs_run_open_stream(run, i, err);
    if (ok && open_control(run, err) && start_tee(run, err))
        return run;
    logs_run_free(run);
    return NULL;
}
