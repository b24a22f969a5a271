/* SPDX-License-Identifier: Apache-2.0
 * See desk.h.
 */
#include "status/desk.h"

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

typedef bool ask_fn(struct desk *desk, const struct control_request *request, struct err *err);

static bool ask_save(struct desk *desk, const struct control_request *request, struct err *err)
{
    if (desk->params->save_mode != SAVE_ATTACH)
        return err_set(err, ERR_USAGE, 0,
                       "only a program that attaches can save and go on (save.mode)");
    loop_post(desk->loop, &(struct event){.type = EV_SAVE_ASKED});
    return true;
}

static void post_notice(struct desk *desk, enum notice_type type, int64_t left_ns, const char *text)
{
    struct notice notice = {.type = type, .source = CONTROL_SOURCE, .left_ns = left_ns};
    str_copy(notice.text, sizeof notice.text, text);
    loop_post(desk->loop, &(struct event){.type = EV_NOTICE, .notice = &notice});
}

static bool ask_drain(struct desk *desk, const struct control_request *request, struct err *err)
{
    bool is_known = request->left_ns != CONTROLMSG_LEFT_UNKNOWN;
    post_notice(desk, NOTICE_TERMINATE, is_known ? request->left_ns : NOTICE_LEFT_UNKNOWN,
                request->text);
    return true;
}

static bool ask_cancel(struct desk *desk, const struct control_request *request, struct err *err)
{
    post_notice(desk, NOTICE_CANCEL, 0, "");
    return true;
}

static bool ask_stop(struct desk *desk, const struct control_request *request, struct err *err)
{
    char why[128];
    snprintf(why, sizeof why, "stopped by pchctl (process %d, user %d)", request->pid,
             request->uid);
    loop_post(desk->loop, &(struct event){.type = EV_STOP_ASKED, .why = why});
    return true;
}

static ask_fn *const asks[CONTROL__COUNT] = {[CONTROL_SAVE] = ask_save,
                                             [CONTROL_DRAIN] = ask_drain,
                                             [CONTROL_CANCEL] = ask_cancel,
                                             [CONTROL_STOP] = ask_stop};

static bool can_ask(const struct desk *desk, const struct core_report *report, struct err *err)
{
    if (report->outcome == OUTCOME_UNKNOWN && !desk->is_over)
        return true;
    return err_set(err, ERR_USAGE, 0, "the job is ending already: %s, exit code %d: %s",
                   verdict_name(report->outcome),
                   desk->is_over ? desk->exit_code : report->exit_code, report->why);
}

static void tell_events(struct desk *desk, struct control_client *client)
{
    const struct journal_line *line;
    struct buf all;
    bool ok = true;
    buf_init(&all, CONTROL_ANSWER_MAX);
    for (unsigned i = 0; ok && (line = journal_line(&desk->journal, i)); i++)
        ok = buf_add(&all, line->text, line->len);
    if (ok)
        control_answer(client, (const char *)buf_bytes(&all), buf_len(&all));
    else
        log_warn("control", "no memory to answer pchctl");
    buf_free(&all);
}

static void on_asked(void *ctx, struct control_client *client,
                     const struct control_request *request)
{
    struct desk *desk = ctx;
    struct core_report was;
    struct err err;
    bool ok = true;
    core_report(desk->loop->core, &was);
    if (request->verb == CONTROL_EVENTS) {
        tell_events(desk, client);
        return;
    }
    if (request->verb == CONTROL_STATUS && request->is_of_all) {
        answer_of_all(&desk->answer, client, &was);
        return;
    }
    if (asks[request->verb]) {
        ok = can_ask(desk, &was, &err);
        if (ok)
            log_info("control", "pchctl (process %d, user %d): %s", request->pid, request->uid,
                     control_name(request->verb));
        ok = ok && asks[request->verb](desk, request, &err);
    }
    answer_client(&desk->answer, client, ok ? NULL : &err, &was);
}

/* --- events and metrics --- */

static void on_line(void *ctx, const char *text, size_t len)
{
    struct desk *desk = ctx;
    control_tell(desk->control, text, len);
}

static bool compose(void *ctx, struct buf *ret)
{
    static struct status_ranks ranks;
    struct desk *desk = ctx;
    struct core_report report;
    core_report(desk->loop->core, &report);
    status_look(&ranks, desk->attach, &desk->pace);
    struct metrics_view view = {.params = desk->params,
                                .report = &report,
                                .ranks = ranks.list,
                                .nranks = ranks.n,
                                .pace = &desk->pace,
                                .now = ranks.now,
                                .real_now = clock_real_ns(),
                                .is_up = !desk->is_over,
                                .exit_code = desk->exit_code};
    return metrics_compose(&view, ret);
}

/* Leaves out the actions that come with every heartbeat. */
static bool changes_metrics(const struct action *action)
{
    return action->type == ACT_START || action->type == ACT_STATE || action->type == ACT_GATE ||
           action->type == ACT_COMMITTED ||
           (action->type == ACT_PROC_SEND && action->proc.msg->type == PROCMSG_WELCOME);
}

void desk_take(struct desk *desk, const struct action *action)
{
    if (action->type == ACT_START)
        metrics_run(&desk->metrics, true);
    if (changes_metrics(action))
        metrics_touch(&desk->metrics);
    journal_take(&desk->journal, action);
}

void desk_settle(struct desk *desk)
{
    if (desk->is_over)
        return;
    journal_settle(&desk->journal);
    metrics_flush(&desk->metrics);
}

void desk_exit(struct desk *desk, const struct action *action, int code)
{
    desk->is_over = true;
    desk->exit_code = code;
    answer_end(&desk->answer);
    journal_exit(&desk->journal, action->exit.outcome, code, action->exit.text);
    metrics_run(&desk->metrics, false);
    metrics_touch(&desk->metrics);
    metrics_flush(&desk->metrics);
}

bool desk_is_busy(const struct desk *desk)
{
    return outfile_is_busy(&desk->journal.out) || outfile_is_busy(&desk->metrics.out);
}

/* --- begin and end --- */

static void on_ranks(void *ctx, int conn, const struct peermsg *msg)
{
    struct desk *desk = ctx;
    if (!desk->is_over)
        answer_peer(&desk->answer, conn, msg);
}

static const char *where_chief_is(const struct config *config)
{
    if (config->cluster.nnodes == 1)
        return NULL;
    return config->cluster.chief ? config->cluster.chief : config->cluster.nodes[0];
}

bool desk_open(struct desk *desk, const char *state_dir, struct reap *reap, struct err *err)
{
    const struct config *config = desk->config;
    struct event_base *base = desk->loop->base;
    char *events = NULL, *metrics = NULL;
    desk->journal.params = desk->params;
    desk->journal.core = desk->loop->core;
    desk->journal.on_line = on_line;
    desk->metrics.interval_ns = config->metrics.interval_ns;
    desk->metrics.compose = compose;
    desk->journal.ctx = desk->metrics.ctx = desk;
    desk->answer = (struct answer){.params = desk->params,
                                   .chief = where_chief_is(config),
                                   .attach = desk->attach,
                                   .report = desk->report,
                                   .journal = &desk->journal,
                                   .pace = &desk->pace,
                                   .cluster = desk->cluster};
    cluster_on_ranks(desk->cluster, on_ranks, desk);
    bool ok = paths_expand(config, config->events_file, state_dir, &events, err) &&
              paths_expand(config, config->metrics.file, state_dir, &metrics, err) &&
              journal_open(&desk->journal, events, reap, base, err) &&
              metrics_open(&desk->metrics, metrics, reap, base, err) &&
              answer_open(&desk->answer, base, err);
    free(events);
    free(metrics);
    return ok;
}

void desk_listen(struct desk *desk)
{
    struct control_options options = {.base = desk->loop->base,
                                      .dir = attach_run_dir(desk->attach),
                                      .patience_ns = CLIENT_PATIENCE_NS,
                                      .asked = on_asked,
                                      .ctx = desk};
    struct err err;
    desk->control = desk->answer.control = control_new(&options, &err);
    if (!desk->control)
        log_warn("control", "pchctl cannot reach this pchrun: %s", err.text);
}

void desk_free(struct desk *desk)
{
    answer_free(&desk->answer);
    control_free(desk->control);
    desk->control = desk->answer.control = NULL;
    metrics_free(&desk->metrics);
    journal_free(&desk->journal);
    pace_free(&desk->pace);
}
