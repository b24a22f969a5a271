/* SPDX-License-Identifier: Apache-2.0
 * See jobs.h.
 */
#include "commands/jobs.h"

#include "base/log.h"
#include "base/sigtext.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static bool is_forwarded(const struct jobs *jobs, int number)
{
    return jobs->params->signals[number].rule == SIGNAL_FORWARD;
}

/* --- stopping and going on --- */

static void jobs_go_on(struct jobs *jobs, pid_t group)
{
    jobs->expects_cont = true;
    if (jobs->is_lender)
        tty_lend(&jobs->tty, group);
    children_signal_groups(jobs->children, SIGCONT);
}

static void stop_with(struct jobs *jobs, pid_t group, bool had_tty)
{
    tty_take_back(&jobs->tty);
    tty_stop_us(had_tty);
    jobs_go_on(jobs, group);
}

static void on_stop(void *ctx, pid_t group, int number)
{
    struct jobs *jobs = ctx;
    bool had_tty = tty_is_foreground(&jobs->tty, group);
    bool is_key = number == SIGTSTP || number == SIGTTIN || number == SIGTTOU;
    bool wants_tty = number == SIGTTIN || number == SIGTTOU;
    if (wants_tty && tty_lend(&jobs->tty, group))
        proc_kill_group(group, SIGCONT);
    else if (jobs->tty.has_jobs && (had_tty || is_key))
        stop_with(jobs, group, had_tty);
    else if (had_tty && number == SIGTSTP)
        proc_kill_group(group, SIGCONT); /* Ctrl-Z, and no shell could continue it */
    else
        log_info("stop", "the process group %d was stopped by %s", (int)group, SIGTEXT(number));
}

/* The key that ended the commands did not signal pchrun, because they had the terminal. The core
 * must know that the user pressed it. */
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
    if (jobs->tty.lent_to != group)
        return;
    if (WIFSIGNALED(status) && tty_is_foreground(&jobs->tty, group))
        tell_key(jobs, WTERMSIG(status));
    tty_take_back(&jobs->tty);
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
    bool is_idle_key = info->from == SIGNAL_FROM_TERMINAL && !jobs->tty.has_jobs;
    pid_t command;
    if (is_idle_key || info->from == SIGNAL_FROM_JOB)
        return;
    if (children_pids(jobs->children, &command, 1) > 0) {
        children_signal_groups(jobs->children, info->number); /* pchrun stops when they do */
    } else if (jobs->tty.has_jobs && info->number == SIGTSTP) {
        jobs->expects_cont = true;
        tty_stop_us(false);
    }
}

bool jobs_signal(struct jobs *jobs, const struct signals_info *info)
{
    /* pchrun's own signals: to its group, or from its writes (SIGXFSZ). */
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
        /* A key signals pchrun's group but not the commands' groups. The core hears that the
         * commands have the signal. */
        if (info->from == SIGNAL_FROM_TERMINAL && is_forwarded(jobs, info->number))
            children_signal_groups(jobs->children, info->number);
        return false;
    }
}

/* --- beginning and end --- */

void jobs_init(struct jobs *jobs, struct children *children, const struct core_params *params)
{
    *jobs = (struct jobs){.children = children, .params = params};
    tty_open(&jobs->tty);
    /* pchrun needs the keys itself if they are a notice, or if Ctrl-C must prevent a restart. */
    jobs->is_lender = params->restart.max == 0 && jobs->tty.is_ours_alone &&
                      params->children == 1 && !children->config->procs.new_session &&
                      is_forwarded(jobs, SIGINT) && is_forwarded(jobs, SIGQUIT);
    children->on_stop = on_stop;
    children->on_end = jobs_on_end;
    children->ctx = jobs;
}

void jobs_start(struct jobs *jobs, const struct action *action)
{
    bool lends = jobs->is_lender && tty_is_foreground(&jobs->tty, getpgrp());
    children_start(jobs->children, action, lends ? jobs->tty.fd : -1);
    pid_t group = children_first_group(jobs->children);
    if (lends && group)
        jobs->tty.lent_to = group; /* the child took it, between fork and exec */
}

void jobs_free(struct jobs *jobs)
{
    tty_take_back(&jobs->tty);
    tty_close(&jobs->tty);
}
