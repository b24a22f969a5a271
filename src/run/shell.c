/* SPDX-License-Identifier: Apache-2.0
 * See shell.h. The table at the end of the middle part has one function for each action.
 */
#include "run/shell.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/sigtext.h"
#include "base/str.h"
#include "commands/children.h"
#include "commands/evidence.h"
#include "commands/hook.h"
#include "commands/jobs.h"
#include "config/paths.h"
#include "core/common/grace.h"
#include "core/common/verdict.h"
#include "logs/logs.h"
#include "loop/loop.h"
#include "notices/noticein.h"
#include "os/reap.h"
#include "os/signals.h"
#include "os/spawn.h"
#include "os/tree.h"
#include "peers/cluster.h"
#include "procs/attach.h"
#include "record/record.h"
#include "record/takeover.h"
#include "run/drill.h"
#include "run/generation.h"
#include "run/params.h"
#include "run/quota.h"
#include "run/sigin.h"
#include "status/desk.h"
#include "status/report.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

/* How long the end waits for children that remove scratch directories. */
#define SWEEP_WAIT_NS (2 * NS_PER_S)

struct shell {
    struct config *config;
    struct core_params params;
    char *state_dir; /* NULL: none */
    struct loop loop;
    struct reap reap;
    struct children children;
    struct jobs jobs;
    struct sigin sigin;
    struct cluster cluster;
    struct report report;
    struct takeover takeover;
    struct record record;
    struct attach attach;
    struct drill drill;
    struct desk desk;
    struct noticein noticein;
    struct evidence evidence;
    struct hook hook;
    struct logs logs;
    enum outcome outcome;
    bool wants_hook; /* run it as soon as the record is written */
    struct generation generation;
    struct watch end_wait; /* the wait for the sweepers */
    bool has_waited;
    struct quota quota;
    uint64_t reported_commit;
    struct shell_end end;
};

/* --- actions --- */

typedef void act_fn(struct shell *shell, const struct action *action);

static void act_generation(struct shell *shell, const struct action *action)
{
    generation_act(&shell->generation, action);
}

static void act_signal(struct shell *shell, const struct action *action)
{
    log_debug("signal", "sending %s", SIGTEXT(action->signal.number));
    children_signal(&shell->children, action);
}

static void act_read_steps(struct shell *shell, const struct action *action)
{
    attach_read_steps(&shell->attach);
}

static void act_examine(struct shell *shell, const struct action *action)
{
    evidence_take(&shell->evidence, action->examine);
}

static void act_prepare(struct shell *shell, const struct action *action)
{
    record_prepare(&shell->record, action->step, action->ranks, action->own);
}

static void act_commit(struct shell *shell, const struct action *action)
{
    if (action->type == ACT_UNCOUNT)
        record_uncount(&shell->record, action->has_no_step);
    else
        record_commit(&shell->record, action->step, action->save_ns);
}

static void act_connect(struct shell *shell, const struct action *action)
{
    cluster_connect(&shell->cluster);
}

static void act_send(struct shell *shell, const struct action *action)
{
    cluster_send(&shell->cluster, action);
}

static void act_close(struct shell *shell, const struct action *action)
{
    cluster_close(&shell->cluster, action);
}

static void act_gate(struct shell *shell, const struct action *action)
{
    attach_gate(&shell->attach, action);
    report_touch(&shell->report); /* a round was opened, decided or finished */
}

static void act_proc_send(struct shell *shell, const struct action *action)
{
    attach_send(&shell->attach, action);
}

static void act_proc_close(struct shell *shell, const struct action *action)
{
    attach_close(&shell->attach, action);
}

static void act_notice(struct shell *shell, const struct action *action)
{
    attach_notice(&shell->attach, action);
}

static void act_committed(struct shell *shell, const struct action *action)
{
    record_committed(&shell->record, action->step);
    report_touch(&shell->report);
    attach_committed(&shell->attach);
}

static void act_log(struct shell *shell, const struct action *action)
{
    if (!quota_allows(&shell->quota, action))
        return;
    log_line((enum log_level)action->log.level, action->log.topic, "%s", action->log.text);
    desk_take(&shell->desk, action);
}

static void act_state(struct shell *shell, const struct action *action)
{
    report_touch(&shell->report);
}

/* The signal that ended the command, if exit.reraise asks pchrun to die of it, too. */
static int signal_to_repeat(const struct shell *shell, int code)
{
    struct core_report report;
    core_report(shell->loop.core, &report);
    bool is_by_signal = report.first_cause.is_here && report.first_cause.is_signal &&
                        report.first_cause.pid > 0 && report.first_cause.code == code;
    return shell->config->exit.reraise && is_by_signal ? code - EXIT_BY_SIGNAL : 0;
}

/* Follows a notice that has ended the run: plans the hook and remembers the notice. An outcome of
 * "no progress" with a live notice counts as preempted, too. */
static void follow_notice(struct shell *shell, enum outcome outcome)
{
    struct core_report report;
    core_report(shell->loop.core, &report);
    bool was_preempted =
        verdict_is_preempted(outcome) || (outcome == OUTCOME_NO_PROGRESS && report.notice.is_live);
    struct notice by = {.type = NOTICE_TERMINATE};
    str_copy(by.source, sizeof by.source, report.notice.source);
    str_copy(by.id, sizeof by.id, report.notice.id);
    shell->wants_hook = was_preempted && hook_is_set(&shell->hook);
    noticein_end(&shell->noticein, was_preempted && report.notice.is_live ? &by : NULL);
}

/* Words the last line; the code must be known. */
static void word_end(struct shell_end *end, enum outcome outcome, const char *why)
{
    snprintf(end->text, sizeof end->text, "%s, exit code %d: %s", verdict_name(outcome), end->code,
             why);
}

/* Of several nodes, node 0 and the node with the failure log the end loudly: the reader looks
 * there. A single node that succeeds logs it at debug level only. shell_finish() logs it, after all
 * other lines. */
static void keep_end(struct shell *shell, const struct action *action)
{
    struct core_report report;
    core_report(shell->loop.core, &report);
    bool is_alone = shell->params.nnodes == 1, is_chief = shell->params.node_rank == 0;
    if (action->exit.outcome == OUTCOME_COMPLETED && !report.uncommitted_step)
        shell->end.level = is_alone ? LOG_DEBUG : LOG_INFO;
    else
        shell->end.level = is_chief || report.first_cause.is_here ? LOG_NOTICE : LOG_INFO;
    word_end(&shell->end, action->exit.outcome, action->exit.text);
}

/* This node does not know when another node's notice arrived: count from now. */
static int64_t kept_back(const struct core_report *report)
{
    int64_t at = report->notice.at ? report->notice.at : clock_now_ns();
    return grace_margin(report->notice.deadline - at);
}

/* The writers may use the notice's time. The record may use nearly all of it: a write that timed
 * out leaves the disk in an unknown state. */
static void end_writers(struct shell *shell)
{
    struct core_report report;
    core_report(shell->loop.core, &report);
    bool is_live = report.notice.is_live;
    int64_t back = kept_back(&report), deadline = report.notice.deadline;
    logs_end(&shell->logs, is_live ? deadline - back : CLOCK_NEVER);
    record_end(&shell->record, is_live ? deadline - back / 4 : CLOCK_NEVER);
}

static void act_exit(struct shell *shell, const struct action *action)
{
    char left[512];
    if (shell->config->checkpoint.dir && shell->generation.is_untidy)
        attach_clean(&shell->attach); /* pchrun promises it for every start, however short */
    bool is_wanted = shell->params.leftovers == LEFTOVERS_LEAVE;
    shell->end.code = drill_end(&shell->drill, action->exit.outcome, action->exit.code);
    report_exit(&shell->report, shell->end.code);
    desk_exit(&shell->desk, action, shell->end.code);
    if (action->exit.outcome == OUTCOME_FAILED)
        shell->end.signal = signal_to_repeat(shell, action->exit.code);
    if (!shell->children.is_empty && *children_describe(&shell->children, left, sizeof left))
        log_line(is_wanted ? LOG_INFO : LOG_ERROR, "left", "still there: %s", left);
    quota_end(&shell->quota);
    keep_end(shell, action);
    shell->outcome = action->exit.outcome;
    loop_close_core(&shell->loop);
    evidence_stop(&shell->evidence);
    follow_notice(shell, action->exit.outcome);
    cluster_finish(&shell->cluster);
    end_writers(shell);
    watch_at(&shell->end_wait, clock_now_ns() + SWEEP_WAIT_NS);
}

static act_fn *const actions[ACT__COUNT] = {
    [ACT_START] = act_generation,    [ACT_SIGNAL] = act_signal,
    [ACT_GATE] = act_gate,           [ACT_READ_STEPS] = act_read_steps,
    [ACT_PROC_SEND] = act_proc_send, [ACT_PROC_CLOSE] = act_proc_close,
    [ACT_PREPARE] = act_prepare,     [ACT_COMMIT] = act_commit,
    [ACT_CONNECT] = act_connect,     [ACT_SEND] = act_send,
    [ACT_CLOSE] = act_close,         [ACT_NOTICE] = act_notice,
    [ACT_COMMITTED] = act_committed, [ACT_LOG] = act_log,
    [ACT_STATE] = act_state,         [ACT_EXIT] = act_exit,
    [ACT_EXAMINE] = act_examine,     [ACT_PORT] = act_generation,
    [ACT_UNCOUNT] = act_commit,
};

static void act(void *ctx, const struct action *action)
{
    struct shell *shell = ctx;
    if (actions[action->type])
        actions[action->type](shell, action);
    else
        log_error("bug", "the core asks for action %d, which pchrun does not know",
                  (int)action->type);
    if (action->type != ACT_LOG) /* act_log() has passed it on if the limit allows */
        desk_take(&shell->desk, action);
}

/* --- the run --- */

void shell_begin(void)
{
    signals_begin();
}

void shell_end_unstarted(struct shell_end *end, const struct err *err)
{
    *end = (struct shell_end){.code = EXIT_OWN_ERROR, .level = LOG_ERROR};
    word_end(end, OUTCOME_NOT_STARTED, err->text);
}

int shell_finish(const struct shell_end *end)
{
    if (end->text[0])
        log_line((enum log_level)end->level, "end", "%s", end->text);
    if (end->signal)
        signals_die_of(end->signal);
    return end->code;
}

/* The end waits for writes and for last messages to other nodes, which have their own deadlines. It
 * also waits for sweepers and for processes that sources have left. */
static bool is_done(const struct shell *shell)
{
    return shell->loop.is_over && !outfile_is_busy(&shell->report.out) &&
           !record_is_busy(&shell->record) && !cluster_is_busy(&shell->cluster) &&
           !evidence_is_busy(&shell->evidence) && !noticein_is_busy(&shell->noticein) &&
           !shell->wants_hook && !hook_is_busy(&shell->hook) && !logs_is_busy(&shell->logs) &&
           !desk_is_busy(&shell->desk) &&
           ((shell->attach.sweepers.running == 0 && shell->children.deaths.readers.running == 0 &&
             !noticein_has_strays(&shell->noticein)) ||
            shell->has_waited);
}

/* The last commit may reach the disk after the end was decided. */
static uint64_t last_commit(const struct shell *shell, const struct core_report *report)
{
    uint64_t own = shell->record.committed;
    return own > report->commit_step ? own : report->commit_step;
}

static void tell_report(void *ctx)
{
    struct shell *shell = ctx;
    report_touch(&shell->report);
    report_flush(&shell->report);
}

static void run_hook(struct shell *shell)
{
    struct core_report report;
    core_report(shell->loop.core, &report);
    uint64_t step = last_commit(shell, &report);
    struct env_end facts = {.job = shell->params.job,
                            .outcome = verdict_name(shell->outcome),
                            .exit_code = shell->end.code,
                            .node_rank = shell->params.node_rank,
                            .nnodes = shell->params.nnodes,
                            .attempt = report.attempt,
                            .commit_step = step,
                            .commit_path = record_known_path(&shell->record, step),
                            .notice_source = report.notice.source,
                            .notice_id = report.notice.id};
    int64_t deadline = report.notice.is_live ? report.notice.deadline : CLOCK_NEVER;
    shell->wants_hook = false;
    spawn_let_go(); /* already done unless the end comes early: the hook must see no difference */
    hook_run(&shell->hook, &facts, deadline, kept_back(&report));
    tell_report(shell);
}

static void stop_if_done(void *ctx)
{
    struct shell *shell = ctx;
    if (shell->wants_hook && !record_is_busy(&shell->record))
        run_hook(shell);
    if (shell->loop.base && is_done(shell))
        loop_stop(&shell->loop);
}

/* A part that the report describes has ended: the hook, the logs, or the evidence of a hang. */
static void on_part_end(void *ctx)
{
    tell_report(ctx);
    stop_if_done(ctx);
}

static void on_waited(void *ctx)
{
    struct shell *shell = ctx;
    shell->has_waited = true;
    stop_if_done(shell);
}

static void on_settled(void *ctx)
{
    struct shell *shell = ctx;
    /* A commit may also reach the disk after the end, when the core gets no events. */
    if (shell->record.committed > shell->reported_commit)
        report_touch(&shell->report);
    shell->reported_commit = shell->record.committed;
    drill_watch(&shell->drill);
    desk_settle(&shell->desk);
    report_flush(&shell->report);
    stop_if_done(shell);
}

static bool read_record(struct shell *shell, struct err *err)
{
    struct core_params *params = &shell->params;
    shell->takeover = (struct takeover){.config = shell->config, .params = params};
    if (!takeover_begin(&shell->takeover, &shell->state_dir, &shell->reap, err) ||
        !record_init(&shell->record, shell->config, shell->state_dir, &shell->reap, err))
        return false;
    params_of_history(params, &shell->record.history);
    params->has_record = shell->state_dir != NULL;
    return true;
}

static bool init_desk(struct shell *shell, struct err *err)
{
    shell->desk = (struct desk){.config = shell->config,
                                .params = &shell->params,
                                .loop = &shell->loop,
                                .attach = &shell->attach,
                                .report = &shell->report,
                                .cluster = &shell->cluster,
                                .on_idle = stop_if_done,
                                .ctx = shell};
    return desk_init(&shell->desk, shell->state_dir, &shell->reap, err);
}

static bool init(struct shell *shell, unsigned closed, struct err *err)
{
    char *path = NULL;
    struct err orphans;
    reap_begin(&shell->reap);
    if (!params_fill(&shell->params, shell->config, err) ||
        !paths_state_dir(shell->config, &shell->state_dir, err) || !read_record(shell, err) ||
        !noticein_init(&shell->noticein, shell->config, shell->state_dir, &shell->reap, err) ||
        !paths_expand(shell->config, shell->config->report, shell->state_dir, &path, err))
        return false;
    bool ok = report_init(&shell->report, path, &shell->params, &shell->reap, err) &&
              children_init(&shell->children, shell->config, &shell->params, closed, err) &&
              hook_init(&shell->hook, shell->config, &shell->reap, err) &&
              logs_init(&shell->logs, shell->config, &shell->params, &shell->reap, err) &&
              evidence_init(&shell->evidence, shell->config, shell->state_dir, path, err) &&
              loop_init(&shell->loop, &shell->params, act, shell, err) && init_desk(shell, err);
    free(path);
    if (!ok)
        return false;
    shell->children.loop = &shell->loop;
    shell->children.reap = &shell->reap;
    if (!tree_adopt(&orphans))
        log_warn("start", "%s", orphans.text);
    jobs_init(&shell->jobs, &shell->children, &shell->params);
    loop_on_settled(&shell->loop, on_settled);
    outfile_on_idle(&shell->report.out, stop_if_done, shell);
    shell->report.record = &shell->record;
    shell->report.noticein = &shell->noticein;
    shell->noticein.on_change = tell_report;
    shell->noticein.on_idle = stop_if_done;
    shell->report.evidence = &shell->evidence;
    shell->evidence.reap = &shell->reap;
    shell->evidence.children = &shell->children;
    shell->evidence.on_idle = on_part_end;
    shell->report.hook = &shell->hook;
    shell->children.logs = &shell->logs;
    shell->report.logs = &shell->logs;
    shell->logs.on_idle = on_part_end;
    shell->hook.closed = shell->logs.world.closed = closed;
    shell->generation = (struct generation){.config = shell->config,
                                            .params = &shell->params,
                                            .children = &shell->children,
                                            .jobs = &shell->jobs,
                                            .record = &shell->record,
                                            .attach = &shell->attach,
                                            .drill = &shell->drill};
    shell->hook.on_end = on_part_end;
    shell->hook.ctx = shell->logs.ctx = shell->evidence.ctx = shell->noticein.ctx = shell;
    record_on_idle(&shell->record, stop_if_done, shell);
    cluster_on_idle(&shell->cluster, stop_if_done, shell);
    return true;
}

/* The commands need none of this, so it comes after their start. */
static bool open_loop(struct shell *shell, struct err *err)
{
    if (!sigin_open(&shell->sigin, &shell->loop, &shell->children, &shell->jobs, err) ||
        !report_open(&shell->report, shell->loop.core, shell->loop.base, err) ||
        !noticein_open(&shell->noticein, shell->config, shell->state_dir, &shell->loop, err) ||
        !desk_open(&shell->desk, err))
        return false;
    reap_prepare(&shell->reap);
    report_flush(&shell->report);
    return true;
}

/* The commands need this at their start: the socket to attach to, and the step to resume from. */
static bool open_attach(struct shell *shell, struct err *err)
{
    shell->attach.record = &shell->record;
    shell->attach.logs = &shell->logs;
    shell->children.record = &shell->record;
    if (!loop_open(&shell->loop, err) ||
        !attach_open(&shell->attach, shell->config, &shell->loop, &shell->reap, err))
        return false;
    shell->children.socket = attach_socket(&shell->attach);
    logs_open(&shell->logs, shell->loop.base);
    shell->children.attach = &shell->attach;
    shell->attach.on_death = children_on_death;
    shell->attach.ctx = &shell->children;
    deaths_init(&shell->children.deaths, shell->children.socket, &shell->reap, shell->loop.base);
    shell->children.deaths.readers.on_idle = stop_if_done;
    shell->children.deaths.readers.ctx = shell;
    shell->attach.sweepers.on_idle = stop_if_done;
    shell->attach.sweepers.ctx = shell;
    shell->end_wait = (struct watch){.fn = on_waited, .ctx = shell};
    /* The record is last: it writes the start of the attempt. */
    return watch_clock(&shell->end_wait, shell->loop.base, err) &&
           hook_open(&shell->hook, shell->loop.base, err) &&
           generation_open(&shell->generation, shell->loop.base, err) &&
           evidence_open(&shell->evidence, &shell->loop, &shell->params, err) &&
           drill_open(&shell->drill, shell->config, &shell->attach, &shell->params, err) &&
           record_open(&shell->record, &shell->loop, &shell->params, err);
}

static bool run_loop(struct shell *shell, struct err *err)
{
    return is_done(shell) || loop_run(&shell->loop) ||
           err_set(err, ERR_SYSTEM, errno, "the event loop has failed");
}

/* The job's own processes have ended. A source or the hook may have left processes in their own
 * session. pchrun finds them only because they still live, and does not wait for their end. */
static void sweep(struct shell *shell)
{
    struct action kill = {.type = ACT_SIGNAL, .signal = {SIGKILL, TARGET_TREE}};
    bool may_have_left = shell->noticein.count > 0 || hook_has_run(&shell->hook);
    if (may_have_left && shell->params.leftovers == LEFTOVERS_KILL && !reap_is_empty(&shell->reap))
        children_signal(&shell->children, &kill);
}

static void finish(struct shell *shell)
{
    watch_end(&shell->end_wait);
    generation_close(&shell->generation);
    drill_close(&shell->drill);
    noticein_free(&shell->noticein);
    evidence_free(&shell->evidence);
    desk_free(&shell->desk); /* its socket lies in attach's directory */
    attach_free(&shell->attach);
    sigin_close(&shell->sigin);
    cluster_free(&shell->cluster);
    report_free(&shell->report);
    record_free(&shell->record);
    takeover_end(&shell->takeover);
    logs_free(&shell->logs);
    jobs_free(&shell->jobs);
    hook_free(&shell->hook);
    children_free(&shell->children);
    loop_free(&shell->loop);
    reap_end(&shell->reap);
    free(shell->state_dir);
}

/* Without an event loop pchrun cannot keep its promises. */
static void give_up(struct shell *shell, const struct err *err)
{
    struct action kill = {.type = ACT_SIGNAL, .signal = {SIGKILL, TARGET_TREE}};
    shell->end = (struct shell_end){.code = EXIT_OWN_ERROR, .level = LOG_ERROR};
    word_end(&shell->end, OUTCOME_FAILED, err->text);
    children_signal(&shell->children, &kill);
}

/* Nothing has been started. A signal that came meanwhile ends pchrun as usual. */
static void fail(struct shell *shell, const struct err *err)
{
    int number = shell->takeover.signal;
    if (!number) {
        shell_end_unstarted(&shell->end, err);
        return;
    }
    bool is_preempted = shell->params.signals[number].rule == SIGNAL_PREEMPT;
    shell->end.level = LOG_NOTICE;
    shell->end.code = is_preempted ? shell->params.exit.preempted : EXIT_BY_SIGNAL + number;
    shell->end.signal = is_preempted ? 0 : number;
    word_end(&shell->end, is_preempted ? OUTCOME_PREEMPTED : OUTCOME_FAILED, err->text);
    str_addf(shell->end.text, sizeof shell->end.text, "; nothing was started");
}

struct shell_end shell_run(struct config *config, unsigned closed)
{
    static struct shell
        shell; /* static: it is large, and the kernel zeroes only the pages in use */
    struct err err;
    shell.config = config;
    shell.end.code = EXIT_OWN_ERROR;
    shell.sigin.fd = shell.jobs.tty.fd = shell.hook.report = shell.evidence.reader_out = -1;
    if (!init(&shell, closed, &err) || !open_attach(&shell, &err) ||
        !cluster_open(&shell.cluster, config, &shell.loop, &err)) {
        fail(&shell, &err);
        finish(&shell);
        return shell.end;
    }
    loop_post(&shell.loop, &(struct event){.type = EV_START});
    if (open_loop(&shell, &err) && run_loop(&shell, &err))
        sweep(&shell);
    else
        give_up(&shell, &err);
    finish(&shell);
    return shell.end;
}
