/* SPDX-License-Identifier: Apache-2.0
 * See ctl.h. The names and the labels are those of a running pchrun (status/metrics.c). Rates,
 * counters and the times of steps are missing: the files do not have them. The hours of the ledger
 * are over all attempts, and no running pchrun tells these.
 */
#include "ctl/hours.h"

#include "base/clock.h"
#include "base/promtext.h"
#include "base/str.h"

static double seconds(int64_t ns)
{
    int64_t ms = ns / NS_PER_MS;
    return (double)ms / 1000;
}

static void last_put_date(struct promtext *text, const char *name, const char *help,
                          const char *date)
{
    int64_t ns;
    if (date_parse(date, &ns))
        promtext_gauge(text, name, help, seconds(ns));
}

static void last_put_int(struct promtext *text, const char *name, const char *help, int64_t value)
{
    promtext_gauge(text, name, help, (double)value);
}

static void last_put_who(struct promtext *text, const struct json *report)
{
    char labels[256] = "", state[64] = "";
    promtext_label(labels, sizeof labels, "host", json_text_at(report, "host"));
    str_addf(labels, sizeof labels, ",nnodes=\"%d\"", (int)json_int_at(report, "nnodes", 0));
    promtext_head(text, "info", "Which pchrun this is.");
    promtext_sample(text, "info", labels, 1);
    last_put_int(text, "attempt", "How often the scheduler has started the job.",
                 json_int_at(report, "attempt", 0));
    last_put_int(text, "generation", "How often pchrun has started the job again in this attempt.",
                 json_int_at(report, "generation", 0));
    promtext_label(state, sizeof state, "state", json_text_at(report, "state"));
    promtext_head(text, "state", "1 for the state that this node is in.");
    promtext_sample(text, "state", state, 1);
}

static void last_put_ranks(struct promtext *text, const struct json *report)
{
    const struct json *rank = json_items_at(report, "ranks");
    if (rank)
        promtext_head(text, "rank_step", "Finished steps.");
    for (; rank; rank = json_next(rank)) {
        char label[64];
        snprintf(label, sizeof label, "rank=\"%d\",local_rank=\"%d\"",
                 (int)json_int_at(rank, "rank", -1), (int)json_int_at(rank, "local_rank", -1));
        promtext_sample(text, "rank_step", label, (double)json_int_at(rank, "step", 0));
    }
}

/* The ledger has a line a minute, so of a pchrun that was killed it may know a later step. */
static void last_put_steps(struct promtext *text, const struct json *answer)
{
    const struct json *report = json_at(answer, "report");
    int64_t step = json_int_at(report, "steps.last", 0);
    int64_t later = json_int_at(answer, "ledger.step", 0);
    last_put_int(text, "step", "Finished steps of the rank that is furthest.",
                 later > step ? later : step);
    last_put_int(text, "resumed_step", "Where this generation began.",
                 json_int_at(report, "steps.resumed", 0));
    last_put_int(text, "commit_step", "The last committed step, 0: none.",
                 json_int_at(report, "commit.step", 0));
    last_put_date(text, "commit_timestamp_seconds",
                  "When the last committed step was committed; only if in this attempt.",
                  json_text_at(report, "commit.at"));
    last_put_ranks(text, report);
}

static void last_put_cause(struct promtext *text, const struct json *cause)
{
    char labels[256];
    if (json_kind(cause) != JSON_IS_OBJECT)
        return;
    snprintf(labels, sizeof labels, "node_rank=\"%d\",rank=\"%d\"",
             (int)json_int_at(cause, "node_rank", -1), (int)json_int_at(cause, "rank", -1));
    promtext_label(labels, sizeof labels, "host", json_text_at(cause, "host"));
    promtext_head(text, "first_cause_code",
                  "The exit code of the process that failed first; 128 and its signal.");
    promtext_sample(text, "first_cause_code", labels, (double)json_int_at(cause, "code", 0));
}

static void last_put_end(struct promtext *text, const struct json *report)
{
    char label[64] = "";
    promtext_label(label, sizeof label, "outcome", json_text_at(report, "outcome"));
    promtext_head(text, "exit_code", "The exit code of pchrun.");
    promtext_sample(text, "exit_code", label, (double)json_int_at(report, "exit_code", 0));
    last_put_date(text, "ended_timestamp_seconds", "When pchrun ended.",
                  json_text_at(report, "written"));
    last_put_cause(text, json_at(report, "first_cause"));
}

static void last_put_start(struct promtext *text, const struct goodput *g, int64_t attempt)
{
    const struct goodput_run *last = g->nruns > 0 ? &g->runs[g->nruns - 1] : NULL;
    if (last && last->attempt == attempt)
        promtext_gauge(text, "start_timestamp_seconds", "When pchrun started.",
                       seconds(last->at_ms * NS_PER_MS));
}

static void last_put_hours(struct promtext *text, const struct goodput *g)
{
    struct goodput_sums all = goodput_sum(g, -1);
    if (all.wall_ms == 0)
        return;
    promtext_gauge(text, "job_goodput_ratio",
                   "The share of the job's time that was training that was kept.",
                   (double)all.ms[GOODPUT_KEPT] / (double)all.wall_ms);
    promtext_head(text, "job_seconds", "Where the time of the job went, over all attempts.");
    for (enum goodput_kind kind = 0; kind < GOODPUT__COUNT; kind++) {
        char label[64] = "";
        promtext_label(label, sizeof label, "kind", goodput_name(kind));
        promtext_sample(text, "job_seconds", label, (double)all.ms[kind] / 1000);
    }
    promtext_gauge(text, "job_lost_steps", "Steps that were lost, over all attempts.",
                   (double)all.lost_steps);
}

/* `g` NULL: there is no ledger. */
static void last_put_all(struct promtext *text, const struct json *answer, const struct goodput *g)
{
    const struct json *report = json_at(answer, "report");
    bool is_over = json_is_at(report, "state", "done");
    promtext_begin(text, stdout, json_text_at(report, "job"),
                   (int)json_int_at(report, "node_rank", 0));
    promtext_gauge(text, "up", "1 until pchrun has ended.", !is_over);
    if (g)
        last_put_start(text, g, json_int_at(report, "attempt", 0));
    last_put_date(text, "written_timestamp_seconds", "When these metrics were written.",
                  json_text_at(answer, "as_of"));
    last_put_who(text, report);
    last_put_steps(text, answer);
    if (is_over)
        last_put_end(text, report);
    if (g)
        last_put_hours(text, g);
}

bool lastmetrics_print(const struct ctl_options *options, struct err *err)
{
    static struct hours hours;
    struct answer answer;
    struct promtext text;
    struct err ignored;
    bool ok = offline_answer(options, &answer, err);
    if (ok) {
        last_put_all(&text, answer.root, hours_read(options, &hours, &ignored) ? &hours.of : NULL);
        hours_free(&hours);
    }
    answer_free(&answer);
    return ok;
}
