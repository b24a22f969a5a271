/* SPDX-License-Identifier: Apache-2.0
 * See evidence.h.
 */
#include "commands/evidence.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/sigtext.h"
#include "base/str.h"
#include "config/text.h"
#include "core/common/watchdog.h"
#include "os/proc.h"
#include "os/program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_WAIT_NS  (8 * NS_PER_S)
#define WRITE_WAIT_NS (10 * NS_PER_S)

enum {
    THREADS_MAX = 64, /* of one process */
    TEXT_MAX = 4 * 1024 * 1024,
    READ_MAX = 3 * 1024 * 1024, /* the part of TEXT_MAX for the states of the threads */
    LOG_LINES = 200,            /* without a file */
    DIGEST_LINES = 16,
    ARG_MAX_BYTES = 4096,        /* of the user's program */
    PROBE_TEXT_MAX = 256 * 1024, /* the output of one run */
    READ_BYTES = 16384
};

/* Also other Python processes below it. It does not stop them: the job may yet go on. */
static const char *const py_spy[] = {"py-spy", "dump", "--nonblocking", "--subprocesses", "--pid",
                                     "{pid}",  NULL};

static void next(void *ctx);

int64_t evidence_time(const struct config *config)
{
    return READ_WAIT_NS + config->watchdog.diagnose_wait_ns;
}

/* --- the targets --- */

static void find_ranks(struct evidence *evidence)
{
    struct core_rank_report ranks[CORE_SLOTS_MAX];
    int n = core_ranks(evidence->children->loop->core, ranks, CORE_SLOTS_MAX);
    for (int i = 0; i < n && evidence->ntargets < EVIDENCE_TARGETS; i++)
        if (ranks[i].is_attached)
            evidence->targets[evidence->ntargets++] = ranks[i];
}

static bool is_target(const struct evidence *evidence, pid_t pid)
{
    for (int i = 0; i < evidence->ntargets; i++)
        if (evidence->targets[i].pid == pid)
            return true;
    return false;
}

/* Adds the commands. A command may itself be a rank that has not attached yet. Or a signal may have
 * stopped it together with its ranks. */
static void find_commands(struct evidence *evidence)
{
    pid_t pids[EVIDENCE_TARGETS];
    int n = children_pids(evidence->children, pids, EVIDENCE_TARGETS);
    for (int i = 0; i < n && evidence->ntargets < EVIDENCE_TARGETS; i++)
        if (!is_target(evidence, pids[i]))
            evidence->targets[evidence->ntargets++] =
                (struct core_rank_report){.pid = pids[i], .rank = -1};
}

/* A debugger in another PID namespace has no pid here, so also look at the state of the process. */
static void find_stopped(struct evidence *evidence)
{
    struct proc proc;
    evidence->stopped_pid = 0;
    evidence->is_traced = false;
    for (int i = 0; i < evidence->ntargets && !evidence->is_traced; i++) {
        pid_t pid = evidence->targets[i].pid;
        if (!proc_read(pid, &proc) || (proc.state != 'T' && proc.state != 't'))
            continue;
        evidence->is_traced = proc.state == 't' || proc_is_traced(pid);
        if (evidence->is_traced || !evidence->stopped_pid)
            evidence->stopped_pid = pid;
    }
}

/* True if no target has moved since its last evidence. While a rank on another node is stopped, the
 * job is examined again and again. The step of a process that has not attached is unknown. */
static bool evidence_is_taken(const struct evidence *evidence)
{
    bool has_ranks = false;
    if (evidence->ntargets != evidence->ntaken)
        return false;
    for (int i = 0; i < evidence->ntargets; i++) {
        const struct core_rank_report *now = &evidence->targets[i], *then = &evidence->taken[i];
        if (now->pid != then->pid || now->rank != then->rank || now->step != then->step ||
            now->phase != then->phase || now->since != then->since)
            return false;
        has_ranks = has_ranks || now->rank >= 0;
    }
    return has_ranks;
}

/* --- the text --- */

static void evidence_add(struct evidence *evidence, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Leaves out text that does not fit. */
static void evidence_add(struct evidence *evidence, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    size_t len = n < (int)sizeof text ? (size_t)n : sizeof text - 1;
    if (n < 0 || !buf_add(&evidence->text, text, len))
        return;
}

/* "rank 3, process 12 (python3): state S in futex_wait_queue, at step 41 for 15m, phase train" */
static char *evidence_describe(const struct core_rank_report *target, char *text, size_t size)
{
    char wchan[64], ago[32];
    struct proc proc;
    text[0] = '\0';
    if (target->rank >= 0)
        str_addf(text, size, "rank %d, ", target->rank);
    str_addf(text, size, "process %d", target->pid);
    if (!proc_read(target->pid, &proc)) {
        str_addf(text, size, ": it has ended");
        return text;
    }
    proc_wchan(target->pid, wchan, sizeof wchan);
    str_addf(text, size, " (%s): state %c%s%s", proc.comm, proc.state, *wchan ? " in " : "", wchan);
    if (target->rank < 0)
        return text;
    str_addf(text, size, ", at step %llu", (unsigned long long)target->step);
    if (target->is_done)
        str_addf(text, size, ", done");
    else
        str_addf(text, size, " for %s, phase %s",
                 str_about(clock_now_ns() - target->since, ago, sizeof ago),
                 watchdog_phase_name(target->phase));
    return text;
}

static void log_digest(const struct evidence *evidence)
{
    char text[256];
    for (int i = 0; i < evidence->ntargets && i < DIGEST_LINES; i++)
        log_notice("watchdog", "%s", evidence_describe(&evidence->targets[i], text, sizeof text));
    if (evidence->ntargets > DIGEST_LINES)
        log_notice("watchdog", "and %d more processes", evidence->ntargets - DIGEST_LINES);
}

static void begin_text(struct evidence *evidence)
{
    char at[32];
    const struct core_params *params = evidence->children->params;
    struct core_report report;
    core_report(evidence->children->loop->core, &report);
    buf_drop(&evidence->text, buf_len(&evidence->text));
    evidence_add(evidence,
                 "pchrun: node %d of job %s, attempt %u, generation %u, at %s: no rank moves\n",
                 params->node_rank, params->job, report.attempt, report.generation,
                 clock_iso8601(clock_real_ns(), at, sizeof at));
}

/* --- the reader --- */

/* Runs in a child. */
static void read_threads(const void *arg, int out)
{
    const struct evidence *evidence = arg;
    char text[300];
    stacks_write(&evidence->stacks, out);
    for (int i = 0; i < evidence->ntargets; i++) {
        const struct core_rank_report *target = &evidence->targets[i];
        dprintf(out, "\n%s\n", evidence_describe(target, text, sizeof text));
        if (!proc_write_threads(out, target->pid, THREADS_MAX))
            _exit(1);
    }
}

static void evidence_on_read(void *ctx, bool is_late)
{
    struct evidence *evidence = ctx;
    const struct buf *text = &evidence->reader.text;
    stacks_log(buf_bytes(text), buf_len(text), DIGEST_LINES);
    if (!buf_add(&evidence->text, buf_bytes(text), buf_len(text)))
        evidence_add(evidence, "\n(no room for what the threads do)\n");
    if (is_late)
        evidence_add(evidence, "\n(gave up reading what the threads do: it took too long)\n");
    next(evidence);
}

/* --- the user's program --- */

static char *probe_fill_in(const char *arg, const struct probe *probe)
{
    char text[ARG_MAX_BYTES] = "", pid[16], rank[16];
    snprintf(pid, sizeof pid, "%d", probe->pid);
    snprintf(rank, sizeof rank, "%d", probe->rank);
    (void)str_fill_in(text, sizeof text, arg,
                      (struct str_part[]){{"{pid}", pid}, {"{rank}", rank}, {NULL, NULL}});
    return strdup(text);
}

static bool make_args(struct probe *probe, struct err *err)
{
    char **args = probe->evidence->args;
    size_t n = str_count(args);
    probe->argv = calloc(n + 1, sizeof *probe->argv);
    bool ok = probe->argv != NULL;
    for (size_t i = 0; ok && i < n; i++) {
        probe->argv[i] = i ? probe_fill_in(args[i], probe) : strdup(args[i]);
        ok = probe->argv[i] != NULL;
    }
    return ok || err_set(err, ERR_SYSTEM, ENOMEM, "cannot start '%s'", args[0]);
}

static void probe_keep(struct probe *probe, const char *data, size_t n)
{
    size_t room = probe->text.max - buf_len(&probe->text);
    size_t kept = n < room ? n : room;
    if (!buf_add(&probe->text, data, kept))
        kept = 0;
    probe->dropped += n - kept;
}

/* False: no more output for now, or the output has ended. */
static bool probe_take_some(struct probe *probe)
{
    char data[READ_BYTES];
    ssize_t n = read(probe->out, data, sizeof data);
    if (n > 0)
        probe_keep(probe, data, (size_t)n);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        watch_end(&probe->out_watch);
        fd_close(&probe->out);
    }
    return n > 0;
}

/* Reads only once: endless output must not delay other events. */
static void on_output(void *ctx)
{
    probe_take_some(ctx);
}

static void close_all(struct probe *probe)
{
    watch_end(&probe->out_watch);
    fd_close(&probe->out);
    fd_close(&probe->report);
    command_clear(&probe->argv);
}

/* The program has ended but is not reaped yet, so its pid still names its group. */
static void probe_on_change(void *ctx, enum reap_what what, int status)
{
    struct probe *probe = ctx;
    struct err err;
    if (what != REAP_EXITED)
        return;
    proc_kill_group(probe->watch.pid, SIGKILL);
    while (probe->out >= 0 && probe_take_some(probe))
        ;
    if (spawn_result(probe->report, probe->argv[0], &err) == SPAWN_FAILED)
        str_copy(probe->how, sizeof probe->how, err.text);
    else if (!probe->how[0])
        sigtext_of_status(status, probe->how, sizeof probe->how);
    close_all(probe);
    /* Go on later: until this call returns, the list of reap still has this probe. */
    watch_at(&probe->evidence->soon, clock_now_ns());
}

/* Returns the end that the program writes to; -1: *err. */
static int probe_open_pipe(struct probe *probe, struct err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        err_set(err, ERR_SYSTEM, errno, "no pipe to it");
        return -1;
    }
    FD_CLEANUP int writer = ends[1];
    probe->out = ends[0];
    watch_init(&probe->out_watch, probe->evidence->children->loop->base, on_output, probe);
    bool ok = fd_set_nonblock(probe->out, err) && watch_fd(&probe->out_watch, probe->out, err);
    return ok ? fd_take(&writer) : -1;
}

static bool probe_spawn(struct probe *probe, struct err *err)
{
    FD_CLEANUP int writer = probe_open_pipe(probe, err);
    struct spawn_request request = {.argv = probe->argv,
                                    .env = environ,
                                    .streams = {SPAWN_NULL, writer, writer},
                                    .tty = -1,
                                    .is_apart = true};
    probe->watch = (struct reap_watch){.kind = REAP_SOURCE, .fn = probe_on_change, .ctx = probe};
    probe->watch.pid = writer < 0 ? 0 : spawn_start(&request, &probe->report, err);
    if (probe->watch.pid)
        reap_watch(probe->evidence->children->reap, &probe->watch);
    return probe->watch.pid;
}

static bool probe_runs(const struct probe *probe)
{
    return probe->watch.pid;
}

/* Frees all. A program that still runs is killed. */
static void probe_free(struct probe *probe)
{
    if (probe_runs(probe)) {
        proc_kill_group(probe->watch.pid, SIGKILL);
        reap_forget(probe->evidence->children->reap, &probe->watch);
        close_all(probe);
    }
    buf_free(&probe->text);
    probe->is_used = false;
}

static void take_probe(struct evidence *evidence, struct probe *probe)
{
    evidence_add(evidence, "\n'%s' for process %d: %s\n", evidence->args[0], probe->pid,
                 probe->how);
    if (!buf_add(&evidence->text, buf_bytes(&probe->text), buf_len(&probe->text)))
        evidence_add(evidence, "(no room for what it printed)\n");
    if (probe->dropped)
        evidence_add(evidence, "\n(%zu bytes more were dropped)\n", probe->dropped);
    probe_free(probe);
}

/* py-spy is needed only for a Python that has not shown its stacks. */
static bool is_probed(const struct evidence *evidence, const struct core_rank_report *target)
{
    return !evidence->is_spy ||
           (proc_runs(target->pid, "python") &&
            !stacks_are_in(buf_bytes(&evidence->text), buf_len(&evidence->text), target->pid));
}

static void start_probe(struct evidence *evidence, struct probe *probe,
                        const struct core_rank_report *target)
{
    struct err err;
    *probe = (struct probe){.evidence = evidence,
                            .is_used = true,
                            .pid = target->pid,
                            .rank = target->rank,
                            .report = -1,
                            .out = -1};
    buf_init(&probe->text, PROBE_TEXT_MAX);
    if (make_args(probe, &err) && probe_spawn(probe, &err))
        return;
    str_fit(probe->how, sizeof probe->how, err.text);
    close_all(probe);
    take_probe(evidence, probe);
}

/* The end of the program is reported when reap has collected the program. */
static void probe_kill(struct probe *probe)
{
    if (!probe_runs(probe))
        return;
    str_copy(probe->how, sizeof probe->how, "killed, since its time was over");
    proc_kill_group(probe->watch.pid, SIGKILL);
}

/* Runs up to EVIDENCE_PROBES programs at a time; returns how many run. */
static int drive_probes(struct evidence *evidence)
{
    int running = 0;
    for (int i = 0; evidence->args && i < EVIDENCE_PROBES; i++) {
        struct probe *probe = &evidence->probes[i];
        if (probe->is_used && !probe_runs(probe))
            take_probe(evidence, probe);
        while (!probe->is_used && evidence->next_target < evidence->ntargets) {
            const struct core_rank_report *target = &evidence->targets[evidence->next_target++];
            if (is_probed(evidence, target))
                start_probe(evidence, probe, target);
        }
        running += probe->is_used;
    }
    return running;
}

/* --- where it goes --- */

static void log_text(struct evidence *evidence)
{
    if (!buf_add(&evidence->text, "", 1))
        return;
    char *rest = (char *)buf_bytes(&evidence->text), *line;
    for (int i = 0; i < LOG_LINES && (line = strsep(&rest, "\n"));)
        if (*line && ++i)
            log_info("evidence", "%.400s", str_printable(line));
    if (rest && *rest)
        log_info("evidence", "and more; set state_dir to keep all of it there");
}

static void evidence_answer(struct evidence *evidence)
{
    loop_post(evidence->children->loop,
              &(struct event){.type = EV_EXAMINED,
                              .examined = {.number = evidence->number,
                                           .stopped_pid = evidence->stopped_pid,
                                           .is_traced = evidence->is_traced}});
}

static void be_done(struct evidence *evidence)
{
    evidence->phase = EVIDENCE_IDLE;
    watch_at(&evidence->deadline, CLOCK_NEVER);
    memcpy(evidence->taken, evidence->targets,
           (size_t)evidence->ntargets * sizeof *evidence->taken);
    evidence->ntaken = evidence->ntargets;
    evidence_answer(evidence);
    evidence->children->loop->has_changed = true;
}

static void forget_path(struct evidence *evidence)
{
    free(evidence->path);
    evidence->path = NULL;
}

static void evidence_on_written(void *ctx, uint64_t tag, const struct err *err)
{
    struct evidence *evidence = ctx;
    if (err)
        log_warn("watchdog", "the evidence is not kept: %s", err->text);
    else
        log_notice("watchdog", "the evidence is in %s", evidence->path);
    if (err)
        forget_path(evidence);
    be_done(evidence);
}

static bool open_file(struct evidence *evidence, struct err *err)
{
    struct core_report report;
    core_report(evidence->children->loop->core, &report);
    statefile_free(&evidence->file);
    forget_path(evidence);
    if (asprintf(&evidence->path, "%.*s/hang.%d.%u.txt", evidence->dir_len, evidence->dir,
                 evidence->children->params->node_rank, report.generation) < 0) {
        evidence->path = NULL; /* asprintf() leaves the pointer undefined */
        return err_set(err, ERR_SYSTEM, ENOMEM, "no memory");
    }
    evidence->file = (struct statefile){.fn = evidence_on_written, .ctx = evidence};
    return statefile_init(&evidence->file, evidence->path, evidence->children->reap, err);
}

static void evidence_write_out(struct evidence *evidence)
{
    struct err err;
    evidence->phase = EVIDENCE_WRITING;
    if (!evidence->dir) {
        log_text(evidence);
        be_done(evidence);
        return;
    }
    watch_at(&evidence->deadline, clock_now_ns() + WRITE_WAIT_NS);
    if (!open_file(evidence, &err) ||
        !statefile_write(&evidence->file, 0, buf_bytes(&evidence->text), buf_len(&evidence->text),
                         &err))
        evidence_on_written(evidence, 0, &err);
}

/* --- the sequence --- */

static void next(void *ctx)
{
    struct evidence *evidence = ctx;
    if (evidence->phase == EVIDENCE_READING) {
        evidence->phase = EVIDENCE_PROBING;
        if (evidence->args)
            watch_at(&evidence->deadline,
                     clock_now_ns() + evidence->children->config->watchdog.diagnose_wait_ns);
    }
    if (evidence->phase == EVIDENCE_PROBING && drive_probes(evidence) == 0)
        evidence_write_out(evidence);
}

static void evidence_on_deadline(void *ctx)
{
    struct evidence *evidence = ctx;
    if (evidence->phase == EVIDENCE_WRITING) {
        statefile_give_up(&evidence->file);
        return;
    }
    evidence->next_target = evidence->ntargets;
    for (int i = 0; i < EVIDENCE_PROBES; i++)
        probe_kill(&evidence->probes[i]);
}

void evidence_stop(struct evidence *evidence)
{
    if (evidence->phase == EVIDENCE_IDLE || evidence->phase == EVIDENCE_WRITING)
        return;
    inquiry_stop(&evidence->reader);
    for (int i = 0; i < EVIDENCE_PROBES; i++)
        if (evidence->probes[i].is_used)
            probe_free(&evidence->probes[i]);
    watch_at(&evidence->deadline, CLOCK_NEVER);
    evidence->phase = EVIDENCE_IDLE;
}

bool evidence_is_busy(const struct evidence *evidence)
{
    return evidence->phase == EVIDENCE_WRITING;
}

void evidence_take(struct evidence *evidence, uint32_t number)
{
    struct err err;
    evidence_stop(evidence);
    evidence->number = number;
    evidence->ntargets = evidence->next_target = 0;
    find_ranks(evidence);
    find_commands(evidence);
    find_stopped(evidence);
    if (evidence->is_traced || evidence->ntargets == 0 || evidence->phase == EVIDENCE_WRITING ||
        evidence_is_taken(evidence)) {
        evidence_answer(evidence);
        return;
    }
    log_digest(evidence);
    begin_text(evidence);
    stacks_list(&evidence->stacks, evidence->children, evidence->targets, evidence->ntargets);
    evidence->phase = EVIDENCE_READING;
    if (inquiry_start(&evidence->reader, &err))
        return;
    evidence_add(evidence, "\n(what the threads do could not be read: %s)\n", err.text);
    next(evidence);
}

/* --- begin and end --- */

bool evidence_open(struct evidence *evidence, const char *state_dir, const char *report,
                   struct err *err)
{
    char **diagnose = evidence->children->config->watchdog.diagnose;
    struct event_base *base = evidence->children->loop->base;
    evidence->reader = (struct inquiry){.fn = read_threads,
                                        .arg = evidence,
                                        .base = base,
                                        .wait_ns = READ_WAIT_NS,
                                        .max = READ_MAX,
                                        .on_over = evidence_on_read,
                                        .ctx = evidence,
                                        .helper.reap = evidence->children->reap};
    watch_init(&evidence->deadline, base, evidence_on_deadline, evidence);
    watch_init(&evidence->soon, base, next, evidence);
    buf_init(&evidence->text, TEXT_MAX);
    evidence->dir = state_dir ? state_dir : report;
    if (evidence->dir)
        evidence->dir_len =
            (int)(state_dir ? strlen(state_dir) : (size_t)(strrchr(report, '/') - report));
    evidence->is_spy = !diagnose;
    /* Find the program at the start: the user sees an error early, and relative paths are valid. */
    evidence->args =
        program_args(diagnose ? diagnose : (char *const *)(uintptr_t)py_spy, getenv("PATH"), err);
    return evidence->args || evidence->is_spy || err_wrap(err, "watchdog.diagnose");
}

void evidence_free(struct evidence *evidence)
{
    evidence_stop(evidence);
    inquiry_free(&evidence->reader);
    stacks_free(&evidence->stacks);
    watch_end(&evidence->deadline);
    watch_end(&evidence->soon);
    statefile_free(&evidence->file);
    buf_free(&evidence->text);
    free(evidence->path);
    program_args_free(evidence->args);
}
