/* SPDX-License-Identifier: Apache-2.0
 * See shell_parts.h. Each part has a row in the table at the end.
 */
#include "run/shell_parts.h"

#include "base/log.h"
#include "base/sigtext.h"
#include "base/str.h"
#include "config/values.h"
#include "os/signals.h"
#include "os/tree.h"
#include "peers/brief.h"
#include "run/params.h"

#include <signal.h>
#include <stdlib.h>

static void on_waited(void *ctx)
{
    ((struct shell *)ctx)->has_waited = true;
}

static bool open_loop(struct shell *shell, struct err *err)
{
    if (!loop_open(&shell->loop, err))
        return false;
    watch_init(&shell->end_wait, shell->loop.base, on_waited, shell);
    return true;
}

static bool loop_runs(const struct shell *shell)
{
    return !shell->loop.is_over;
}

static bool open_params(struct shell *shell, struct err *err)
{
    const struct config *config = shell->config;
    reap_begin(&shell->reap);
    return params_fill(&shell->params, config, err) &&
           paths_state_dir(config, &shell->state_dir, err);
}

static void free_params(struct shell *shell)
{
    reap_end(&shell->reap);
    free(shell->state_dir);
    free(shell->report_path);
}

/* Reads the record; open_attempt() writes it. */
static bool open_record(struct shell *shell, struct err *err)
{
    struct core_params *params = &shell->params;
    shell->takeover = (struct takeover){.config = shell->config, .params = params};
    if (!takeover_begin(&shell->takeover, &shell->state_dir, &shell->reap, err) ||
        !record_init(&shell->record, shell->config, shell->state_dir, &shell->reap, err))
        return false;
    if (shell->state_dir && params->leftovers == LEFTOVERS_KILL)
        leftover_begin(shell->state_dir, &shell->supervisor);
    params_of_history(params, &shell->record.history);
    shell->samedir =
        (struct samedir){.loop = &shell->loop, .reap = &shell->reap, .dir = shell->state_dir};
    params_of_dir(params, shell->config, shell->state_dir);
    if (params->node_rank > 0 && !shell->config->checkpoint.shared)
        params->saved_step = saves_newest(&shell->record.saves);
    if (params->node_rank == 0 && shell->config->record.shrink == CONFIG_SHRINK_REFUSE)
        params->least_world = record_least_world(&shell->record, &params->saved_world);
    return true;
}

static void free_record(struct shell *shell)
{
    samedir_free(&shell->samedir);
    record_free(&shell->record);
    takeover_end(&shell->takeover);
}

/* Opened after the record, so that the core has the record from its first event on. */
static bool open_core(struct shell *shell, struct err *err)
{
    return paths_expand(shell->config, shell->config->report, shell->state_dir, &shell->report_path,
                        err) &&
           loop_open_core(&shell->loop, &shell->params, err);
}

static bool open_sources(struct shell *shell, struct err *err)
{
    shell->inbox = (struct inbox){.loop = &shell->loop, .reap = &shell->reap};
    return inbox_init(&shell->inbox, shell->config, shell->state_dir, err);
}

static bool open_report(struct shell *shell, struct err *err)
{
    shell->report = (struct report){.core = shell->loop.core,
                                    .params = &shell->params,
                                    .attach = &shell->attach,
                                    .record = &shell->record,
                                    .inbox = &shell->inbox,
                                    .hook = &shell->hook,
                                    .health = &shell->health,
                                    .logs = &shell->logs,
                                    .evidence = &shell->evidence,
                                    .journal = &shell->journal,
                                    .is_of_attempts = !origin_is_given(shell->config, "report")};
    return report_open(&shell->report, shell->report_path, &shell->reap, shell->loop.base, err);
}

static bool open_children(struct shell *shell, struct err *err)
{
    struct err orphans;
    shell->children = (struct children){.loop = &shell->loop,
                                        .reap = &shell->reap,
                                        .attach = &shell->attach,
                                        .record = &shell->record,
                                        .logs = &shell->logs};
    if (!tree_adopt(&orphans))
        log_warn("start", "%s", orphans.text);
    return children_init(&shell->children, shell->config, &shell->params, shell->closed, err);
}

static void free_children(struct shell *shell)
{
    sweep_free(&shell->sweep);
    children_free(&shell->children);
}

static bool open_hook(struct shell *shell, struct err *err)
{
    shell->hook = (struct hook){.config = shell->config,
                                .closed = shell->closed,
                                .reap = &shell->reap,
                                .loop = &shell->loop};
    return hook_open(&shell->hook, err);
}

static bool open_health(struct shell *shell, struct err *err)
{
    shell->health =
        (struct health){.config = shell->config, .reap = &shell->reap, .loop = &shell->loop};
    return health_open(&shell->health, err);
}

static bool hook_holds(const struct shell *shell)
{
    return shell->wants_hook || hook_is_busy(&shell->hook);
}

static bool open_logs(struct shell *shell, struct err *err)
{
    shell->logs = (struct logs){.config = shell->config,
                                .params = &shell->params,
                                .reap = &shell->reap,
                                .loop = &shell->loop,
                                .closed = shell->closed};
    return logs_open(&shell->logs, err);
}

static bool open_evidence(struct shell *shell, struct err *err)
{
    shell->evidence.children = &shell->children;
    return evidence_open(&shell->evidence, shell->state_dir, shell->report_path, err);
}

static bool open_jobs(struct shell *shell, struct err *err)
{
    jobs_init(&shell->jobs, &shell->children);
    return true;
}

/* The commands need the socket to attach to. */
static bool open_attach(struct shell *shell, struct err *err)
{
    shell->attach = (struct attach){.record = &shell->record,
                                    .logs = &shell->logs,
                                    .on_attach = children_on_attach,
                                    .on_death = children_on_death,
                                    .ctx = &shell->children};
    if (!attach_open(&shell->attach, shell->config, &shell->loop, &shell->reap, err))
        return false;
    shell->children.deaths = (struct deaths){.dir = procs_run_dir(shell->attach.procs)->path,
                                             .reap = &shell->reap,
                                             .base = shell->loop.base,
                                             .oom.root = ""};
    return true;
}

/* A file of the node, which its replacement may write, too. */
static void is_nodes(struct shell *shell, struct outfile *out)
{
    out->is_ours = report_is_ours;
    out->owner = &shell->report;
}

static bool open_journal(struct shell *shell, struct err *err)
{
    char *path = NULL;
    shell->journal.params = &shell->params;
    shell->journal.core = shell->loop.core;
    shell->journal.on_line = answer_tell;
    shell->journal.ctx = &shell->answer;
    bool ok =
        paths_expand(shell->config, shell->config->events.file, shell->state_dir, &path, err) &&
        journal_open(&shell->journal, path, &shell->reap, shell->loop.base, err);
    is_nodes(shell, &shell->journal.file.out);
    free(path);
    return ok;
}

static bool open_markfile(struct shell *shell, struct err *err)
{
    shell->markfile = (struct markfile){.params = &shell->params,
                                        .attach = &shell->attach,
                                        .job_start_ms = shell->config->job_start_s * 1000};
    return markfile_open(&shell->markfile, shell->state_dir, &shell->reap, shell->loop.base, err);
}

static bool open_metrics(struct shell *shell, struct err *err)
{
    char *path = NULL;
    shell->metrics = (struct metrics){.attach = &shell->attach,
                                      .report = &shell->report,
                                      .counts = &shell->journal.counts,
                                      .interval_ns = shell->config->metrics.interval_ns};
    bool ok =
        paths_expand(shell->config, shell->config->metrics.file, shell->state_dir, &path, err) &&
        metrics_open(&shell->metrics, path, &shell->reap, shell->loop.base, err);
    is_nodes(shell, &shell->metrics.out);
    free(path);
    return ok;
}

static bool open_answer(struct shell *shell, struct err *err)
{
    shell->answer = (struct answer){.params = &shell->params,
                                    .command = shell->config->command,
                                    .attach = &shell->attach,
                                    .report = &shell->report,
                                    .journal = &shell->journal,
                                    .metrics = &shell->metrics,
                                    .cluster = &shell->cluster};
    answer_open(&shell->answer);
    return true;
}

static bool open_drill(struct shell *shell, struct err *err)
{
    drill_open(&shell->drill, shell->config, &shell->attach);
    return true;
}

/* Writes the start of the attempt. */
static bool open_attempt(struct shell *shell, struct err *err)
{
    return record_open(&shell->record, &shell->loop, &shell->params, err);
}

static bool open_cluster(struct shell *shell, struct err *err)
{
    bool ok = cluster_open(&shell->cluster, shell->config, &shell->loop, err);
    if (!ok)
        brief_tell_duplicate(shell->config);
    return ok;
}

static bool open_netcheck(struct shell *shell, struct err *err)
{
    shell->netcheck = (struct netcheck){.cluster = &shell->cluster, .loop = &shell->loop};
    netcheck_open(&shell->netcheck);
    return true;
}

static bool start_job(struct shell *shell, struct err *err)
{
    shell->has_started = true;
    loop_post(&shell->loop, &(struct event){.type = EV_START});
    return true;
}

/* SIGCHLD goes to the children, job control to the jobs, all others to the core. */
static void shell_take_signal(struct shell *shell, const struct signals_info *info)
{
    log_debug("signal", "%s from %d", SIGTEXT(info->number), (int)info->sender);
    if (shell->loop.is_over)
        signals_keep(info->number);
    if (jobs_signal(&shell->jobs, info))
        return;
    loop_post(
        &shell->loop,
        &(struct event){.type = EV_SIGNAL, .signal = {.number = info->number, .from = info->from}});
}

/* Reap last: while a dead process is a zombie, pchrun can still see that a signal came from it. */
static void on_signals(void *ctx)
{
    struct shell *shell = ctx;
    struct signals_info info;
    bool has_child = false;
    while (signals_read(shell->signals, &info)) {
        if (info.number == SIGCHLD)
            has_child = true;
        else
            shell_take_signal(shell, &info);
    }
    if (has_child)
        children_reap(&shell->children);
}

static bool open_signals(struct shell *shell, struct err *err)
{
    watch_init(&shell->on_signal, shell->loop.base, on_signals, shell);
    shell->signals = signals_open(err);
    return shell->signals >= 0 && watch_fd(&shell->on_signal, shell->signals, err);
}

static void free_signals(struct shell *shell)
{
    watch_end(&shell->on_signal);
    signals_close(&shell->signals);
}

static bool start_sources(struct shell *shell, struct err *err)
{
    bool ok = inbox_open(&shell->inbox, shell->config, shell->state_dir, err);
    is_nodes(shell, &shell->inbox.memory);
    return ok;
}

static bool start_trainjob(struct shell *shell, struct err *err)
{
    shell->trainjob = (struct trainjob){.loop = &shell->loop,
                                        .reap = &shell->reap,
                                        .attach = &shell->attach,
                                        .interval_ns = shell->config->metrics.interval_ns};
    if (shell->config->metrics.trainjob && shell->params.node_rank == 0 && !shell->params.is_drill)
        trainjob_open(&shell->trainjob);
    return true;
}

static bool start_answers(struct shell *shell, struct err *err)
{
    answer_listen(&shell->answer);
    return true;
}

static bool files_hold(const struct shell *shell)
{
    return outfile_is_busy(&shell->report.out) || linefile_is_busy(&shell->journal.file) ||
           linefile_is_busy(&shell->markfile.file) || outfile_is_busy(&shell->metrics.out);
}

#define HOLDS(part)                                     \
    static bool part##_holds(const struct shell *shell) \
    {                                                   \
        return part##_is_busy(&shell->part);            \
    }
HOLDS(record)
HOLDS(inbox)
HOLDS(logs)
HOLDS(evidence)
HOLDS(cluster)
HOLDS(trainjob)

#define FREE(part)                               \
    static void free_##part(struct shell *shell) \
    {                                            \
        part##_free(&shell->part);               \
    }
FREE(loop)
FREE(inbox)
FREE(report)
FREE(hook)
FREE(health)
FREE(logs)
FREE(evidence)
FREE(jobs)
FREE(attach)
FREE(journal)
FREE(markfile)
FREE(metrics)
FREE(answer)
FREE(cluster)
FREE(netcheck)
FREE(trainjob)

/* In the order of opening; freed in reverse. The commands need the parts that come before
 * start_job(). The parts after it would only delay their start. The attempt is written when nothing
 * but the network can still fail.
 */
static const struct part {
    bool (*open)(struct shell *shell, struct err *err);
    /* True: the end waits for the part, which has its own deadline. NULL: never. */
    bool (*holds)(const struct shell *shell);
    void (*free)(struct shell *shell); /* also called for a part that could not be opened */
} parts[] = {
    {open_loop, loop_runs, free_loop},
    {open_params, NULL, free_params},
    {open_record, record_holds, free_record},
    {open_core, NULL, NULL},
    {open_sources, inbox_holds, free_inbox},
    {open_report, files_hold, free_report},
    {open_children, NULL, free_children},
    {open_hook, hook_holds, free_hook},
    {open_health, NULL, free_health},
    {open_logs, logs_holds, free_logs},
    {open_evidence, evidence_holds, free_evidence},
    {open_jobs, NULL, free_jobs},
    {open_attach, NULL, free_attach},
    {open_journal, NULL, free_journal},
    {open_markfile, NULL, free_markfile},
    {open_metrics, NULL, free_metrics},
    {open_answer, NULL, free_answer}, /* the socket lies in attach's directory */
    {open_drill, NULL, NULL},
    {open_attempt, NULL, NULL},
    {open_cluster, cluster_holds, free_cluster},
    {open_netcheck, NULL, free_netcheck},
    {start_job, NULL, NULL},
    {open_signals, NULL, free_signals},
    {start_sources, NULL, NULL},
    {start_trainjob, trainjob_holds, free_trainjob},
    {start_answers, NULL, NULL},
};

bool shell_open_parts(struct shell *shell, struct err *err)
{
    bool ok = true;
    while (ok && shell->opened < ARRAY_LEN(parts))
        ok = parts[shell->opened++].open(shell, err);
    return ok;
}

void shell_free_parts(struct shell *shell)
{
    while (shell->opened > 0)
        if (parts[--shell->opened].free)
            parts[shell->opened].free(shell);
}

/* True if the shutdown is complete. It also waits briefly for helpers that end by themselves. */
bool shell_is_done(const struct shell *shell)
{
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (parts[i].holds && parts[i].holds(shell))
            return false;
    return shell->reap.kept == 0 || shell->has_waited;
}
