/* SPDX-License-Identifier: Apache-2.0
 * See trainjob.h. Each post replaces the last one, so it has all that pchrun knows. pchrun knows
 * neither the number of all steps nor a loss.
 */
#include "status/trainjob.h"

#include "base/clock.h"
#include "status/status.h"
#include "json/writer.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define TOPIC        "trainjob"
#define URL_VARIABLE "KUBEFLOW_TRAINER_SERVER_URL"

/* The controller asks its API server for each post. */
#define LEAST_NS   (5 * NS_PER_S)
#define FIRST_NS   NS_PER_S
#define LINE_BYTES 4096

_Static_assert(LINE_BYTES <= PIPE_BUF, "a pipe takes a line whole or not at all");

static void add_metric(struct writer *w, const char *name, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    writer_object(w, NULL);
    writer_text(w, "name", name);
    writer_text(w, "value", text); /* the controller wants strings */
    writer_end(w);
}

static void trainjob_write(struct trainjob *trainjob)
{
    struct core_report report;
    struct writer w;
    char at[32];
    size_t len;
    core_report(trainjob->loop->core, &report);
    writer_init(&w, LINE_BYTES, WRITER_LINE);
    writer_object(&w, NULL);
    writer_object(&w, "trainerStatus");
    writer_list(&w, "metrics");
    add_metric(&w, "step", status_newest_step(trainjob->attach));
    add_metric(&w, "committed_step", report.commit_step);
    add_metric(&w, "attempt", report.attempt);
    add_metric(&w, "restarts", report.generation);
    writer_end(&w);
    writer_text(&w, "lastUpdatedTime", clock_iso8601(clock_real_ns(), at, sizeof at));
    writer_end(&w);
    writer_end(&w);
    const char *text = writer_done(&w, &len);
    if (text)
        source_give(&trainjob->program, text, len);
    writer_free(&w);
}

static void trainjob_on_clock(void *ctx)
{
    struct trainjob *trainjob = ctx;
    int64_t interval = trainjob->interval_ns > LEAST_NS ? trainjob->interval_ns : LEAST_NS;
    if (trainjob->program.phase == SOURCE_OFF)
        source_start(&trainjob->program);
    trainjob_write(trainjob);
    watch_at(&trainjob->clock, clock_now_ns() + interval);
}

/* The program announces nothing. */
static void on_no_notice(void *ctx, const struct notice *notice)
{
}

void trainjob_open(struct trainjob *trainjob)
{
    struct err err;
    const char *url = getenv(URL_VARIABLE);
    if (!url || !*url) {
        log_info(TOPIC, URL_VARIABLE " is not set, so nothing is posted (metrics.trainjob)");
        return;
    }
    char **argv = source_watcher_args("trainjob", NULL, &err);
    trainjob->world = (struct source_world){
        .loop = trainjob->loop, .reap = trainjob->reap, .notice = on_no_notice};
    trainjob->program = (struct source){.name = TOPIC, .argv = argv, .has_input = true};
    if (!argv || !source_world_init(&trainjob->world, &err)) {
        log_warn(TOPIC, "the progress is not posted to the TrainJob (metrics.trainjob): %s",
                 err.text);
        return;
    }
    source_open(&trainjob->program, &trainjob->world);
    watch_init(&trainjob->clock, trainjob->loop->base, trainjob_on_clock, trainjob);
    watch_at(&trainjob->clock, clock_now_ns() + FIRST_NS);
}

void trainjob_end(struct trainjob *trainjob)
{
    if (!trainjob->clock.is_open)
        return;
    watch_at(&trainjob->clock, CLOCK_NEVER);
    source_end(&trainjob->program);
}

bool trainjob_is_busy(const struct trainjob *trainjob)
{
    return trainjob->program.phase == SOURCE_ENDING;
}

void trainjob_free(struct trainjob *trainjob)
{
    watch_end(&trainjob->clock);
    source_free(&trainjob->program);
    source_world_free(&trainjob->world);
}
