/* SPDX-License-Identifier: Apache-2.0
 * See jobs.h.
 */
#include "commands/jobs.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/sigtext.h"
#include "core/common/verdict.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

static bool is_forwarded(const struct jobs *jobs, int number)
{
    return jobs->children->params->signals[number].rule == SIGNAL_FORWARD;
}

/* --- the terminal --- */

/* True if pchrun's group is a shell's job: a process of it has a parent in the same session but in
 * another group. Otherwise the group is orphaned, and no shell would continue a stopped process.
 * Checks only pchrun and its ancestors. */
static bool is_job(void)
{
    enum { DEPTH_MAX = 64 };
    struct proc us, above;
    if (getpid() == 1 || getsid(0) == getpid() || !proc_read(getpid(), &us))
        return false;
    pid_t pid = us.ppid;
    for (int depth = 0; depth < DEPTH_MAX && pid > 0 && proc_read(pid, &above); depth++) {
        if (above.sid != us.sid)
            return false;
        if (above.pgid != us.pgid)
            return true;
        pid = above.ppid;
    }
    return false;
}

/* False if a script leads pchrun's group, or if pchrun is in a pipeline (0 or 1 is no terminal). */
static bool is_alone(void)
{
    return getpgrp() == getpid() && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

static bool is_foreground(const struct jobs *jobs, pid_t group)
{
    return jobs->tty >= 0 && group > 0 && tcgetpgrp(jobs->tty) == group;
}

/* Gives `group` the terminal if that group or pchrun's is in the foreground. */
static bool jobs_lend(struct jobs *jobs, pid_t group)
{
    if (!is_foreground(jobs, group) &&
        (!is_foreground(jobs, getpgrp()) || tcsetpgrp(jobs->tty, group) != 0))
        return false;
    jobs->lent_to = group;
    return true;
}

/* Takes the terminal back if the group that pchrun gave it to still has it. */
static void jobs_take_back(struct jobs *jobs)
{
    if (jobs->lent_to && is_foreground(jobs, jobs->lent_to) && tcsetpgrp(jobs->tty, getpgrp()) == 0)
        jobs->lent_to = 0;
}

/* --- stopping and going on --- */

static void jobs_go_on(struct jobs *jobs, pid_t group)
{
    jobs->expects_cont = true;
    if (jobs->is_lender)
        jobs_lend(jobs, group);
    children_signal_groups(jobs->children, SIGCONT);
}

static void stop_with(struct jobs *jobs, pid_t group, bool had_tty)
{
    jobs_take_back(jobs);
    proc_stop_us(had_tty);
    jobs_go_on(jobs, group);
}

static void on_stop(void *ctx, pid_t group, int number)
{
    struct jobs *jobs = ctx;
    bool had_tty = is_foreground(jobs, group);
    bool is_key = number == SIGTSTP || number == SIGTTIN || number == SIGTTOU;
    bool wants_tty = number == SIGTTIN || number == SIGTTOU;
    if (wants_tty && jobs_lend(jobs, group))
        proc_kill_group(group, SIGCONT);
    else if (jobs->has_shell && (had_tty || is_key))
        stop_with(jobs, group, had_tty);
    else if (had_tty && number == SIGTSTP)
        proc_kill_group(group, SIGCONT); /* Ctrl-Z, but no shell could continue the command */
    else
        log_info("stop", "the process group %d was stopped by %s", (int)group, SIGTEXT(number));
}

/* The commands had the terminal, so the key that ended them sent pchrun no signal. The core must
 * know that the user pressed that key. */
static void tell_key(struct jobs *jobs, int number)
{
    bool is_key = number == SIGINT || number == SIGQUIT;
    if (is_key && is_forwarded(jobs, number))
        loop_post(jobs->children->loop,
                  &(struct event){.type = EV_SIGNAL,
                                  .signal = {.number = number, .from = SIGNAL_FROM_TERMINAL}});
}

static void jobs_on_end(void *ctx, pid_t group, int status)
{
    struct jobs *jobs = ctx;
    if (jobs->lent_to != group)
        return;
    if (is_foreground(jobs, group))
        tell_key(jobs, verdict_signal_of(status));
    jobs_take_back(jobs);
}

/* --- signals --- */

static void on_cont(struct jobs *jobs, const struct signals_info *info)
{
    if (!jobs->expects_cont && info->from == SIGNAL_FROM_OUTSIDE)
        children_signal_groups(jobs->children, SIGCONT);
    jobs->expects_cont = false;
}

static void on_tstp(struct jobs *jobs, const struct signals_info *info)
{
    /* Ctrl-Z without a shell that could continue the job: the kernel would ignore it, too. */
    bool is_idle_key = info->from == SIGNAL_FROM_TERMINAL && !jobs->has_shell;
    pid_t command;
    if (is_idle_key || info->from == SIGNAL_FROM_JOB)
        return;
    if (children_pids(jobs->children, &command, 1) > 0) {
        children_signal_groups(jobs->children, info->number); /* pchrun stops after the commands */
    } else if (jobs->has_shell && info->number == SIGTSTP) {
        jobs->expects_cont = true;
        proc_stop_us(false);
    }
}

bool jobs_signal(struct jobs *jobs, const struct signals_info *info)
{
    /* pchrun caused the signal: it signalled its own group, or a write failed (SIGXFSZ). */
    if (info->sender == getpid())
        return true;
    switch (info->number) {
    case SIGCONT:
        on_cont(jobs, info);
        return true;
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:
        on_tstp(jobs, info);
        return true;
    case SIGWINCH:
        if (info->from != SIGNAL_FROM_TERMINAL)
            return false;
        children_signal_groups(jobs->children, SIGWINCH);
        return true;
    default:
        /* A key signals pchrun's group but not the commands' groups. The event tells the core that
         * the commands have the signal. */
        if (info->from == SIGNAL_FROM_TERMINAL && is_forwarded(jobs, info->number))
            children_signal_groups(jobs->children, info->number);
        return false;
    }
}

/* --- beginning and end --- */

void jobs_init(struct jobs *jobs, struct children *children)
{
    const struct core_params *params = children->params;
    *jobs =
        (struct jobs){.children = children, .tty = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)};
    jobs->has_shell = jobs->tty >= 0 && is_job();
    /* pchrun needs the keys itself if they are a notice, or if Ctrl-C must prevent a restart. */
    jobs->is_lender = params->restart.max == 0 && jobs->tty >= 0 && is_alone() &&
                      params->children == 1 && !children->config->procs.new_session &&
                      is_forwarded(jobs, SIGINT) && is_forwarded(jobs, SIGQUIT);
    children->on_stop = on_stop;
    children->on_end = jobs_on_end;
    children->ctx = jobs;
}

void jobs_start(struct jobs *jobs, const struct action *action)
{
    bool lends = jobs->is_lender && is_foreground(jobs, getpgrp());
    children_start(jobs->children, action, lends ? jobs->tty : -1);
    if (lends) /* the child took the terminal, between fork and exec */
        children_pids(jobs->children, &jobs->lent_to, 1);
}

void jobs_free(struct jobs *jobs)
{
    jobs_take_back(jobs);
    fd_close(&jobs->tty);
}
