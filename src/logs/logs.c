/* SPDX-License-Identifier: Apache-2.0
 * See logs.h.
 */
#include "logs/logs.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "core/common/ranks.h"
#include "logs/logsrun.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TOPIC "logs"

/* The longest wait for the log process's end. Its own deadlines are shorter. */
#define END_WAIT_NS (8 * NS_PER_S)
/* The wait for the log process's end is at least this long. */
#define END_WAIT_MIN_NS (200 * NS_PER_MS)

/* A file system that needs longer than this to check the directory counts as dead. */
#define ANSWER_WAIT_NS (10 * NS_PER_S)
#define LOOK_NS        (NS_PER_MS / 5)

/* The loop stands still while it waits for a command's last output. All waits together last this
 * long at most, and then a tenth of the time. */
#define PATIENCE_NS (200 * NS_PER_MS)
enum { PATIENCE_SHARE = 10 };

enum {
    REPORT_BYTES = 256 * 1024, /* of all lines together */
    REPORT_TEXT_MIN = 128
};

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
    struct logs_run *run = logs_run_new(logs, attempt, generation, err);
    if (!run)
        return false;
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

/* The configuration has checked the patterns. */
static bool logs_compile(struct logs *logs, struct err *err)
{
    const char *texts[] = {[LOGS_STEP] = logs->config->watchdog.log,
                           [LOGS_FAILURE] = logs->config->watchdog.log_failure};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        logs->has_pattern[i] = texts[i] && regcomp(&logs->patterns[i], texts[i], REG_EXTENDED) == 0;
        if (texts[i] && !logs->has_pattern[i])
            return err_set(err, ERR_SYSTEM, ENOMEM, "cannot compile the pattern '%s'", texts[i]);
    }
    return true;
}

bool logs_open(struct logs *logs, struct err *err)
{
    const struct config *config = logs->config;
    logs->out = -1;
    if (!config->logs.dir || logs->params->children == 0)
        return true;
    if (!logs_check_dir(logs, err) || !logs_compile(logs, err))
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
    for (int i = 0; i < LOGS_PATTERN__COUNT; i++)
        if (logs->has_pattern[i])
            regfree(&logs->patterns[i]);
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

_Static_assert(LINEMATCH_STEP_MAX <= RANKS_STEP_MAX, "the core takes all steps of lines");

/* All that a command has printed. A last line without an end is matched at the end of the stream.
 */
static bool is_looked_at(const struct logs_run *run, size_t at)
{
    struct tee_stream_state *state = &run->tee.states[at];
    return tee_is_read(&run->tee.streams[at], state) && !state->found.is_within;
}

/* The wait for one command also serves those that have ended with it. */
static void await_output(struct logs_run *run, size_t at, int64_t until)
{
    int64_t now = clock_now_ns();
    int64_t patience = run->patience + (now - run->waited_at) / PATIENCE_SHARE;
    run->patience = patience < PATIENCE_NS ? patience : PATIENCE_NS;
    run->waited_at = now;
    until = clock_min(until, now + run->patience);
    while (!run->is_over && !is_looked_at(run, at) && clock_now_ns() < until)
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
    run->patience -= clock_now_ns() - run->waited_at;
}

struct logs_found logs_found(const struct logs *logs, int index, int64_t wait_ns)
{
    struct logs_found ret = {0};
    size_t first = (size_t)index * LOGS_STREAM__COUNT;
    int64_t newest = 0, until = clock_now_ns() + wait_ns;
    bool is_on = logs->run && (logs->has_pattern[LOGS_STEP] || logs->has_pattern[LOGS_FAILURE]);
    for (size_t i = first; is_on && i < first + LOGS_STREAM__COUNT; i++) {
        if (wait_ns > 0)
            await_output(logs->run, i, until);
        const struct linematch_found *found = &logs->run->tee.states[i].found;
        int64_t at = found->step_at;
        if (at > newest) {
            newest = at;
            ret.step = found->step;
            ret.has_step = true;
        }
        if (found->has_failed)
            ret.failure = found->failure;
    }
    return ret;
}

char *logs_error_lines(const struct logs *logs, int index, int64_t wait_ns, char *text, size_t size)
{
    struct logs_run *run = logs->run;
    size_t at = (size_t)index * LOGS_STREAM__COUNT + LOGS_STDERR;
    struct tail tail;
    text[0] = '\0';
    if (!run)
        return text;
    await_output(run, at, clock_now_ns() + wait_ns);
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
    writer_object(w, logs_stream_names[i % LOGS_STREAM__COUNT]);
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
    char name[LOGS_NAME_SIZE], traces[1024];
    if (!writer_object_if(w, key, run))
        return;
    writer_text(w, "dir", logs->config->logs.dir);
    writer_text(w, "traces", logs_traces(logs, traces, sizeof traces));
    writer_int(w, "lost", (int64_t)logs_run_lost(run, TEE_FILE));
    writer_int(w, "not_passed_on", (int64_t)logs_run_lost(run, TEE_PASS));
    writer_list(w, "commands");
    for (size_t i = 0; i < run->tee.count; i += LOGS_STREAM__COUNT) {
        logs_name(logs, (int)(i / LOGS_STREAM__COUNT), name);
        writer_object(w, NULL);
        writer_text(w, "name", name);
        for (size_t j = i; j < i + LOGS_STREAM__COUNT; j++)
            write_stream(logs, j, with_lines && logs->config->logs.lines > 0, w);
        writer_end(w);
    }
    writer_end(w);
    writer_end(w);
}
