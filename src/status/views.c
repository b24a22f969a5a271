/* SPDX-License-Identifier: Apache-2.0
 * See views.h.
 */
#include "status/views.h"

#include "base/clock.h"
#include "config/paths.h"

#include <stdlib.h>

/* --- events and metrics --- */

static bool compose(void *ctx, struct buf *ret)
{
    static struct status_ranks ranks;
    struct views *views = ctx;
    struct core_report report;
    core_report(views->loop->core, &report);
    status_look(&ranks, views->attach, &views->steprate);
    struct metrics_view view = {.params = views->params,
                                .report = &report,
                                .ranks = ranks.list,
                                .nranks = ranks.n,
                                .steprate = &views->steprate,
                                .now = ranks.now,
                                .real_now = clock_real_ns(),
                                .is_up = !report_is_over(views->report),
                                .exit_code = views->report->exit_code};
    return metrics_compose(&view, ret);
}

void views_take(struct views *views, const struct action *action)
{
    bool is_start = action->type == ACT_START;
    bool is_attached = action->type == ACT_PROC_SEND && action->proc.msg->type == PROCMSG_WELCOME;
    /* Neither comes with every heartbeat. */
    bool changes_report =
        action->type == ACT_STATE || action->type == ACT_GATE || action->type == ACT_COMMITTED;
    if (is_start)
        metrics_run(&views->metrics, true);
    if (changes_report)
        outfile_touch(&views->report->out);
    if (changes_report || is_start || is_attached)
        outfile_touch(&views->metrics.out);
    journal_take(&views->journal, action);
}

void views_settle(struct views *views)
{
    if (report_is_over(views->report))
        return;
    journal_settle(&views->journal);
    outfile_flush(&views->metrics.out);
}

void views_exit(struct views *views, const struct action *action)
{
    answer_end(&views->answer);
    journal_exit(&views->journal, action->exit.outcome, views->report->exit_code,
                 action->exit.text);
    metrics_run(&views->metrics, false);
    outfile_touch(&views->metrics.out);
    outfile_flush(&views->metrics.out);
}

bool views_is_busy(const struct views *views)
{
    return outfile_is_busy(&views->journal.out) || outfile_is_busy(&views->metrics.out);
}

/* --- begin and end --- */

static const char *where_chief_is(const struct config *config)
{
    if (config->cluster.nnodes == 1)
        return NULL;
    return config->cluster.chief ? config->cluster.chief : config->cluster.nodes[0];
}

bool views_open(struct views *views, const char *state_dir, struct reap *reap, struct err *err)
{
    const struct config *config = views->config;
    struct event_base *base = views->loop->base;
    char *events = NULL, *metrics = NULL;
    views->journal.params = views->params;
    views->journal.core = views->loop->core;
    views->journal.on_line = answer_tell;
    views->journal.ctx = &views->answer;
    views->metrics.interval_ns = config->metrics.interval_ns;
    views->metrics.compose = compose;
    views->metrics.ctx = views;
    views->answer = (struct answer){.params = views->params,
                                    .chief = where_chief_is(config),
                                    .loop = views->loop,
                                    .attach = views->attach,
                                    .report = views->report,
                                    .journal = &views->journal,
                                    .steprate = &views->steprate,
                                    .cluster = views->cluster};
    bool ok = paths_expand(config, config->events_file, state_dir, &events, err) &&
              paths_expand(config, config->metrics.file, state_dir, &metrics, err) &&
              journal_open(&views->journal, events, reap, base, err) &&
              metrics_open(&views->metrics, metrics, reap, base, err) &&
              answer_open(&views->answer, err);
    free(events);
    free(metrics);
    return ok;
}

void views_free(struct views *views)
{
    answer_free(&views->answer);
    metrics_free(&views->metrics);
    journal_free(&views->journal);
}
