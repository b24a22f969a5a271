/* SPDX-License-Identifier: Apache-2.0
 *
 * squeue: the source slurm, which announces the end of the job's time, from --end-time, else
 * SLURM_JOB_END_TIME, else squeue. The time limit may change, so squeue runs again shortly before
 * the notice, then every `interval`. It does not run earlier, because all nodes of a job would run
 * it. No notice comes earlier: every job has an end, and a distant end changes nothing.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "watch/watchrun.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define EARLY_NS       (10 * NS_PER_S) /* before the notice: squeue may be slow */
#define SQUEUE_SECONDS 20
#define OUTPUT_MAX     4096
#define NO_LIMIT       "NONE"

static struct slurm {
    struct watch_timer timer;
    struct trouble trouble;
    char output[OUTPUT_MAX]; /* of squeue, cut to this size */
    size_t len;
    int64_t end_ns; /* by the wall clock, or EVENT_AT_UNKNOWN */
    const char *job;
    bool has_no_limit;
} slurm;

static void slurm_tell(void)
{
    struct events events = {0};
    struct event *event = events_add(&events, NOTICE_TERMINATE, "end-of-time");
    char name[64], at[32];
    snprintf(name, sizeof name, "slurm-%.30s", slurm.job ? slurm.job : "job");
    clock_iso8601(slurm.end_ns, at, sizeof at);
    event_id(event->id, name, at);
    snprintf(event->text, sizeof event->text, "the job's time ends at %s", at);
    event->at_ns = slurm.end_ns;
    watch_tell(0, &events);
}

/* Withdraws an earlier notice. */
static void tell_no_limit(void)
{
    static const struct events none = {0};
    slurm.end_ns = EVENT_AT_UNKNOWN;
    if (!slurm.has_no_limit)
        log_info("slurm", "job %.40s has no time limit, so there is no end to report", slurm.job);
    slurm.has_no_limit = true;
    watch_tell(0, &none);
}

/* True if PATH has squeue. */
static bool has_squeue(void)
{
    const char *path = getenv("PATH");
    char file[512];
    while (path && *path) {
        size_t len = strcspn(path, ":");
        snprintf(file, sizeof file, "%.*s/squeue", (int)(len < 400 ? len : 400), path);
        if (len > 0 && len < 400 && access(file, X_OK) == 0)
            return true;
        path += len + (path[len] == ':');
    }
    return false;
}

static bool slurm_can_ask(void)
{
    return slurm.job && !watch.options.end_time && has_squeue();
}

/* Reports an end that is near or was reported before; else waits. Near the end squeue runs every
 * interval. Without a limit it runs every half `lead`, so that a new limit is found in time. */
static void slurm_go_on(void)
{
    const struct watch_options *options = &watch.options;
    int64_t wait = options->interval_ns;
    bool is_near = slurm.end_ns != EVENT_AT_UNKNOWN;
    if (is_near) {
        int64_t until_near = slurm.end_ns - clock_real_ns() - EARLY_NS - options->lead_ns;
        is_near = until_near <= 0;
        wait = is_near ? wait : until_near;
        if (is_near || watch.tracker.count > 0)
            slurm_tell();
        else
            watch_answered(0);
    } else if (slurm.has_no_limit) {
        wait = options->lead_ns / 2;
    }
    if (!is_near || slurm_can_ask())
        watch_after(&slurm.timer, wait);
}

/* Finds "ID END" with our job's id: squeue has a line for each part of a heterogeneous job. */
static const char *find_own(const char *text)
{
    size_t len = strlen(slurm.job);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (str_starts(line, slurm.job) && line[len] == ' ')
            return line + len + 1;
    }
    return "";
}

/* The environment makes squeue print UTC without a zone. */
static bool slurm_read_answer(const char *text, struct err *err)
{
    char end[48], date[64];
    const char *own = find_own(text);
    snprintf(end, sizeof end, "%.*s", (int)strcspn(own, "\n"), own);
    snprintf(date, sizeof date, "%.40sZ", end);
    if (str_is(end, NO_LIMIT)) {
        tell_no_limit();
        return true;
    }
    if (!date_parse(date, &slurm.end_ns))
        return err_set(err, ERR_PROTOCOL, 0, "it prints %s%.40s%s for the end of job %.40s",
                       *end ? "\"" : "", *end ? end : "nothing", *end ? "\"" : "", slurm.job);
    slurm.has_no_limit = false;
    return true;
}

/* Reads some output. True: the output has ended. */
static bool read_output(void)
{
    char rest[512];
    int *fd = &watch.fd;
    size_t room = sizeof slurm.output - 1 - slurm.len;
    ssize_t n = room > 0 ? read(*fd, slurm.output + slurm.len, room) : read(*fd, rest, sizeof rest);
    if (n > 0 && room > 0)
        slurm.len += (size_t)n;
    if (n > 0 || (n < 0 && errno == EINTR))
        return false;
    fd_close(fd);
    slurm.output[slurm.len] = '\0';
    return true;
}

static void slurm_on_output(void)
{
    struct err err;
    if (!read_output())
        return;
    if (slurm_read_answer(slurm.output, &err))
        watch_works(&slurm.trouble, "squeue");
    else
        watch_failed(&slurm.trouble, "squeue", &err);
    slurm_go_on();
}

/* A task of an array also has its own job id. But one task's id equals the array's, and for that id
 * squeue prints all tasks. Another array's id is that of a task that has submitted this job. */
static void name_job(char *text, size_t size)
{
    const char *array = getenv("SLURM_ARRAY_JOB_ID"), *task = getenv("SLURM_ARRAY_TASK_ID");
    if (array && task && str_is(array, slurm.job))
        snprintf(text, size, "--jobs=%.30s_%.20s", array, task);
    else
        snprintf(text, size, "--jobs=%.50s", slurm.job);
}

/* In the child. No other thread holds a lock, so setenv() may allocate. */
static void become_squeue(const char *job, int out, pid_t parent)
{
    alarm(SQUEUE_SECONDS); /* survives exec; SIGALRM kills by default */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(127);
    if (!fd_silence(1U << STDIN_FILENO | 1U << STDERR_FILENO) || dup2(out, STDOUT_FILENO) < 0)
        _exit(127);
    setenv("TZ", "UTC0", 1);
    setenv("SLURM_TIME_FORMAT", "standard", 1);
    watch_restore_signals();
    execlp("squeue", "squeue", "--noheader", "--format=%A %e", job, (char *)NULL);
    _exit(127);
}

/* squeue is killed when pchrun-watch ends, and by SIGALRM at its time limit. The kernel reaps it
 * (watchrun.c), so its exit status is unknown and only its output counts. */
static bool start_squeue(struct err *err)
{
    int ends[2];
    char job[64];
    pid_t self = getpid();
    name_job(job, sizeof job);
    slurm.len = 0;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return err_set(err, ERR_SYSTEM, errno, "cannot make a pipe for squeue");
    pid_t pid = fork();
    if (pid == 0)
        become_squeue(job, ends[1], self);
    int why = errno;
    fd_close(&ends[1]);
    if (pid < 0) {
        fd_close(&ends[0]);
        return err_set(err, ERR_SYSTEM, why, "cannot start squeue");
    }
    watch.fd = ends[0];
    watch.on_fd = slurm_on_output;
    return true;
}

static void ask_squeue(void *ctx)
{
    struct err err;
    bool can_ask = slurm_can_ask();
    if (can_ask && start_squeue(&err))
        return;
    if (can_ask)
        watch_failed(&slurm.trouble, "squeue", &err);
    slurm_go_on();
}

/* A date, or seconds since 1970 as in Slurm's variable. */
static bool read_end(const char *text, const char *where, struct err *err)
{
    int64_t seconds;
    if (str_to_i64(text, 0, INT64_MAX, &seconds))
        slurm.end_ns = date_from_seconds(seconds);
    else if (!date_parse(text, &slurm.end_ns))
        return err_set(
            err, ERR_USAGE, 0,
            "%s is \"%.60s\", which is not a time; write it as in \"2026-11-21T18:00:00Z\", "
            "or in seconds since 1970",
            where, text);
    return true;
}

static bool slurm_start(struct err *err)
{
    const char *given = watch.options.end_time, *variable = getenv("SLURM_JOB_END_TIME");
    slurm.timer = (struct watch_timer){.fn = ask_squeue};
    slurm.end_ns = EVENT_AT_UNKNOWN;
    slurm.job = getenv("SLURM_JOB_ID");
    if (given ? !read_end(given, "--end-time", err)
              : variable && *variable && !read_end(variable, "SLURM_JOB_END_TIME", err))
        return false;
    if (slurm.end_ns != EVENT_AT_UNKNOWN) {
        slurm_go_on();
        return true;
    }
    if (!slurm.job || !has_squeue())
        return err_set(err, ERR_NOT_FOUND, 0,
                       "the end of the job's time is not known: SLURM_JOB_END_TIME is not set, and "
                       "%s; give it with --end-time",
                       slurm.job ? "there is no squeue in PATH" : "neither is SLURM_JOB_ID");
    ask_squeue(NULL);
    return true;
}

const struct source source_slurm = {
    .word = {"slurm",
             "Slurm: the end of the job's time, from SLURM_JOB_END_TIME, squeue or --end-time",
             NULL, " end-time "},
    .interval_ns = 60 * NS_PER_S,
    .lead_ns = 600 * NS_PER_S,
    .topics = 1,
    .start = slurm_start,
};
