/* SPDX-License-Identifier: Apache-2.0
 * See source.h.
 */
#include "notices/source.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/sigtext.h"
#include "base/str.h"
#include "loop/loop.h"
#include "notices/noticeline.h"
#include "os/proc.h"
#include "os/program.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TOPIC   "source"
#define WATCHER "pchrun-watch"

/* For standard output: far more than a source needs. */
static const struct feed_options out_limits = {NOTICELINE_MAX, 20, 1024 * 1024};
/* For standard error, which goes to the log: longer lines are not for people. */
static const struct feed_options err_limits = {480, 200, 256 * 1024};

#define END_WAIT_NS  (500 * NS_PER_MS)
#define KILL_WAIT_NS (2 * NS_PER_S)
/* The source's state is "paused" until this time has passed without another flood. */
#define FLOOD_NS (10 * NS_PER_S)

#define WAIT_MIN_NS NS_PER_S
#define WAIT_MAX_NS (60 * NS_PER_S)
/* A run of this length resets the wait. */
#define GOOD_NS (60 * NS_PER_S)

/* Between two log lines about a poll that goes on failing. */
#define TELL_MIN_NS (60 * NS_PER_S)
#define TELL_MAX_NS (3600 * NS_PER_S)

#define TOO_LATE "it took too long and was killed"

enum { LINES_FEW = 10, WORDS_MAX = 20 }; /* lines of each kind in the log, within some seconds */
enum { FAILURES_FEW = 3 };

static bool is_poll(const struct source *source)
{
    return source->interval_ns > 0;
}

static void source_set_clock(struct source *source, int64_t after_ns)
{
    watch_at(&source->clock, clock_now_ns() + after_ns);
}

static void change(struct source *source)
{
    source->world->loop->has_changed = true;
}

/* Keeps the last error for the report. */
static void note_error(struct source *source, const char *text)
{
    bool is_new = !str_is(source->last_error, text);
    str_fit(source->last_error, sizeof source->last_error, text);
    str_printable(source->last_error);
    if (is_new)
        change(source);
}

/* --- its output --- */

static void source_post(struct source *source, const struct notice *notice)
{
    source->world->notice(source->world->ctx, notice);
}

static void source_complain(struct source *source, const char *what, const struct err *err,
                            const char *line)
{
    if (log_limit_ok(&source->bad_lines, TOPIC, LINES_FEW))
        log_warn(TOPIC, "%s: %s: %s: %.80s", source->name, what, err->text, line);
    note_error(source, err->text);
}

static bool is_blank(const char *line, size_t len)
{
    return strspn(line, " \t\r") == len;
}

static bool source_read_line(struct source *source, const char *line, size_t len,
                             struct notice *ret)
{
    struct err err;
    struct noticeline_reader reader = {
        .source = source->name, .real_now_ns = clock_real_ns(), .is_termination = is_poll(source)};
    enum noticeline_result result = noticeline_read(&reader, line, len, ret, &err);
    if (result != NOTICELINE_OK)
        source_complain(source,
                        result == NOTICELINE_BAD ? "not a notice" : "understood only in part", &err,
                        line);
    return result != NOTICELINE_BAD;
}

static uint64_t *find_end(struct source *source, uint64_t id)
{
    for (size_t i = 0; i < ARRAY_LEN(source->ends); i++)
        if (source->ends[i] == id)
            return &source->ends[i];
    return NULL;
}

/* A log line with the id of a notice withdraws it, so such a line is never dropped. False: the line
 * is one of too many. */
static bool may_post(struct source *source, const struct notice *notice)
{
    uint64_t id = str_hash(notice->id), *end = find_end(source, id);
    if (notice->type == NOTICE_TERMINATE && !end)
        source->ends[source->nends++ % SOURCE_ENDS_MAX] = id;
    if (notice->type != NOTICE_LOG)
        return true;
    if (!end)
        return log_limit_ok(&source->logs, TOPIC, LINES_FEW);
    *end = 0;
    return true;
}

static void source_on_line(void *ctx, const char *line, size_t len)
{
    struct source *source = ctx;
    struct notice notice;
    if (is_blank(line, len))
        return;
    source->last_line_at = clock_now_ns();
    if (is_poll(source)) {
        /* Only the first line counts; the exit status decides its meaning. */
        if (source->has_said || !source_read_line(source, line, len, &source->said))
            return;
        source->has_said = true;
        source->said_at = source->last_line_at;
        return;
    }
    if (source_read_line(source, line, len, &notice) && may_post(source, &notice))
        source_post(source, &notice);
}

static void on_too_long(void *ctx)
{
    struct source *source = ctx;
    struct err err;
    err_set(&err, ERR_PROTOCOL, 0, "it is longer than %d bytes", NOTICELINE_MAX);
    source_complain(source, "a line is skipped", &err, "");
}

static void on_flood(void *ctx)
{
    struct source *source = ctx;
    int64_t now = clock_now_ns();
    bool is_new = source->flooded_at == 0 || now - source->flooded_at > FLOOD_NS;
    source->flooded_at = now;
    if (!is_new)
        return;
    log_warn(TOPIC,
             "%s prints more than %u lines or %zu bytes in a second; pchrun reads it no faster "
             "than that",
             source->name, out_limits.lines_per_s, out_limits.bytes_per_s);
    change(source);
}

static void on_word(void *ctx, const char *line, size_t len)
{
    struct source *source = ctx;
    if (!is_blank(line, len) && log_limit_ok(&source->own_words, TOPIC, WORDS_MAX))
        log_info(TOPIC, "%s says: %s", source->name, line);
}

static void on_long_word(void *ctx)
{
    static const char text[] = "(a long line)";
    on_word(ctx, text, strlen(text));
}

/* --- its process --- */

/* Returns the end of the program. */
static bool open_input(struct source *source, int *ret_reader, struct err *err)
{
    int ends[2];
    if (!source->has_input)
        return true;
    if (!fd_pipe(ends, 1, err))
        return false;
    *ret_reader = ends[0];
    source->input = ends[1];
    return true;
}

static bool source_spawn(struct source *source, const int streams[3], struct err *err)
{
    struct spawn_request request = {.argv = source->argv,
                                    .env = source->world->env,
                                    .streams = {streams[0], streams[1], streams[2]},
                                    .tty = -1,
                                    .is_apart = true,
                                    .dir = source->world->dir};
    source->watch.pid = spawn_start(&request, &source->report, err);
    if (source->watch.pid)
        reap_watch(source->world->reap, &source->watch);
    return source->watch.pid != 0;
}

/* The pipes close at exec; before it the child copies the writing ends to standard streams. */
static bool start(struct source *source, struct err *err)
{
    struct event_base *base = source->world->loop->base;
    FD_CLEANUP int in = -1;
    FD_CLEANUP int out = -1;
    FD_CLEANUP int words = -1;
    return feed_open(&source->out, base, &out, err) && feed_open(&source->err, base, &words, err) &&
           open_input(source, &in, err) &&
           source_spawn(source, (int[]){in < 0 ? SPAWN_NULL : in, out, words}, err);
}

static void plan_next(struct source *source, const char *why);

void source_start(struct source *source)
{
    struct err err;
    source->started_at = clock_now_ns();
    source->is_late = source->has_said = false;
    if (!start(source, &err)) {
        feed_close(&source->out);
        feed_close(&source->err);
        fd_close(&source->input);
        plan_next(source, err.text);
        return;
    }
    bool has_changed = source->phase == SOURCE_OFF || !is_poll(source);
    source->phase = SOURCE_RUNNING;
    if (is_poll(source))
        source_set_clock(source, source->timeout_ns);
    if (has_changed)
        change(source);
}

void source_give(const struct source *source, const char *text, size_t len)
{
    if (source->input >= 0 && write(source->input, text, len) < 0)
        log_debug(TOPIC, "%s does not read its standard input", source->name);
}

/* --- when it is started again --- */

int64_t source_next_wait(int64_t before_ns, int64_t ran_ns)
{
    if (before_ns == 0 || ran_ns >= GOOD_NS)
        return WAIT_MIN_NS;
    return clock_min(2 * before_ns, WAIT_MAX_NS);
}

/* Warns until the wait has reached its maximum; later failures are debug lines. */
static void plan_restart(struct source *source, const char *why)
{
    int64_t wait = source_next_wait(source->wait_ns, clock_now_ns() - source->started_at);
    char text[32];
    log_line(wait == source->wait_ns ? LOG_DEBUG : LOG_WARN, TOPIC,
             "%s: %s; it is started again in %s%s", source->name, why,
             str_duration(wait, text, sizeof text),
             wait == WAIT_MAX_NS ? ", and so after each later failure" : "");
    source->wait_ns = wait;
    source->phase = SOURCE_DOWN;
    source->restarts++;
    source_set_clock(source, wait);
    change(source);
}

/* The first failures of a poll are logged, then one after a minute, after two more minutes, and so
 * on. A minute without a failure ends the series. */
static bool may_tell(struct source *source)
{
    int64_t now = clock_now_ns();
    if (now - source->failed_at > TELL_MIN_NS + 2 * source->interval_ns)
        source->told = 0;
    source->failed_at = now;
    bool is_early = source->told < FAILURES_FEW;
    if (!is_early && now < source->tell_at)
        return false;
    source->tell_wait_ns =
        is_early ? TELL_MIN_NS : clock_min(2 * source->tell_wait_ns, TELL_MAX_NS);
    source->tell_at = now + source->tell_wait_ns;
    source->told++;
    return true;
}

static void tell_failure(struct source *source, const char *why)
{
    char text[32] = "";
    if (!may_tell(source))
        return;
    log_warn(
        TOPIC, "%s gave no answer: %s%s%s", source->name, why,
        source->told < FAILURES_FEW ? ""
                                    : "; pchrun goes on asking, and logs no further failure for ",
        source->told < FAILURES_FEW ? "" : str_duration(source->tell_wait_ns, text, sizeof text));
}

static void plan_poll(struct source *source, const char *why)
{
    bool was_failing = source->is_failing;
    source->is_failing = why != NULL;
    if (why)
        tell_failure(source, why);
    source->phase = SOURCE_DOWN;
    watch_at(&source->clock, source->started_at + source->interval_ns);
    if (was_failing != source->is_failing)
        change(source);
}

/* `why` NULL: a poll has answered. */
static void plan_next(struct source *source, const char *why)
{
    if (why)
        note_error(source, why);
    if (is_poll(source))
        plan_poll(source, why);
    else
        plan_restart(source, why);
}

/* --- its end --- */

/* A poll repeats its notice. The core knows the notice by its id; a repeat postpones no deadline.
 */
static void source_tell_notice(struct source *source)
{
    struct notice notice = {.type = NOTICE_TERMINATE, .left_ns = NOTICE_LEFT_UNKNOWN};
    str_copy(notice.source, sizeof notice.source, source->name);
    if (source->has_said)
        notice = source->said;
    if (notice.left_ns != NOTICE_LEFT_UNKNOWN)
        notice.left_ns = source->said_at + notice.left_ns - clock_now_ns();
    source->gave_notice = true;
    source_post(source, &notice);
}

static void take_back(struct source *source)
{
    struct notice cancel = {.type = NOTICE_CANCEL, .left_ns = NOTICE_LEFT_UNKNOWN};
    str_copy(cancel.source, sizeof cancel.source, source->name);
    if (source->gave_notice)
        source_post(source, &cancel);
    source->gave_notice = false;
}

static void source_describe(const struct source *source, int status, char *text, size_t size)
{
    text[0] = '\0';
    if (source->is_late)
        str_addf(text, size, TOO_LATE);
    else if (status == REAP_LOST)
        str_addf(text, size, "its end was missed, so its exit code is unknown");
    else if (WIFSIGNALED(status))
        str_addf(text, size, "it was killed by %s", SIGTEXT(WTERMSIG(status)));
    else
        str_addf(text, size, "it ended with exit code %d", WEXITSTATUS(status));
}

/* Exit code 0: the end is coming; 1: no end is coming. Any other result changes nothing. */
static void judge_poll(struct source *source, int status, const char *why)
{
    bool is_exit = !source->is_late && status != REAP_LOST && WIFEXITED(status);
    int code = is_exit ? WEXITSTATUS(status) : -1;
    if (code == 0 && source->has_said && source->said.type == NOTICE_CANCEL) {
        why = "it prints a cancel, but its exit code 0 means a notice";
    } else if (code == 0) {
        source_tell_notice(source);
        why = NULL;
    } else if (code == 1) {
        take_back(source);
        why = NULL;
    }
    if (source->phase == SOURCE_RUNNING)
        plan_next(source, why);
}

static void source_finish(struct source *source)
{
    watch_at(&source->clock, CLOCK_NEVER);
    source->phase = SOURCE_OFF;
}

/* The source is still a zombie, so its group id is not reused and the group can be killed. */
static void source_on_change(void *ctx, enum reap_what what, int status)
{
    struct source *source = ctx;
    struct err err;
    char why[120];
    if (what != REAP_EXITED)
        return;
    proc_kill_group(source->watch.pid, SIGKILL);
    reap_strays(source->world->reap, source->world->mark);
    feed_drain(&source->out);
    feed_drain(&source->err);
    source_describe(source, status, why, sizeof why);
    bool has_failed = spawn_result(source->report, source->argv[0], &err) == SPAWN_FAILED;
    fd_close(&source->report);
    fd_close(&source->input);
    if (source->phase == SOURCE_RUNNING && is_poll(source) && !has_failed)
        judge_poll(source, status, why);
    else if (source->phase == SOURCE_RUNNING)
        plan_next(source, has_failed ? err.text : why);
    if (source->phase == SOURCE_ENDING)
        source_finish(source);
}

static void kill_now(struct source *source)
{
    source->is_killed = true;
    proc_kill_group(source->watch.pid, SIGKILL);
}

static void on_end_clock(struct source *source)
{
    if (!source->is_killed) {
        kill_now(source);
        source_set_clock(source, KILL_WAIT_NS);
        return;
    }
    log_warn(TOPIC, "%s, process %d, does not die after SIGKILL; pchrun leaves it behind",
             source->name, (int)source->watch.pid);
    source->phase = SOURCE_OFF;
}

static void source_on_clock(void *ctx)
{
    struct source *source = ctx;
    if (source->phase == SOURCE_ENDING) {
        on_end_clock(source);
    } else if (source->phase == SOURCE_DOWN) {
        source_start(source);
    } else if (source->phase == SOURCE_RUNNING) {
        /* A poll that hangs in a dead file system never ends by itself. */
        source->is_late = source->is_failing = true;
        note_error(source, TOO_LATE);
        proc_kill_group(source->watch.pid, SIGKILL);
    }
}

void source_end(struct source *source)
{
    if (!source->watch.pid) {
        source_finish(source);
        return;
    }
    source->phase = SOURCE_ENDING;
    /* A stopped process handles SIGTERM only after SIGCONT. */
    proc_kill_group(source->watch.pid, SIGTERM);
    proc_kill_group(source->watch.pid, SIGCONT);
    source_set_clock(source, END_WAIT_NS);
}

/* --- all of it --- */

char **source_watcher_args(const char *word, const char *path, struct err *err)
{
    char program[PATH_MAX];
    char *const args[] = {program, (char *)word, (char *)path, NULL};
    if (!program_beside(WATCHER, program, sizeof program))
        str_copy(program, sizeof program, WATCHER);
    return program_args(args, getenv("PATH"), err);
}

bool source_world_init(struct source_world *world, struct err *err)
{
    size_t n = str_count(environ);
    world->env = calloc(n + 2, sizeof *world->env);
    if (!world->env)
        return err_set(err, ERR_SYSTEM, ENOMEM, "no memory for the environment of programs");
    snprintf(world->mark, sizeof world->mark, "PCH_SOURCE_OF_%d_%" PRId64 "=1", (int)getpid(),
             clock_now_ns());
    memcpy(world->env, environ, n * sizeof *world->env);
    world->env[n] = world->mark;
    world->dir = getcwd(NULL, 0);
    return true;
}

void source_world_free(struct source_world *world)
{
    free(world->env);
    free(world->dir);
}

void source_open(struct source *source, const struct source_world *world)
{
    source->world = world;
    source->watch = (struct reap_watch){.kind = REAP_SOURCE, .fn = source_on_change, .ctx = source};
    source->report = source->input = source->out.fd = source->err.fd = -1;
    source->out.options = out_limits;
    source->out.calls = (struct feed_calls){source_on_line, on_too_long, on_flood, source};
    source->err.options = err_limits;
    source->err.calls = (struct feed_calls){on_word, on_long_word, NULL, source};
    watch_init(&source->clock, world->loop->base, source_on_clock, source);
}

void source_free(struct source *source)
{
    program_args_free(source->argv);
    if (!source->world)
        return;
    if (source->watch.pid) {
        kill_now(source);
        reap_forget(source->world->reap, &source->watch);
    }
    feed_close(&source->out);
    feed_close(&source->err);
    fd_close(&source->report);
    fd_close(&source->input);
    watch_end(&source->clock);
}

const char *source_state(const struct source *source)
{
    bool floods = source->flooded_at && clock_now_ns() - source->flooded_at <= FLOOD_NS;
    if (source->phase != SOURCE_RUNNING && source->phase != SOURCE_DOWN)
        return "off";
    if (is_poll(source))
        return source->is_failing ? "failing" : "running";
    if (source->phase == SOURCE_DOWN)
        return "restarting";
    return floods ? "paused" : "running";
}
