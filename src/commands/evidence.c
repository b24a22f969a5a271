/* SPDX-License-Identifier: Apache-2.0
 * See evidence.h.
 */
#include "commands/evidence.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "config/text.h"
#include "os/proc.h"
#include "os/program.h"

#include <errno.h>
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
    ARG_MAX_BYTES = 4096,       /* of the user's program */
    PROBE_TEXT_MAX = 256 * 1024 /* the output of one run */
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
                 page_phase_name(target->phase));
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

static char *fill_in_arg(const char *arg, const struct diagnosis *diagnosis)
{
    char text[ARG_MAX_BYTES] = "", pid[16], rank[16];
    snprintf(pid, sizeof pid, "%d", diagnosis->pid);
    snprintf(rank, sizeof rank, "%d", diagnosis->rank);
    (void)str_fill_in(text, sizeof text, arg,
                      (struct str_part[]){{"{pid}", pid}, {"{rank}", rank}, {NULL, NULL}});
    return strdup(text);
}

static bool make_args(struct diagnosis *diagnosis, struct err *err)
{
    char **args = diagnosis->evidence->args;
    size_t n = str_count(args);
    diagnosis->argv = calloc(n + 1, sizeof *diagnosis->argv);
    bool ok = diagnosis->argv != NULL;
    for (size_t i = 0; ok && i < n; i++) {
        diagnosis->argv[i] = i ? fill_in_arg(args[i], diagnosis) : strdup(args[i]);
        ok = diagnosis->argv[i] != NULL;
    }
    return ok || err_set(err, ERR_SYSTEM, ENOMEM, "cannot start '%s'", args[0]);
}

/* Frees all. A program that still runs is killed. */
static void diagnosis_free(struct diagnosis *diagnosis)
{
    probe_free(&diagnosis->probe);
    command_clear(&diagnosis->argv);
    diagnosis->is_used = false;
}

/* Go on later: a probe must not be freed in this call. */
static void on_diagnosed(void *ctx)
{
    struct diagnosis *diagnosis = ctx;
    watch_at(&diagnosis->evidence->soon, clock_now_ns());
}

static void take_diagnosis(struct evidence *evidence, struct diagnosis *diagnosis)
{
    const struct probe *probe = &diagnosis->probe;
    evidence_add(evidence, "\n'%s' for process %d: %s\n", evidence->args[0], diagnosis->pid,
                 probe->how);
    if (!buf_add(&evidence->text, buf_bytes(&probe->text), buf_len(&probe->text)))
        evidence_add(evidence, "(no room for what it printed)\n");
    if (probe->dropped)
        evidence_add(evidence, "\n(%zu bytes more were dropped)\n", probe->dropped);
    diagnosis_free(diagnosis);
}

/* py-spy is needed only for a Python that has not shown its stacks. */
static bool is_probed(const struct evidence *evidence, const struct core_rank_report *target)
{
    return !evidence->is_spy ||
           (proc_runs(target->pid, "python") &&
            !stacks_are_in(buf_bytes(&evidence->text), buf_len(&evidence->text), target->pid));
}

static void diagnose(struct evidence *evidence, struct diagnosis *diagnosis,
                     const struct core_rank_report *target)
{
    struct err err;
    struct probe *probe = &diagnosis->probe;
    *diagnosis = (struct diagnosis){.evidence = evidence,
                                    .is_used = true,
                                    .pid = target->pid,
                                    .rank = target->rank,
                                    .probe = {.base = evidence->children->loop->base,
                                              .reap = evidence->children->reap,
                                              .max = PROBE_TEXT_MAX,
                                              .with_errors = true,
                                              .on_over = on_diagnosed,
                                              .ctx = diagnosis}};
    bool is_made = make_args(diagnosis, &err);
    probe->argv = diagnosis->argv;
    if (is_made && probe_start(probe))
        return;
    if (!is_made)
        str_fit(probe->how, sizeof probe->how, err.text);
    take_diagnosis(evidence, diagnosis);
}

/* Runs up to EVIDENCE_PROGRAMS programs at a time; returns how many run. */
static int drive_diagnoses(struct evidence *evidence)
{
    int running = 0;
    for (int i = 0; evidence->args && i < EVIDENCE_PROGRAMS; i++) {
        struct diagnosis *diagnosis = &evidence->diagnoses[i];
        if (diagnosis->is_used && !probe_runs(&diagnosis->probe))
            take_diagnosis(evidence, diagnosis);
        while (!diagnosis->is_used && evidence->next_target < evidence->ntargets) {
            const struct core_rank_report *target = &evidence->targets[evidence->next_target++];
            if (is_probed(evidence, target))
                diagnose(evidence, diagnosis, target);
        }
        running += diagnosis->is_used;
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
    watch_within(&evidence->deadline, WRITE_WAIT_NS);
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
            watch_within(&evidence->deadline,
                         evidence->children->config->watchdog.diagnose_wait_ns);
    }
    if (evidence->phase == EVIDENCE_PROBING && drive_diagnoses(evidence) == 0)
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
    for (int i = 0; i < EVIDENCE_PROGRAMS; i++)
        probe_kill(&evidence->diagnoses[i].probe, "its time was over");
}

void evidence_stop(struct evidence *evidence)
{
    if (evidence->phase == EVIDENCE_IDLE || evidence->phase == EVIDENCE_WRITING)
        return;
    inquiry_stop(&evidence->reader);
    for (int i = 0; i < EVIDENCE_PROGRAMS; i++)
        if (evidence->diagnoses[i].is_used)
            diagnosis_free(&evidence->diagnoses[i]);
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
    char **program = evidence->children->config->watchdog.diagnose;
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
    evidence->is_spy = !program;
    /* Find the program at the start: the user sees an error early, and relative paths are valid. */
    evidence->args =
        program_args(program ? program : (char *const *)(uintptr_t)py_spy, getenv("PATH"), err);
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
