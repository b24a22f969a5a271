/* SPDX-License-Identifier: Apache-2.0
 * See children.h.
 */
#include "commands/children.h"

#include "base/address.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/sigtext.h"
#include "base/str.h"
#include "commands/env.h"
#include "core/common/gaveup.h"
#include "os/cpus.h"
#include "peers/rendezvous.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* The time limit of an exec. A dead file system blocks exec for ever; a slow one answers sooner. */
#define EXEC_WAIT_NS (120 * NS_PER_S)

enum child_phase {
    CHILD_PHASE_NONE,
    CHILD_PHASE_STARTING, /* forked; the result of exec is not known */
    CHILD_PHASE_RUNNING,
    CHILD_PHASE_FAILED,   /* exec failed; reported when the child has ended */
    CHILD_PHASE_GIVEN_UP, /* exec took too long; reported */
    CHILD_PHASE_ENDED,
};

struct child {
    struct children *children;
    int index;
    enum child_phase phase;
    struct reap_watch watch;       /* pid 0: reaped */
    struct deaths_inquest inquest; /* keeps the findings while EV_CHILD_EXITED is queued */
    int report;
    struct watch exec_wait;
    struct err failure;
};

static void children_on_change(void *ctx, enum reap_what what, int status);
static void on_found_out(void *ctx, struct death *death);

bool children_init(struct children *children, const struct config *config,
                   const struct core_params *params, unsigned closed, struct err *err)
{
    children->config = config;
    children->params = params;
    children->closed = closed;
    children->count = params->children;
    children->is_empty = true;
    if (config->instrument && !(children->python_path = env_python_path(getenv("PYTHONPATH"), err)))
        return false;
    children->list = calloc((size_t)children->count + 1, sizeof *children->list);
    if (!children->list)
        return err_set(err, ERR_SYSTEM, ENOMEM, "cannot start");
    for (int i = 0; i < children->count; i++) {
        struct child *child = &children->list[i];
        *child = (struct child){.children = children, .index = i, .report = -1};
        child->inquest = (struct deaths_inquest){.index = i, .fn = on_found_out, .ctx = child};
        child->watch =
            (struct reap_watch){.kind = REAP_CHILD, .fn = children_on_change, .ctx = child};
    }
    return true;
}

static void end_report(struct child *child)
{
    watch_end(&child->exec_wait);
    fd_close(&child->report);
}

void children_free(struct children *children)
{
    for (int i = 0; children->list && i < children->count; i++) {
        end_report(&children->list[i]);
        deaths_close(&children->list[i].inquest);
        reap_forget(children->reap, &children->list[i].watch); /* SIGKILL may not have ended the
                                                                * child */
    }
    cgroup_end(&children->cgroup);
    free(children->list);
    free(children->shares);
    free(children->python_path);
    *children = (struct children){0};
}

/* --- starting --- */

static void children_post(struct child *child, enum event_type type, const struct err *err)
{
    loop_post(
        child->children->loop,
        &(struct event){.type = type,
                        .child = {.index = child->index, .pid = child->watch.pid, .err = err}});
}

/* Reads the outcome of exec, if known. If exec failed, the child ends at once, and its end tells
 * the core. */
static void read_report(struct child *child)
{
    if (child->phase != CHILD_PHASE_STARTING)
        return;
    enum spawn_result result =
        spawn_result(child->report, child->children->config->command[0], &child->failure);
    if (result == SPAWN_PENDING)
        return;
    child->phase = result == SPAWN_FAILED ? CHILD_PHASE_FAILED : CHILD_PHASE_RUNNING;
    end_report(child);
}

/* Without an outcome of exec, reports the failure now: a child that hangs in exec may never end. */
static void on_exec_wait(void *ctx)
{
    struct child *child = ctx;
    struct err err;
    read_report(child);
    if (child->phase != CHILD_PHASE_STARTING)
        return;
    err_set(&err, ERR_NOT_EXEC, 0,
            "cannot execute '%s': it has not begun to run in %d s; is its file system reachable?",
            child->children->config->command[0], (int)(EXEC_WAIT_NS / NS_PER_S));
    child->phase = CHILD_PHASE_GIVEN_UP;
    end_report(child);
    proc_kill(child->watch.pid, SIGKILL);
    children_post(child, EV_CHILD_FAILED, &err);
}

static bool start_one(struct child *child, const struct action *action, int tty, struct err *err)
{
    struct children *children = child->children;
    const struct core_params *params = children->params;
    char error_file[PATH_MAX], traces[PATH_MAX], master[ADDRESS_HOST_MAX];
    uint16_t port = action->start.port;
    int rank = env_rank(params, child->index);
    int64_t started = clock_real_ns();
    struct env_facts facts = {
        .params = params,
        .start = action,
        .index = child->index,
        .with_ranks = children->config->procs.count_is_set,
        .socket = procs_run_dir(children->attach->procs)->addr.sun_path,
        .resume_path = record_path(children->record, rank, action->start.resume_step),
        .error_file = deaths_file(&children->deaths, child->index, action->start.generation,
                                  error_file, sizeof error_file),
        .python_path = children->python_path,
        .checkpoint_dir = children->config->checkpoint.dir,
        .master_addr = rendezvous_address(children->config, port, master, sizeof master),
        .master_port = rendezvous_port(port),
        .traces = logs_traces(children->logs, traces, sizeof traces),
        .shutdown_s = env_shutdown_s(children->config),
    };
    struct env env;
    if (!env_build(&env, environ, &facts, err))
        return false;
    struct spawn_request request = {.argv = children->config->command,
                                    .path = getenv("PATH"),
                                    .env = env.list,
                                    .own_pid = env.own_pid,
                                    .new_session = children->config->procs.new_session,
                                    .cgroup = children->cgroup.dir,
                                    .closed = children->closed,
                                    .tty = tty,
                                    .cpus =
                                        children->shares ? &children->shares[child->index] : NULL};
    logs_output(children->logs, child->index, &request.streams[STDOUT_FILENO]);
    child->watch.pid = spawn_start(&request, &child->report, err);
    env_free(&env);
    if (!child->watch.pid)
        return false;
    child->phase = CHILD_PHASE_STARTING;
    child->inquest.generation = action->start.generation;
    child->inquest.started = started;
    children->is_empty = false;
    reap_watch(children->reap, &child->watch);
    return true;
}

/* Containers and login sessions usually allow no control group. Then pchrun finds the job's
 * processes by their parents in /proc. */
void children_begin_group(struct children *children)
{
    struct err err;
    bool is_wanted = children->config->stop.cgroup == CONFIG_CGROUP_AUTO &&
                     children->params->leftovers == LEFTOVERS_KILL;
    /* A control group that was killed once may kill later members, too. So each generation gets a
     * new one; the old one is empty by now. */
    cgroup_end(&children->cgroup);
    if (is_wanted && !cgroup_begin(&children->cgroup, &err))
        log_debug("start", "%s", err.text);
}

/* Computes the shares only once: every start uses the same. */
static void share_cpus(struct children *children)
{
    struct err err;
    struct cpus allowed;
    bool is_wanted = children->config->procs.cpus == CONFIG_CPUS_SPREAD;
    if (!is_wanted || children->count < 2 || children->shares)
        return;
    children->shares = calloc((size_t)children->count, sizeof *children->shares);
    if (children->shares && cpus_allowed(&allowed, &err) &&
        cpus_split(&allowed, "", children->count, children->shares, &err))
        return;
    log_warn("start", "procs.cpus: %s; each command may use all processors of pchrun",
             children->shares ? err.text : "no memory");
    free(children->shares);
    children->shares = NULL;
}

void children_start(struct children *children, const struct action *action, int tty)
{
    struct err err;
    deaths_begin(&children->deaths);
    share_cpus(children);
    if (children->config->procs.close_fds)
        fd_range(3, FD_RANGE_CLOSE_INHERITED, NULL, 0);
    if (!logs_begin(children->logs, action->start.attempt, action->start.generation, &err)) {
        children_refuse(children, &err);
        return;
    }
    logsteps_begin(&children->attach->printed);
    for (int i = 0; i < children->count; i++) {
        struct child *child = &children->list[i];
        bool ok = start_one(child, action, tty, &err);
        logsteps_started(&children->attach->printed, i, child->watch.pid);
        children_post(child, ok ? EV_CHILD_STARTED : EV_CHILD_FAILED, ok ? NULL : &err);
    }
    logs_begun(children->logs);
    children->loop->has_changed = true; /* the report lists the commands */
}

void children_watch(struct children *children)
{
    for (int i = 0; i < children->count; i++) {
        struct child *child = &children->list[i];
        read_report(child);
        if (child->phase == CHILD_PHASE_STARTING) {
            watch_init(&child->exec_wait, children->loop->base, on_exec_wait, child);
            watch_at(&child->exec_wait, clock_now_ns() + EXEC_WAIT_NS);
        }
        if (child->watch.pid)
            deaths_watch(&children->deaths, child->watch.pid);
    }
}

void children_refuse(struct children *children, const struct err *err)
{
    for (int i = 0; i < children->count; i++)
        children_post(&children->list[i], EV_CHILD_FAILED, err);
}

/* The control group answers if /proc does not. */
static bool is_all_gone(const struct children *children)
{
    pid_t one;
    return reap_is_empty(children->reap) || (children_pids(children, &one, 1) == 0 &&
                                             cgroup_is_empty(&children->cgroup) && !proc_is_ours());
}

static void post_empty(struct children *children)
{
    if (children->python_path && !children->attach->has_attached)
        log_notice("instrument", "no process has finished an optimizer step or begun a fit that "
                                 "pchrun knows; so no process takes part");
    children->is_empty = true;
    loop_post(children->loop, &(struct event){.type = EV_TREE_EMPTY});
}

/* --- signals --- */

/* The process groups of the commands that are not reaped yet. A command with its own session leads
 * no group before its exec. */
static struct tree_job tree_job(struct children *children)
{
    struct tree_job job = {.groups = children->groups, .helpers = children->helpers};
    for (int i = 0; i < children->count; i++) {
        struct child *child = &children->list[i];
        read_report(child);
        bool leads = !children->config->procs.new_session || child->phase >= CHILD_PHASE_RUNNING;
        if (child->watch.pid && leads)
            children->groups[job.ngroups++] = child->watch.pid;
    }
    job.nhelpers = reap_helpers(children->reap, children->helpers, CHILDREN_HELPERS_MAX);
    job.cgroup = &children->cgroup;
    return job;
}

/* True if the command is stopped and needs SIGCONT to act on the signal: a notice or SIGTERM. A
 * running process must not get SIGCONT. */
static bool has_to_wake(const struct children *children, pid_t pid, int number)
{
    struct proc proc;
    const struct core_params *params = children->params;
    bool asks = params->signals[number].rule == SIGNAL_PREEMPT ||
                (params->save_mode == SAVE_SIGNAL && params->save_signal == number);
    return (asks || number == SIGTERM) && proc_read(pid, &proc) && proc.state == 'T';
}

/* Before its exec, a command with its own session leads no group: then signals only its process. */
static bool signal_command(const struct child *child, int number)
{
    bool is_for_all = child->children->config->procs.signal_group;
    return (is_for_all && proc_kill_group(child->watch.pid, number)) ||
           proc_kill(child->watch.pid, number);
}

static void signal_commands(struct children *children, int number)
{
    for (int i = 0; i < children->count; i++) {
        struct child *child = &children->list[i];
        pid_t pid = child->watch.pid;
        if (!pid || !signal_command(child, number) || !has_to_wake(children, pid, number))
            continue;
        if (!proc_kill_group(pid, SIGCONT))
            proc_kill(pid, SIGCONT);
    }
}

/* A stopped rank also gets SIGCONT, so that it can act on the signal. */
static bool signal_rank(const struct proc *rank, int number)
{
    bool is_sent = proc_signal(rank, number);
    if (is_sent && rank->state == 'T')
        proc_signal(rank, SIGCONT);
    return is_sent;
}

/* Returns how many ranks got the signal. */
static size_t signal_attached(const struct children *children, int number)
{
    struct core_rank_report ranks[CORE_SLOTS_MAX];
    int n = core_ranks(children->loop->core, ranks, CORE_SLOTS_MAX);
    struct proc proc;
    size_t sent = 0;
    for (int i = 0; i < n; i++) {
        bool is_rank = ranks[i].is_attached && !ranks[i].is_counting;
        sent += is_rank && proc_read(ranks[i].pid, &proc) && signal_rank(&proc, number);
    }
    return sent;
}

/* A command that has ended may not be reaped yet. */
static bool any_runs(const struct children *children)
{
    struct proc proc;
    for (int i = 0; i < children->count; i++)
        if (proc_read(children->list[i].watch.pid, &proc) && !proc_is_dead(&proc))
            return true;
    return false;
}

/* Signals the processes whose environment names a rank. If no command runs any more, signals the
 * processes that the commands left behind. */
static size_t signal_named(struct children *children, int number)
{
    struct tree_job job = tree_job(children);
    struct proc ranks[CORE_SLOTS_MAX];
    size_t n = tree_ranks(&job, ranks, CORE_SLOTS_MAX);
    if (n == 0 && !any_runs(children))
        n = tree_tops(&job, ranks, CORE_SLOTS_MAX);
    for (size_t i = 0; i < n && i < CORE_SLOTS_MAX; i++)
        signal_rank(&ranks[i], number);
    return n;
}

/* Prefer the attached ranks. The environment is less reliable: torch.multiprocessing does not set
 * the ranks' variables, and a launcher may have these variables itself. */
static void signal_ranks(struct children *children, int number)
{
    bool attaches = children->params->save_mode == SAVE_ATTACH;
    size_t n = attaches ? signal_attached(children, number) : 0;
    if (n == 0)
        n = signal_named(children, number);
    if (n == 0)
        signal_commands(children, number);
    else
        log_debug("signal", "%s sent to %zu ranks", SIGTEXT(number), n);
}

void children_signal(struct children *children, const struct action *action)
{
    int number = action->signal.number;
    if (number == SIGKILL)
        children->deaths.has_killed = true;
    switch (action->signal.target) {
    case TARGET_CHILDREN:
        signal_commands(children, number);
        break;
    case TARGET_RANKS:
        signal_ranks(children, number);
        break;
    case TARGET_TREE: {
        struct tree_job job = tree_job(children);
        if (number == SIGKILL) /* tree_signal() finds processes that left the group */
            cgroup_kill(&children->cgroup);
        tree_signal(&job, number);
        if (!children->is_empty && is_all_gone(children)) /* no later event would report it */
            post_empty(children);
        break;
    }
    }
}

void children_signal_groups(struct children *children, int number)
{
    struct tree_job job = tree_job(children);
    for (size_t i = 0; i < job.ngroups; i++)
        proc_kill_group(job.groups[i], number);
}

int children_pids(const struct children *children, pid_t *ret, int max)
{
    int n = 0;
    for (int i = 0; i < children->count && n < max; i++)
        if (children->list[i].watch.pid)
            ret[n++] = children->list[i].watch.pid;
    return n;
}

void children_scan(struct children *children, struct tree *ret)
{
    struct tree_job job = tree_job(children);
    tree_scan(ret, &job);
}

char *children_describe(struct children *children, char *text, size_t size)
{
    struct tree_job job = tree_job(children);
    return tree_describe(&job, text, size);
}

/* --- ends --- */

/* The wait for the last output, which may still be in the pipe. The log process reads it within
 * microseconds, but on a busy machine it may wait for a processor. */
#define TAIL_WAIT_NS (100 * NS_PER_MS)

/* A rank that gave up its wait for other ranks may say so on standard error alone, above a long
 * list of its functions. */
static void find_reason(const struct child *child, struct death *death)
{
    char text[LOGS_ERROR_MAX];
    logs_error_lines(child->children->logs, child->index, 0, text, sizeof text);
    if (gaveup_line(text, death->reason, sizeof death->reason))
        str_printable(death->reason);
}

static void on_found_out(void *ctx, struct death *death)
{
    struct child *child = ctx;
    if (death)
        logs_error_lines(child->children->logs, child->index, TAIL_WAIT_NS, death->tail,
                         sizeof death->tail);
    if (death && !death->reason[0])
        find_reason(child, death);
    logsteps_ended(&child->children->attach->printed, child->index);
    loop_post(child->children->loop, &(struct event){.type = EV_CHILD_EXITED,
                                                     .child = {.index = child->index,
                                                               .status = child->inquest.status,
                                                               .death = death}});
}

static void hold_inquest(struct child *child)
{
    if (child->inquest.status != 0) /* first read the messages that say why the command failed */
        procs_hear(child->children->attach->procs);
    deaths_close(&child->inquest);
    deaths_ask(&child->children->deaths, &child->inquest);
}

void children_on_attach(void *ctx, int pid)
{
    struct children *children = ctx;
    deaths_watch(&children->deaths, pid);
}

void children_on_death(void *ctx, int pid, int status)
{
    struct children *children = ctx;
    for (int i = 0; i < children->count; i++) {
        if (children->list[i].watch.pid != pid)
            continue;
        procs_hear(children->attach->procs);
        loop_post(children->loop,
                  &(struct event){.type = EV_CHILD_DYING, .child = {.index = i, .status = status}});
        return;
    }
}

/* Posts EV_TREE_EMPTY before EV_CHILD_EXITED of the last command, so the core does not signal an
 * empty tree. */
static void children_on_end(struct child *child, int status)
{
    struct children *children = child->children;
    child->inquest.pid = child->watch.pid;
    child->inquest.status = status;
    read_report(child);
    children->on_end(children->ctx, child->watch.pid, status);
    if (!children->is_empty && reap_is_last(children->reap, child->watch.pid))
        post_empty(children);
    if (child->phase == CHILD_PHASE_FAILED)
        children_post(child, EV_CHILD_FAILED, &child->failure);
    else if (child->phase != CHILD_PHASE_GIVEN_UP)
        hold_inquest(child);
    child->phase = CHILD_PHASE_ENDED;
    end_report(child);
}

static void children_on_change(void *ctx, enum reap_what what, int status)
{
    struct child *child = ctx;
    struct children *children = child->children;
    if (what == REAP_EXITED)
        children_on_end(child, status);
    else if (what == REAP_STOPPED)
        children->on_stop(children->ctx, child->watch.pid, WSTOPSIG(status));
}

void children_reap(struct children *children)
{
    reap_all(children->reap);
    if (!children->is_empty && is_all_gone(children))
        post_empty(children);
}
