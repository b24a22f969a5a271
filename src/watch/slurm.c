/* SPDX-License-Identifier: Apache-2.0
 *
 * slurm: the end of the job's time. It is --end-time, else SLURM_JOB_END_TIME, else what squeue
 * says. Where squeue is there it is also asked shortly before the notice would be told, and from
 * then on every `interval`: the time limit may have been changed. It is not asked earlier, since
 * all nodes of a job would do so.
 */
#include "base/date.h"
#include "base/log.h"
#include "base/str.h"
#include "watch/command.h"
#include "watch/sources.h"
#include "watch/trouble.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EARLY_NS       (10 * NS_PER_S) /* before the notice: squeue takes its time */
#define SQUEUE_SECONDS 20

static struct slurm {
    struct watch *watch;
    struct loop_timer timer;
    struct command squeue;
    struct trouble trouble;
    int64_t end_ns; /* by the wall clock; EVENT_AT_UNKNOWN: not known yet */
    const char *job;
} slurm = {.squeue = {.fd = -1}};

static void tell(void)
{
    struct events events = {0};
    struct event *event = events_add(&events, NOTICE_TERMINATE, "end-of-time");
    char name[64], at[32];
    snprintf(name, sizeof name, "slurm-%.30s", slurm.job ? slurm.job : "job");
    clock_iso8601(slurm.end_ns, at, sizeof at);
    event_id(event->id, name, at);
    snprintf(event->text, sizeof event->text, "the job's time is over at %s", at);
    event->at_ns = slurm.end_ns;
    watch_tell(slurm.watch, 0, &events);
}

/* Near the end squeue is asked again and again. */
static void schedule(void)
{
    const struct watch_options *options = &slurm.watch->options;
    if (!slurm.job || options->end_time || !command_exists("squeue"))
        return;
    int64_t wait = options->interval_ns;
    if (slurm.end_ns != EVENT_AT_UNKNOWN) {
        int64_t until_near = slurm.end_ns - clock_real_ns() - EARLY_NS - options->lead_ns;
        wait = until_near > wait ? until_near : wait;
    }
    watch_after(slurm.watch, &slurm.timer, wait);
}

/* squeue writes the time as it is told to: by UTC, and without a zone. */
static bool read_answer(const char *text, int64_t *ret, struct err *err)
{
    char date[64];
    snprintf(date, sizeof date, "%.40sZ", text);
    return date_parse(date, ret) ||
           err_set(err, ERR_PROTOCOL, 0, "it has %s%.100s%s for the end of job %.40s",
                   *text ? "\"" : "", *text ? text : "nothing", *text ? "\"" : "", slurm.job);
}

static void on_output(void *ctx)
{
    struct err err;
    if (!command_read(&slurm.squeue))
        return;
    slurm.watch->loop.fd = -1;
    if (read_answer(slurm.squeue.output, &slurm.end_ns, &err)) {
        trouble_over(&slurm.trouble, "slurm", "squeue");
        tell();
    } else if (slurm.end_ns == EVENT_AT_UNKNOWN && slurm.squeue.len > 0) {
        log_error("slurm", "squeue: %s: it has no limit of time; give the end with --end-time",
                  err.text);
        watch_finish(slurm.watch, EXIT_FAILURE);
    } else {
        trouble_say(&slurm.trouble, "slurm", "squeue", &err);
    }
    schedule();
}

static void ask_squeue(void *ctx)
{
    char job[64], command[] = "squeue", no_header[] = "--noheader", format[] = "--format=%e";
    char zone[] = "TZ=UTC0", standard[] = "SLURM_TIME_FORMAT=standard";
    char *argv[] = {command, no_header, format, job, NULL}, *env[] = {zone, standard, NULL};
    struct err err;
    snprintf(job, sizeof job, "--jobs=%.50s", slurm.job);
    if (!command_start(&slurm.squeue, argv, env, SQUEUE_SECONDS, &err)) {
        trouble_say(&slurm.trouble, "slurm", "squeue", &err);
        schedule();
        return;
    }
    slurm.watch->loop.fd = slurm.squeue.fd;
    slurm.watch->loop.on_fd = on_output;
}

/* A date, or seconds since 1970, as Slurm has it. */
static bool read_end(const char *text, const char *where, struct err *err)
{
    int64_t seconds;
    if (str_to_i64(text, 0, INT64_MAX, &seconds))
        slurm.end_ns = date_from_seconds(seconds);
    else if (!date_parse(text, &slurm.end_ns))
        return err_set(
            err, ERR_USAGE, 0,
            "%s is \"%.60s\", which is no time; write it as in \"2026-11-21T18:00:00Z\", "
            "or in seconds since 1970",
            where, text);
    return true;
}

static bool start(struct watch *watch, struct err *err)
{
    const char *given = watch->options.end_time, *variable = getenv("SLURM_JOB_END_TIME");
    slurm.watch = watch;
    slurm.timer = (struct loop_timer){.fn = ask_squeue};
    slurm.end_ns = EVENT_AT_UNKNOWN;
    slurm.job = getenv("SLURM_JOB_ID");
    if (given ? !read_end(given, "--end-time", err)
              : variable && *variable && !read_end(variable, "SLURM_JOB_END_TIME", err))
        return false;
    if (slurm.end_ns != EVENT_AT_UNKNOWN) {
        tell();
        schedule();
        return true;
    }
    if (!slurm.job || !command_exists("squeue"))
        return err_set(err, ERR_NOT_FOUND, 0,
                       "the end of the job's time is not known: SLURM_JOB_END_TIME is not set, and "
                       "%s; give it with --end-time",
                       slurm.job ? "there is no squeue in PATH" : "neither is SLURM_JOB_ID");
    ask_squeue(NULL);
    return true;
}

const struct source source_slurm = {
    .name = "slurm",
    .help = "Slurm: the end of the job's time, from SLURM_JOB_END_TIME, squeue or --end-time",
    .options = " end-time ",
    .interval_ns = 60 * NS_PER_S,
    .lead_ns = 600 * NS_PER_S,
    .topics = 1,
    .start = start,
};
