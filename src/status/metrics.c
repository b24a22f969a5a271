/* SPDX-License-Identifier: Apache-2.0
 * See metrics.h.
 */
#include "status/metrics.h"

#include "base/clock.h"
#include "base/promtext.h"
#include "base/str.h"
#include "core/common/verdict.h"

#include <stdio.h>
#include <stdlib.h>

/* --- the text --- */

struct text {
    struct promtext to;
    const struct metrics_view *view;
};

static void histogram(struct text *text, const char *name, const char *help,
                      const struct counts_times *times)
{
    char key[64], label[32];
    uint64_t up_to = 0;
    promtext_metric(&text->to, "histogram", name, help);
    snprintf(key, sizeof key, "%s_bucket", name);
    for (int i = 0; i < COUNTS_BUCKETS - 1; i++) {
        snprintf(label, sizeof label, "le=\"%g\"", counts_bounds[i]);
        up_to += times->in[i];
        promtext_sample(&text->to, key, label, (double)up_to);
    }
    promtext_sample(&text->to, key, "le=\"+Inf\"", (double)times->n);
    snprintf(key, sizeof key, "%s_sum", name);
    promtext_sample(&text->to, key, "", times->sum_s);
    snprintf(key, sizeof key, "%s_count", name);
    promtext_sample(&text->to, key, "", (double)times->n);
}

static double real_seconds(const struct text *text, int64_t mono_ns)
{
    int64_t ns = text->view->real_now - (text->view->ranks->now - mono_ns);
    int64_t ms = ns / NS_PER_MS;
    return (double)ms / 1000;
}

static void put_info(struct text *text)
{
    char labels[256] = "";
    promtext_label(labels, sizeof labels, "version", PCHRUN_VERSION);
    promtext_label(labels, sizeof labels, "host", text->view->params->host);
    str_addf(labels, sizeof labels, ",nnodes=\"%d\"", text->view->params->nnodes);
    promtext_head(&text->to, "info", "Which pchrun this is.");
    promtext_sample(&text->to, "info", labels, 1);
}

static void put_state(struct text *text)
{
    promtext_head(&text->to, "state", "1 for the state that this node is in.");
    for (enum node_state state = 0; state < NODE__COUNT; state++) {
        char label[32] = "";
        promtext_label(label, sizeof label, "state", node_state_name(state));
        promtext_sample(&text->to, "state", label, state == text->view->report->state);
    }
}

static void put_notice(struct text *text)
{
    const struct core_report *r = text->view->report;
    const struct counts *counts = text->view->counts;
    if (counts->notices[0].n > 0)
        promtext_metric(&text->to, "counter", "notices_total", "Notices, by their source.");
    for (int i = 0; i <= COUNTS_SOURCES && counts->notices[i].n > 0; i++) {
        char label[64] = "";
        promtext_label(label, sizeof label, "source", counts->notices[i].source);
        promtext_sample(&text->to, "notices_total", label, counts->notices[i].n);
    }
    promtext_gauge(&text->to, "notice", "1 while the job has a notice of its end.",
                   r->notice.is_live);
    if (r->notice.is_live && r->notice.deadline != CLOCK_NEVER)
        promtext_gauge(&text->to, "notice_deadline_timestamp_seconds",
                       "The deadline of the notice.", real_seconds(text, r->notice.deadline));
}

static void put_wait(struct text *text)
{
    const struct core_wait *wait = &text->view->report->wait;
    promtext_gauge(&text->to, "waiting",
                   "1 while the job waits for the replacement of a lost node.", wait->since != 0);
    if (wait->since && wait->nvacant > 0)
        promtext_gauge(&text->to, "waiting_deadline_timestamp_seconds",
                       "When the job waits no longer, and ends.", real_seconds(text, wait->until));
}

static void put_spares(struct text *text)
{
    if (text->view->params->spares > 0 && text->view->params->node_rank == 0)
        promtext_gauge(&text->to, "spares", "Spares that stand by.", text->view->spares);
}

static void put_commit(struct text *text)
{
    const struct core_report *r = text->view->report;
    promtext_gauge(&text->to, "commit_step", "The last committed step, 0: none.",
                   (double)r->commit_step);
    if (r->commit_at)
        promtext_gauge(&text->to, "commit_timestamp_seconds",
                       "When the last committed step was committed; only if in this attempt.",
                       real_seconds(text, r->commit_at));
}

static void put_saves(struct text *text)
{
    const struct counts *counts = text->view->counts;
    promtext_metric(&text->to, "counter", "saves_total", "Agreed saves, by their result.");
    promtext_sample(&text->to, "saves_total", "result=\"committed\"", (double)counts->save.n);
    promtext_sample(&text->to, "saves_total", "result=\"failed\"", counts->failed);
    promtext_sample(&text->to, "saves_total", "result=\"aborted\"", counts->aborted);
    histogram(text, "agreement_seconds", "Time from a proposed step to the agreed step.",
              &counts->agreement);
    histogram(text, "save_seconds", "Time from the agreed step to its commit.", &counts->save);
}

static void put_restarts(struct text *text)
{
    promtext_metric(&text->to, "counter", "restarts_total",
                    "Restarts in place, by the outcome before them.");
    for (enum outcome outcome = 0; outcome < OUTCOME__COUNT; outcome++) {
        char label[64] = "";
        bool is_cause =
            outcome == OUTCOME_FAILED || outcome == OUTCOME_NODE_LOST || outcome == OUTCOME_HANG;
        promtext_label(label, sizeof label, "after", verdict_name(outcome));
        if (is_cause || text->view->counts->restarts[outcome] > 0)
            promtext_sample(&text->to, "restarts_total", label,
                            text->view->counts->restarts[outcome]);
    }
}

static void rank_sample(struct text *text, const char *name, const struct core_rank_report *rank,
                        double value)
{
    char label[64];
    snprintf(label, sizeof label, "rank=\"%d\",local_rank=\"%d\"", rank->rank, rank->local_rank);
    promtext_sample(&text->to, name, label, value);
}

/* The format wants the samples of one name together. */
static void put_ranks(struct text *text)
{
    const struct status_ranks *ranks = text->view->ranks;
    if (ranks->n == 0)
        return;
    promtext_head(&text->to, "rank_step", "Finished steps.");
    for (int i = 0; i < ranks->n; i++)
        rank_sample(text, "rank_step", &ranks->list[i], (double)ranks->list[i].step);
    promtext_head(&text->to, "rank_attached", "1 while the rank's process is attached.");
    for (int i = 0; i < ranks->n; i++)
        rank_sample(text, "rank_attached", &ranks->list[i], ranks->list[i].is_attached);
}

static void put_own(struct text *text)
{
    const struct core_rank_report *list = text->view->ranks->list;
    int n = text->view->ranks->n, known = 0;
    for (int i = 0; i < n; i++)
        known += list[i].own_ns > 0;
    if (known == 0)
        return;
    promtext_head(&text->to, "rank_own_step_seconds",
                  "Time of a step without the waits that the rank marks.");
    for (int i = 0; i < n; i++)
        if (list[i].own_ns > 0)
            rank_sample(text, "rank_own_step_seconds", &list[i], (double)list[i].own_ns / 1e9);
    promtext_head(&text->to, "rank_slow",
                  "1 while that time is far above the median of all ranks.");
    for (int i = 0; i < n; i++)
        if (list[i].own_ns > 0)
            rank_sample(text, "rank_slow", &list[i], list[i].slow > 0);
}

/* The slowest rank sets the pace: the others wait for it. */
static void put_steps(struct text *text)
{
    const struct core_report *r = text->view->report;
    const struct status_ranks *ranks = text->view->ranks;
    uint64_t highest = r->last_step;
    double slowest = 0;
    int64_t youngest = -1;
    int attached = 0;
    for (int i = 0; i < ranks->n; i++) {
        struct steprate_view steprate = ranks->rates[i];
        if (ranks->list[i].step > highest)
            highest = ranks->list[i].step;
        if (ranks->list[i].slot < 0)
            continue;
        attached++;
        if (steprate.steps_per_s > 0 && (slowest == 0 || steprate.steps_per_s < slowest))
            slowest = steprate.steps_per_s;
        if (steprate.age_ns >= 0 && (youngest < 0 || steprate.age_ns < youngest))
            youngest = steprate.age_ns;
    }
    promtext_gauge(&text->to, "step", "Finished steps of the rank that is furthest.",
                   (double)highest);
    promtext_gauge(&text->to, "resumed_step", "Where this generation began.",
                   (double)r->resumed_step);
    promtext_counter(&text->to, "steps_total",
                     "Finished steps in this attempt, also those trained again.",
                     (double)counts_steps(text->view->counts, highest));
    promtext_counter(&text->to, "steps_lost_total",
                     "Of these, steps that a restart in place has lost.",
                     (double)text->view->counts->lost);
    promtext_counter(
        &text->to, "loading_seconds_total",
        "Time in which a rank waited for data in this attempt: the longest of all ranks.",
        (double)(text->view->counts->loading_ns + status_longest_loading(ranks, r)) / 1e9);
    if (slowest > 0)
        promtext_gauge(&text->to, "steps_per_second", "Steps per second of the slowest rank.",
                       slowest);
    if (youngest >= 0)
        promtext_gauge(&text->to, "last_step_timestamp_seconds",
                       "When a rank was last seen to finish a step, or was first seen.",
                       real_seconds(text, ranks->now - youngest));
    promtext_gauge(&text->to, "ranks_attached", "Attached processes of this node.", attached);
    if (r->ranks_expected >= 0)
        promtext_gauge(&text->to, "ranks_expected", "Processes that are expected to attach.",
                       r->ranks_expected);
}

static void put_cause(struct text *text)
{
    const struct peer_cause *cause = &text->view->report->first_cause;
    char labels[160];
    if (!cause->fault)
        return;
    snprintf(labels, sizeof labels, "node_rank=\"%d\",rank=\"%d\"", cause->node, cause->rank);
    promtext_label(labels, sizeof labels, "host", cause->host);
    promtext_head(&text->to, "first_cause_code",
                  "The exit code of the process that failed first; 128 and its signal.");
    promtext_sample(&text->to, "first_cause_code", labels, cause->code);
}

static void put_end(struct text *text)
{
    const struct metrics_view *v = text->view;
    char label[64] = "";
    if (v->exit_code < 0)
        return;
    promtext_label(label, sizeof label, "outcome", verdict_name(v->report->outcome));
    promtext_head(&text->to, "exit_code", "The exit code of pchrun.");
    promtext_sample(&text->to, "exit_code", label, v->exit_code);
    promtext_gauge(&text->to, "ended_timestamp_seconds", "When pchrun ended.",
                   real_seconds(text, v->ranks->now));
    put_cause(text);
}

void metrics_compose(const struct metrics_view *view, FILE *out)
{
    struct text text = {.view = view};
    promtext_begin(&text.to, out, view->params->job, view->params->node_rank);
    promtext_gauge(&text.to, "up", "1 until pchrun has ended.", view->exit_code < 0);
    promtext_gauge(&text.to, "start_timestamp_seconds", "When pchrun started.",
                   real_seconds(&text, view->since));
    promtext_gauge(&text.to, "written_timestamp_seconds", "When these metrics were written.",
                   real_seconds(&text, view->ranks->now));
    put_info(&text);
    promtext_gauge(&text.to, "attempt", "How often the scheduler has started the job.",
                   view->report->attempt);
    promtext_gauge(&text.to, "generation",
                   "How often pchrun has started the job again in this attempt.",
                   view->report->generation);
    put_state(&text);
    put_restarts(&text);
    put_steps(&text);
    put_saves(&text);
    put_commit(&text);
    put_notice(&text);
    put_wait(&text);
    put_spares(&text);
    put_ranks(&text);
    put_own(&text);
    put_end(&text);
}

static int count_spares(const struct core *core)
{
    struct core_spare_report list[SPARES_MAX];
    int standing = 0, n = core_spares(core, list, SPARES_MAX);
    for (int i = 0; i < n; i++)
        standing += list[i].place < 0;
    return standing;
}

char *metrics_text(const struct metrics *metrics, size_t *ret_len)
{
    static struct status_ranks ranks; /* too large for the stack */
    struct core_report report;
    char *text = NULL;
    core_report(metrics->report->core, &report);
    status_look(&ranks, metrics->attach);
    struct metrics_view view = {.params = metrics->report->params,
                                .report = &report,
                                .ranks = &ranks,
                                .counts = metrics->counts,
                                .spares = count_spares(metrics->report->core),
                                .real_now = clock_real_ns(),
                                .since = metrics->since,
                                .exit_code = metrics->report->exit_code};
    FILE *out = open_memstream(&text, ret_len);
    if (out)
        metrics_compose(&view, out);
    if (out && fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

/* --- writing it --- */

static void metrics_write_file(void *ctx)
{
    struct metrics *metrics = ctx;
    size_t len = 0;
    char *text = metrics_text(metrics, &len);
    outfile_write(&metrics->out, text, len);
    free(text);
}

static void metrics_on_clock(void *ctx)
{
    struct metrics *metrics = ctx;
    outfile_touch(&metrics->out);
    outfile_flush(&metrics->out);
    metrics_run(metrics, true);
}

bool metrics_open(struct metrics *metrics, const char *path, struct reap *reap,
                  struct event_base *base, struct err *err)
{
    metrics->since = clock_now_ns();
    metrics->out = (struct outfile){.topic = "metrics",
                                    .what = "metrics",
                                    .option = "metrics.file",
                                    .write = metrics_write_file,
                                    .ctx = metrics};
    if (!outfile_open(&metrics->out, path, reap, base, err))
        return false;
    if (metrics->out.file.path)
        watch_init(&metrics->clock, base, metrics_on_clock, metrics);
    return true;
}

void metrics_free(struct metrics *metrics)
{
    watch_end(&metrics->clock);
    outfile_free(&metrics->out);
}

void metrics_run(struct metrics *metrics, bool is_running)
{
    watch_at(&metrics->clock, is_running ? clock_now_ns() + metrics->interval_ns : CLOCK_NEVER);
}
