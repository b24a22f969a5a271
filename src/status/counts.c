/* SPDX-License-Identifier: Apache-2.0
 * See counts.h.
 */
#include "status/counts.h"

#include "base/clock.h"
#include "base/str.h"

const double counts_bounds[COUNTS_BUCKETS - 1] = {0.1, 0.25, 0.5, 1,   2.5, 5,
                                                  10,  30,   60,  120, 300, 600};

static void count_time(struct counts_times *times, int64_t ns)
{
    double seconds = (double)ns / NS_PER_S;
    int i = 0;
    while (i < COUNTS_BUCKETS - 1 && seconds > counts_bounds[i])
        i++;
    times->in[i]++;
    times->n++;
    times->sum_s += seconds;
}

uint64_t counts_steps(const struct counts *counts, uint64_t step)
{
    return counts->steps + (step > counts->resumed_step ? step - counts->resumed_step : 0);
}

/* The next generation resumes at the commit. The node that replaces a lost one has seen none of the
 * restarts before it was admitted, when it learns the attempt and the generation. */
static void count_generation(struct counts *counts, const struct core_report *report)
{
    uint64_t done = counts->last_step;
    bool is_admitted = counts->is_admitted;
    counts->is_admitted = report->attempt > 0;
    if (report->generation == counts->generation)
        return;
    counts->restarts[counts->restarts_after] += is_admitted;
    counts->steps = counts_steps(counts, done);
    counts->lost += done > report->commit_step ? done - report->commit_step : 0;
    counts->loading_ns += counts->longest_loading;
    counts->longest_loading = 0;
    counts->generation = report->generation;
    counts->resumed_step = counts->last_step = report->commit_step;
}

static void count_round(struct counts *counts, const struct core_report *report)
{
    const char *phase = report->round.phase, *was = counts->phase ? counts->phase : "";
    int64_t decided_at = report->round.decided_at, committed_at = report->round.committed_at;
    bool is_new = report->round.id != counts->round || !str_is(phase, was);
    if (decided_at && decided_at != counts->decided_at)
        count_time(&counts->agreement, decided_at - report->round.opened_at);
    /* A node that is told of a commit at its start has no save of its own in it. */
    if (decided_at && committed_at && committed_at != counts->committed_at)
        count_time(&counts->save, committed_at - decided_at);
    counts->failed += is_new && str_is(phase, "failed");
    counts->aborted += is_new && str_is(phase, "aborted");
    counts->round = report->round.id;
    counts->phase = phase;
    counts->decided_at = decided_at;
    counts->committed_at = committed_at;
}

static bool is_of_notice(const struct notice_label *a, const struct notice_label *b)
{
    return str_is(a->source, b->source) && str_is(a->id, b->id);
}

static void count_notice(struct counts *counts, const struct core_report *report)
{
    const struct notice_label *label = &report->notice.label;
    bool is_new =
        report->notice.is_live && !(counts->has_notice && is_of_notice(label, &counts->notice));
    int i = 0;
    counts->has_notice = report->notice.is_live;
    counts->notice = *label;
    if (!is_new)
        return;
    while (i < COUNTS_SOURCES && counts->notices[i].n > 0 &&
           !str_is(counts->notices[i].source, label->source))
        i++;
    str_copy(counts->notices[i].source, sizeof counts->notices[i].source,
             i < COUNTS_SOURCES ? label->source : "other");
    counts->notices[i].n++;
}

void counts_take(struct counts *counts, const struct core_report *report)
{
    count_generation(counts, report);
    count_round(counts, report);
    count_notice(counts, report);
    if (counts->last_step == 0)
        counts->resumed_step = report->resumed_step;
    if (report->last_step > counts->last_step)
        counts->last_step = report->last_step;
    if (report->loading_ns > counts->longest_loading)
        counts->longest_loading = report->loading_ns;
    counts->restarts_after = report->restarts_after;
}
