/* SPDX-License-Identifier: Apache-2.0
 * See views.h.
 */
#include "status/views.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "config/paths.h"
#include "core/common/verdict.h"
#include "status/control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* The longest wait for a client: for its request, and between two reads of its answer. */
#define CLIENT_PATIENCE_NS (10 * NS_PER_S)

/* --- requests --- */

static void post_notice(struct views *views, enum notice_type type, int64_t left_ns,
                        const char *text)
{
    struct notice notice = {.type = type, .source = CONTROL_SOURCE, .left_ns = left_ns};
    str_copy(notice.text, sizeof notice.text, text);
    loop_post(views->loop, &(struct event){.type = EV_NOTICE, .notice = &notice});
}

static bool can_ask(const struct views *views, const struct core_report *report, struct err *err)
{
    if (report->outcome == OUTCOME_UNKNOWN && !views->is_over)
        return true;
    return err_set(err, ERR_USAGE, 0, "the job is ending already: %s, exit code %d: %s",
                   verdict_name(report->outcome),
                   views->is_over ? views->exit_code : report->exit_code, report->why);
}

static bool views_obey(struct views *views, const struct control_request *request, struct err *err)
{
    char why[128];
    switch (request->verb) {
    case CONTROL_SAVE:
        if (views->params->save_mode != SAVE_ATTACH)
            return err_set(err, ERR_USAGE, 0,
                           "only a program that attaches can save and go on (save.mode)");
        loop_post(views->loop, &(struct event){.type = EV_SAVE_ASKED});
        break;
    case CONTROL_DRAIN:
        post_notice(views, NOTICE_TERMINATE, request->left_ns, request->text);
        break;
    case CONTROL_CANCEL:
        post_notice(views, NOTICE_CANCEL, 0, "");
        break;
    case CONTROL_STOP:
        snprintf(why, sizeof why, "stopped by pchctl (process %d, user %d)", request->pid,
                 request->uid);
        loop_post(views->loop, &(struct event){.type = EV_STOP_ASKED, .why = why});
        break;
    case CONTROL_STATUS:
    case CONTROL_EVENTS:
    case CONTROL__COUNT:
        break;
    }
    return true;
}

static void on_asked(void *ctx, struct control_client *client,
                     const struct control_request *request)
{
    struct views *views = ctx;
    struct core_report was;
    struct err err;
    bool ok = true;
    core_report(views->loop->core, &was);
    if (request->verb == CONTROL_EVENTS) {
        control_answer(client, (const char *)buf_bytes(&views->journal.kept),
                       buf_len(&views->journal.kept));
        return;
    }
    if (request->verb == CONTROL_STATUS && request->is_of_all) {
        answer_of_all(&views->answer, client, &was);
        return;
    }
    if (request->verb != CONTROL_STATUS) {
        ok = can_ask(views, &was, &err);
        if (ok)
            log_info("control", "pchctl (process %d, user %d): %s", request->pid, request->uid,
                     control_name(request->verb));
        ok = ok && views_obey(views, request, &err);
    }
    answer_client(&views->answer, client, ok ? NULL : &err, &was);
}

/* --- events and metrics --- */

static void views_on_line(void *ctx, const char *text, size_t len)
{
    struct views *views = ctx;
    control_tell(views->control, text, len);
}

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
                                .is_up = !views->is_over,
                                .exit_code = views->exit_code};
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
    if (views->is_over)
        return;
    journal_settle(&views->journal);
    outfile_flush(&views->metrics.out);
}

void views_exit(struct views *views, const struct action *action, int code)
{
    views->is_over = true;
    views->exit_code = code;
    answer_end(&views->answer);
    journal_exit(&views->journal, action->exit.outcome, code, action->exit.text);
    metrics_run(&views->metrics, false);
    outfile_touch(&views->metrics.out);
    outfile_flush(&views->metrics.out);
}

bool views_is_busy(const struct views *views)
{
    return outfile_is_busy(&views->journal.out) || outfile_is_busy(&views->metrics.out);
}

/* --- begin and end --- */

static void on_ranks(void *ctx, int conn, const struct peermsg *msg)
{
    struct views *views = ctx;
    if (!views->is_over)
        answer_peer(&views->answer, conn, msg);
}

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
    views->journal.on_line = views_on_line;
    views->metrics.interval_ns = config->metrics.interval_ns;
    views->metrics.compose = compose;
    views->journal.ctx = views->metrics.ctx = views;
    views->answer = (struct answer){.params = views->params,
                                    .chief = where_chief_is(config),
                                    .attach = views->attach,
                                    .report = views->report,
                                    .journal = &views->journal,
                                    .steprate = &views->steprate,
                                    .cluster = views->cluster};
    cluster_on_ranks(views->cluster, on_ranks, views);
    bool ok = paths_expand(config, config->events_file, state_dir, &events, err) &&
              paths_expand(config, config->metrics.file, state_dir, &metrics, err) &&
              journal_open(&views->journal, events, reap, base, err) &&
              metrics_open(&views->metrics, metrics, reap, base, err) &&
              answer_open(&views->answer, base, err);
    free(events);
    free(metrics);
    return ok;
}

void views_listen(struct views *views)
{
    struct control_options options = {.base = views->loop->base,
                                      .dir = procs_run_dir(views->attach->procs)->path,
                                      .patience_ns = CLIENT_PATIENCE_NS,
                                      .asked = on_asked,
                                      .ctx = views};
    struct err err;
    views->control = views->answer.control = control_new(&options, &err);
    if (!views->control)
        log_warn("control", "pchctl cannot reach this pchrun: %s", err.text);
}

void views_free(struct views *views)
{
    answer_free(&views->answer);
    control_free(views->control);
    views->control = views->answer.control = NULL;
    metrics_free(&views->metrics);
    journal_free(&views->journal);
}
