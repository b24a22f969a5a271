/* SPDX-License-Identifier: Apache-2.0
 * See shell.h. perform() has a case for each action of the core; shell_parts.c opens the parts that
 * it calls.
 */
#include "run/shell.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/sigtext.h"
#include "base/str.h"
#include "core/common/cause.h"
#include "core/common/grace.h"
#include "core/common/verdict.h"
#include "os/above.h"
#include "os/signals.h"
#include "os/spawn.h"
#include "peers/brief.h"
#include "run/shell_parts.h"
#include "run/shell_say.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* How long the end waits for helpers: those that remove scratch directories, for example. */
#define HELPERS_WAIT_NS (2 * NS_PER_S)
/* The delay of on_tidying(): until then its work would slow down the start of the commands. */
#define TIDY_AFTER_NS (100 * NS_PER_MS)
/* A host that was not healthy is repaired within a day, or it strikes again. */
#define STRIKES_KEPT_NS (24 * 3600 * NS_PER_S)

enum { HOSTS_MAX = 2048 };

/* --- log lines --- */

/* Lines of these topics repeat if a process or node reconnects endlessly. Many ranks need many
 * lines. */
static const char *const limited_topics[LIMITED_TOPICS] = {"attach", "join", "peers"};

/* False: the topic had too many lines, so drop this one. */
static bool may_log(struct shell *shell, const struct action *action)
{
    enum { LINES_MAX = 3 * CORE_SLOTS_MAX }; /* of each topic within some seconds */
    bool is_limited = action->log.level == LOG_INFO || action->log.level == LOG_WARN;
    for (size_t i = 0; is_limited && i < LIMITED_TOPICS; i++)
        if (str_is(action->log.topic, limited_topics[i]))
            return log_limit_ok(&shell->log_limits[i], limited_topics[i], LINES_MAX);
    return true;
}

/* --- the start of the commands --- */

/* With -n each command is a rank. Otherwise the ranks of this node are not known yet. */
static bool can_resume(struct shell *shell, struct err *err)
{
    const struct core_params *params = &shell->params;
    if (params->expected_procs == 0)
        return true;
    if (!shell->config->procs.count_is_set)
        return record_check_rank(&shell->record, RECORD_ANY_RANK, err);
    bool ok = true;
    for (int i = 0; ok && i < params->children; i++)
        ok = record_check_rank(&shell->record, params->node_rank * params->children + i, err);
    return ok;
}

static void start_commands(struct shell *shell)
{
    const struct action *action = &shell->to_start;
    struct err err;
    record_begin(&shell->record, action->start.attempt, action->start.generation,
                 action->start.resume_step);
    shell_say_start(shell);
    if (!can_resume(shell, &err)) {
        log_error("record", "%s", err.text);
        children_refuse(&shell->children, &err);
        return;
    }
    jobs_start(&shell->jobs, action);
    drill_start(&shell->drill);
    watch_at(&shell->tidying, clock_now_ns() + TIDY_AFTER_NS);
}

static void on_swept(void *ctx)
{
    start_commands(ctx);
}

static void start_swept(struct shell *shell)
{
    shell->sweep = (struct sweep){.base = shell->loop.base,
                                  .cgroup = &shell->children.cgroup,
                                  .marks = &shell->supervisor,
                                  .kill_wait_ns = shell->params.kill_wait_ns,
                                  .on_swept = on_swept,
                                  .ctx = shell,
                                  .search.helper.reap = &shell->reap};
    sweep_begin(&shell->sweep);
}

static void on_starting(void *ctx)
{
    struct shell *shell = ctx;
    struct err err;
    if (procs_mend(shell->attach.procs, &err)) {
        children_begin_group(&shell->children);
        start_commands(shell);
    } else {
        log_error("start", "%s", err.text);
        children_refuse(&shell->children, &err);
    }
}

/* Does the work of a start that no process waits for. */
static void on_tidying(void *ctx)
{
    struct shell *shell = ctx;
    children_watch(&shell->children);
    const struct restart_policy *restart = &shell->params.restart;
    /* The commands of a next generation inherit these descriptors from pchrun, so it keeps them. */
    if (restart->max == 0 && !restart->after_notice && shell->params.replace_wait_ns == 0)
        spawn_let_go();
    procs_clean(shell->attach.procs);
}

/* On a platform that starts jobs again, the exit code and the signals must reach pchrun itself. A
 * shell starts the rest of a pipeline after pchrun, so this is found out after the start. */
static void tell_above(const struct config *config)
{
    struct proc proc;
    if (config->platform.preset == PRESET_NONE || getenv("PCH_SOCKET") || above_has_terminal())
        return;
    if (above_find_shell(getppid(), &proc))
        log_warn("start",
                 "a shell (%s, process %d) has started this: it dies of a SIGTERM without passing "
                 "it on, and its exit code counts; write exec before pchrun",
                 proc.comm, (int)proc.pid);
    if (above_find_reader(getpid(), getppid(), &proc))
        log_warn("start",
                 "standard output goes to %s (process %d): the exit code of a pipeline is that of "
                 "its last command; use --logs-dir instead, or in bash set -o pipefail",
                 proc.comm, (int)proc.pid);
}

/* pchrun may still be reaping the last command before a restart: start the next generation later.
 * The first start of a replacement is one of a later generation, too. */
static void act_start(struct shell *shell, const struct action *action)
{
    shell->to_start = *action;
    if (shell->starting.is_open) {
        watch_at(&shell->starting, clock_now_ns());
        return;
    }
    watch_init(&shell->starting, shell->loop.base, on_starting, shell);
    watch_init(&shell->tidying, shell->loop.base, on_tidying, shell);
    children_begin_group(&shell->children);
    start_swept(shell);
    tell_above(shell->config);
}

/* --- the end --- */

/* The signal that ended the command, if exit.reraise asks pchrun to die of it, too. */
static int signal_to_repeat(const struct shell *shell, const struct core_report *report,
                            const struct action *action)
{
    int code = action->exit.code;
    bool is_by_signal = action->exit.outcome == OUTCOME_FAILED && report->is_cause_here &&
                        report->first_cause.fault == FAULT_SIGNAL && report->first_cause.pid > 0 &&
                        report->first_cause.code == code;
    bool repeats =
        is_by_signal || (action->exit.outcome == OUTCOME_INTERRUPTED && code > EXIT_BY_SIGNAL);
    return shell->config->exit.reraise && repeats ? code - EXIT_BY_SIGNAL : 0;
}

/* Follows a notice, or a health check, that has ended the run: plans the hook and remembers the
 * notice. An outcome of
 * "no progress" with a live notice counts as preempted, too. */
static void follow_notice(struct shell *shell, const struct core_report *report,
                          enum outcome outcome)
{
    bool was_preempted =
        verdict_is_preempted(outcome) || (outcome == OUTCOME_NO_PROGRESS && report->notice.is_live);
    struct notice by = {.type = NOTICE_TERMINATE};
    str_copy(by.source, sizeof by.source, report->notice.label.source);
    str_copy(by.id, sizeof by.id, report->notice.label.id);
    shell->wants_hook = (was_preempted || outcome == OUTCOME_UNHEALTHY) && shell->config->exit.hook;
    inbox_end(&shell->inbox, was_preempted && report->notice.is_live ? &by : NULL);
}

/* Writes the text of the last log line. Set end->code before. */
static void word_end(struct shell_end *end, enum outcome outcome, const char *why)
{
    snprintf(end->text, sizeof end->text, "%s, exit code %d: %s", verdict_name(outcome), end->code,
             why);
}

/* A failed save is in the text already. */
static void word_commit(const struct shell *shell, const struct core_report *report)
{
    struct shell_end *end = shell->end;
    if (!shell->record.dir || report->uncommitted_step)
        return;
    if (report->commit_step)
        str_addf(end->text, sizeof end->text, "; step %llu is committed", ull(report->commit_step));
    else
        str_addf(end->text, sizeof end->text, "; nothing is committed");
}

/* Of several nodes, node 0 and the node with the failure log the end loudly: the reader looks
 * there. shell_finish() writes the line, after all other lines. */
static void keep_end(struct shell *shell, const struct core_report *report,
                     const struct action *action)
{
    bool is_loud = shell->params.node_rank == 0 || report->is_cause_here;
    bool has_completed = action->exit.outcome == OUTCOME_COMPLETED;
    word_end(shell->end, action->exit.outcome, action->exit.text);
    if (has_completed)
        word_commit(shell, report);
    bool is_good = has_completed && !report->uncommitted_step;
    shell->end->level = is_good || !is_loud ? LOG_INFO : LOG_NOTICE;
}

/* This node does not know when another node's notice arrived: count from now. */
static int64_t kept_back(const struct core_report *report)
{
    int64_t at = report->notice.at ? report->notice.at : clock_now_ns();
    return grace_margin(report->notice.deadline - at);
}

/* The writers may use the time that the notice leaves. The record may use nearly all of it: a write
 * that timed out leaves the disk in an unknown state. */
static void end_writers(struct shell *shell, const struct core_report *report)
{
    bool is_live = report->notice.is_live;
    int64_t back = kept_back(report), deadline = report->notice.deadline;
    logs_end(&shell->logs, is_live ? deadline - back : CLOCK_NEVER);
    record_end(&shell->record, is_live ? deadline - back / 4 : CLOCK_NEVER);
}

static void take_strike(struct shell *shell, const char *host, const char *text)
{
    strikes_add(&shell->record.history.strikes, host, text, clock_real_ns());
}

/* Node 0 knows each host that was not healthy, from ACT_STRIKE. The hook of another node knows the
 * one that ended the job, or itself. */
static void note_strike(struct shell *shell, const struct core_report *report)
{
    char illness[CAUSE_ILLNESS_MAX];
    const struct peer_cause *cause = &report->first_cause;
    if (cause->fault == FAULT_UNFIT && shell->params.node_rank != 0)
        take_strike(shell, cause->host, cause_illness(cause, illness));
}

/* Ends the parts. The loop goes on until they have finished. */
static void end_parts(struct shell *shell, const struct core_report *report)
{
    shell->loop.is_over = true;
    evidence_stop(&shell->evidence);
    health_stop(&shell->health);
    samedir_stop(&shell->samedir);
    netcheck_stop(&shell->netcheck);
    cluster_finish(&shell->cluster);
    end_writers(shell, report);
    watch_at(&shell->end_wait, clock_now_ns() + HELPERS_WAIT_NS);
}

static void act_exit(struct shell *shell, const struct action *action)
{
    struct core_report report;
    char left[512];
    core_report(shell->loop.core, &report);
    /* A short run ends before its tidying was due, and leaves no directories either. */
    if (shell->config->checkpoint.dir && shell->tidying.is_open && shell->tidying.at != CLOCK_NEVER)
        procs_clean(shell->attach.procs);
    bool is_wanted = shell->params.leftovers == LEFTOVERS_LEAVE;
    shell->end->code = drill_end(&shell->drill, action->exit.outcome, action->exit.code);
    shell->report.exit_code = shell->end->code;
    note_strike(shell, &report);
    outfile_touch(&shell->report.out);
    answer_end(&shell->answer);
    journal_exit(&shell->journal, action->exit.outcome, shell->end->code, action->exit.text);
    metrics_run(&shell->metrics, false);
    trainjob_end(&shell->trainjob);
    outfile_touch(&shell->metrics.out);
    outfile_flush(&shell->metrics.out);
    shell->end->signal = signal_to_repeat(shell, &report, action);
    if (!shell->children.is_empty && *children_describe(&shell->children, left, sizeof left))
        log_line(is_wanted ? LOG_INFO : LOG_ERROR, "left", "still there: %s", left);
    for (size_t i = 0; i < LIMITED_TOPICS; i++)
        log_limit_end(&shell->log_limits[i], limited_topics[i]);
    keep_end(shell, &report, action);
    shell->outcome = action->exit.outcome;
    follow_notice(shell, &report, action->exit.outcome);
    end_parts(shell, &report);
}

/* Another supervisor has the place of this node. Nothing was started here. */
static void shell_on_standby(void *ctx)
{
    struct shell *shell = ctx;
    struct core_report report;
    if (shell->loop.is_over)
        return;
    core_report(shell->loop.core, &report);
    shell->end->stands_by = true;
    answer_end(&shell->answer);
    inbox_end(&shell->inbox, NULL);
    end_parts(shell, &report);
}

/* --- actions --- */

static void perform(struct shell *shell, const struct action *action)
{
    switch (action->type) {
    case ACT_PORT:
        *action->port = rendezvous_pick(&shell->rendezvous, shell->config);
        break;
    case ACT_START:
        act_start(shell, action);
        break;
    case ACT_SIGNAL:
        log_debug("signal", "sending %s", SIGTEXT(action->signal.number));
        children_signal(&shell->children, action);
        break;
    case ACT_GATE:
        procs_gate(shell->attach.procs, action->gate);
        break;
    case ACT_READ_STEPS:
        attach_read_steps(&shell->attach);
        break;
    case ACT_EXAMINE:
        evidence_take(&shell->evidence, action->examine);
        break;
    case ACT_PROC_SEND:
        attach_send(&shell->attach, action);
        shell_say_start(shell);
        break;
    case ACT_PROC_CLOSE:
        procs_close(shell->attach.procs, action->proc.slot);
        break;
    case ACT_PREPARE:
        record_prepare(&shell->record, action);
        break;
    case ACT_COMMIT:
        record_commit(&shell->record, action);
        break;
    case ACT_UNCOUNT:
        record_uncount(&shell->record, action->has_no_step);
        break;
    case ACT_NOTE_END:
        record_note_end(&shell->record, action->end_ns);
        break;
    case ACT_STRIKE:
        take_strike(shell, action->strike.host, action->strike.text);
        break;
    case ACT_SEEK_DIR:
        samedir_seek(&shell->samedir, action->chief);
        break;
    case ACT_CHECK:
        health_check(&shell->health);
        break;
    case ACT_MEASURE:
        netcheck_measure(&shell->netcheck, action->measure);
        break;
    case ACT_CONNECT:
        peers_connect(shell->cluster.peers, &shell->cluster.chief);
        break;
    case ACT_SEND:
        peers_send(shell->cluster.peers, action->peer.conn, action->peer.msg);
        break;
    case ACT_CLOSE:
        peers_close(shell->cluster.peers, action->peer.conn);
        break;
    case ACT_NOTICE:
        procs_notice(shell->attach.procs, action->notice.text, action->notice.deadline_ns);
        break;
    case ACT_COMMITTED:
        record_committed(&shell->record, action->step, action->whole);
        procs_scratch_clear(shell->attach.procs);
        break;
    case ACT_EXIT:
        act_exit(shell, action);
        break;
    case ACT_TAKE: /* of a spare alone */
    case ACT_LOG:
    case ACT_MARK:
    case ACT_STATE:
    case ACT__COUNT:
        break;
    }
}

/* Marks the files that change with the action. Heartbeats cause none of these actions. */
static void touch_files(struct shell *shell, const struct action *action)
{
    bool is_start = action->type == ACT_START;
    bool is_attached = action->type == ACT_PROC_SEND && action->proc.msg->type == PROCMSG_WELCOME;
    bool changes_report =
        action->type == ACT_STATE || action->type == ACT_GATE || action->type == ACT_COMMITTED;
    if (is_start)
        metrics_run(&shell->metrics, true);
    if (changes_report || is_attached)
        outfile_touch(&shell->report.out);
    if (changes_report || is_start || is_attached)
        outfile_touch(&shell->metrics.out);
}

static void act(void *ctx, const struct action *action)
{
    struct shell *shell = ctx;
    if (action->type == ACT_LOG) {
        if (!may_log(shell, action))
            return;
        log_line((enum log_level)action->log.level, action->log.topic, "%s", action->log.text);
    }
    perform(shell, action);
    touch_files(shell, action);
    journal_take(&shell->journal, action);
    markfile_take(&shell->markfile, action);
}

/* --- the run --- */

void shell_begin(void)
{
    signals_begin();
}

struct shell_end shell_end_unstarted(const struct err *err)
{
    struct shell_end end = {.code = EXIT_OWN_ERROR, .level = LOG_ERROR};
    word_end(&end, OUTCOME_NOT_STARTED, err->text);
    return end;
}

int shell_finish(const struct shell_end *end)
{
    if (end->text[0])
        log_line((enum log_level)end->level, "end", "%s", end->text);
    if (end->signal)
        signals_die_of(end->signal);
    return end->code;
}

static void run_hook(struct shell *shell)
{
    struct core_report report;
    char hosts[HOSTS_MAX];
    report_read(&shell->report, &report);
    struct env_end facts = {.job = shell->params.job,
                            .outcome = verdict_name(shell->outcome),
                            .exit_code = shell->end->code,
                            .node_rank = shell->params.node_rank,
                            .nnodes = shell->params.nnodes,
                            .cause_node = report.first_cause.fault ? report.first_cause.node : -1,
                            .attempt = report.attempt,
                            .unhealthy_hosts = strikes_hosts(&shell->record.history.strikes,
                                                             clock_real_ns() - STRIKES_KEPT_NS,
                                                             hosts, sizeof hosts),
                            .commit_step = report.commit_step,
                            .commit_path = record_known_path(&shell->record, report.commit_step),
                            .notice_source = report.notice.label.source,
                            .notice_id = report.notice.label.id};
    int64_t deadline = report.notice.is_live ? report.notice.deadline : CLOCK_NEVER;
    shell->wants_hook = false;
    spawn_let_go(); /* an early end comes before the other call; every hook inherits the same
                     * descriptors */
    hook_run(&shell->hook, &facts, deadline, kept_back(&report));
    outfile_touch(&shell->report.out);
}

/* After each event of the core. */
static void on_settled(void *ctx)
{
    struct shell *shell = ctx;
    drill_watch(&shell->drill);
    if (shell->loop.is_over)
        return;
    journal_settle(&shell->journal);
    outfile_flush(&shell->metrics.out);
}

/* After each iteration of the loop. */
static void settle_turn(struct shell *shell)
{
    if (shell->wants_hook && !record_is_busy(&shell->record))
        run_hook(shell);
    if (shell->loop.has_changed)
        outfile_touch(&shell->report.out);
    shell->loop.has_changed = false;
    outfile_flush(&shell->report.out);
}

static bool run_loop(struct shell *shell, struct err *err)
{
    for (settle_turn(shell); !shell_is_done(shell); settle_turn(shell))
        if (!watch_turn(shell->loop.base))
            return err_set(err, ERR_SYSTEM, errno, "the event loop has failed");
    return true;
}

/* The job's own processes have ended. A source, the hook or a health check may have left behind
 * processes in a session of their own. pchrun kills those that still run, and does not wait for
 * their end. */
static void shell_sweep(struct shell *shell)
{
    struct action kill = {.type = ACT_SIGNAL, .signal = {SIGKILL, TARGET_TREE}};
    bool may_have_left = shell->inbox.count > 0 || shell->hook.has_run || shell->health.has_run;
    if (may_have_left && shell->params.leftovers == LEFTOVERS_KILL && !reap_is_empty(&shell->reap))
        children_signal(&shell->children, &kill);
}

static void say_next(const struct shell *shell)
{
    char text[PATH_MAX + 128];
    if (*report_say_next(&shell->report, text, sizeof text))
        log_notice("next", "%s", text);
}

/* Without an event loop pchrun cannot keep its promises, so it kills the job. */
static void shell_give_up(struct shell *shell, const struct err *err)
{
    struct action kill = {.type = ACT_SIGNAL, .signal = {SIGKILL, TARGET_TREE}};
    *shell->end = (struct shell_end){.code = EXIT_OWN_ERROR, .level = LOG_ERROR};
    word_end(shell->end, OUTCOME_FAILED, err->text);
    children_signal(&shell->children, &kill);
}

/* Nothing has been started. A signal that came meanwhile ends pchrun as usual, and is the reason:
 * what failed after it was only to tell the other nodes. */
static void shell_fail(struct shell *shell, struct err *err)
{
    int number = shell->takeover.signal;
    if (!number) {
        config_explain(shell->config, err->text, sizeof err->text);
        *shell->end = shell_end_unstarted(err);
        return;
    }
    const char *why = shell->takeover.why.text;
    bool is_preempted = shell->params.signals[number].rule == SIGNAL_PREEMPT;
    shell->end->level = LOG_NOTICE;
    shell->end->code = is_preempted ? shell->params.exit.preempted : EXIT_BY_SIGNAL + number;
    shell->end->signal = is_preempted ? 0 : number;
    if (!str_is(err->text, why))
        log_warn("start", "the other nodes cannot be told: %s", err->text);
    word_end(shell->end, is_preempted ? OUTCOME_PREEMPTED : OUTCOME_INTERRUPTED, why);
    str_addf(shell->end->text, sizeof shell->end->text, "; nothing was started");
}

/* Otherwise the other nodes would wait for this one until cluster.join_timeout. */
static void tell_others(const struct shell *shell, const struct err *why)
{
    sigset_t end;
    takeover_ends(&shell->params, &end);
    brief_tell_failure(shell->config, &end, why);
}

struct shell_end shell_run(struct config *config, unsigned closed)
{
    static struct shell
        shell; /* static: it is large, and the kernel zeroes only the pages in use */
    struct shell_end end = {.code = EXIT_OWN_ERROR};
    struct err err;
    if (shell.config) /* this pchrun has stood by since its last run */
        shell = (struct shell){0};
    shell.config = config;
    shell.closed = closed;
    shell.loop = (struct loop){.act = act, .settled = on_settled, .ctx = &shell};
    shell.end = &end;
    shell.cluster.on_standby = shell_on_standby;
    shell.cluster.standby_ctx = &shell;
    bool is_open = shell_open_parts(&shell, &err);
    if (is_open && run_loop(&shell, &err)) {
        shell_sweep(&shell);
        if (!end.stands_by)
            say_next(&shell);
    } else if (shell.has_started) {
        shell_give_up(&shell, &err);
    } else {
        shell_fail(&shell, &err);
    }
    bool is_untold = !is_open && !shell.has_started && !shell.takeover.signal;
    shell_free_parts(&shell); /* the state directory and the port are free now */
    if (is_untold)
        tell_others(&shell, &err);
    return end;
}
