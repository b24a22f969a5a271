/* SPDX-License-Identifier: Apache-2.0
 *
 * pchrun: starts a training command and makes it survive preemption. See pchrun(1).
 *
 * This file has the first steps of the program, the configuration, the run, and the only exit.
 */
#include "base/fd.h"
#include "base/log.h"
#include "config/config.h"
#include "doctor/doctor.h"
#include "peers/noderank.h"
#include "run/shell.h"
#include "run/standby.h"
#include "status/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { EXIT_CANNOT_RUN = 125 };

static void begin_log(const struct config *config)
{
    bool is_alone = config->cluster.nnodes == 1;
    log_init(&(struct log_options){.level = (enum log_level)config->log.level,
                                   .format = (enum log_format)config->log.format,
                                   .node_rank = is_alone ? -1 : config->cluster.node_rank});
}

/* Logs the discovered settings, which the user did not give. */
static void tell_found(const struct config *config)
{
    const struct discovery *found = &config->found;
    if (found->warning[0])
        log_warn("nodes", "%s", found->warning);
    if (found->from != DISCOVER_NONE && config->cluster.nnodes > 1)
        log_info("nodes",
                 "%s: %s%s%s (if each pchrun is a job of its own: --cluster-discovery none)",
                 discover_names[found->from], found->nnodes_why,
                 found->nnodes_why[0] && found->node_rank_why[0] ? ", " : "", found->node_rank_why);
}

/* Stands by under this number. True: this pchrun is a node from now on, also in the log. */
static bool stand_by(struct config *config, int number, struct shell_end *ret_end)
{
    config->cluster.node_rank = number;
    begin_log(config);
    if (!standby_run(config, ret_end))
        return false;
    begin_log(config);
    return true;
}

/* A spare begins the job when node 0 gives it a place. A spare or a node that finds its place taken
 * stands by again, under the number that it was started with. */
static struct shell_end run_job(struct config *config, unsigned closed)
{
    struct shell_end end = {.stands_by = config_is_spare(config)};
    int number = config->cluster.node_rank;
    do {
        if (end.stands_by && !stand_by(config, number, &end))
            return end;
        end = shell_run(config, closed);
    } while (end.stands_by);
    return end;
}

/* Begins the log twice, because the node rank may be unknown at first. */
static struct shell_end run(struct config *config, unsigned closed)
{
    struct err err;
    begin_log(config);
    if (!noderank_settle(config, &err))
        return shell_end_unstarted(&err);
    begin_log(config);
    if (config->is_doctor) {
        int code = doctor_run(config, stdout, &err);
        return code < 0 ? shell_end_unstarted(&err) : (struct shell_end){.code = code};
    }
    tell_found(config);
    return run_job(config, closed);
}

/* For a user who tries "pchrun" alone. */
static const char what_to_type[] =
    "pchrun runs a training command so that it survives preemption. Type:\n"
    "  pchrun --checkpoint-dir run7 -n 8 -- python train.py         start 8 ranks\n"
    "  pchrun --checkpoint-dir run7 --drill 30s -- python train.py  try a preemption\n"
    "  pchrun --help                            options; man pchrun has more\n";

static struct shell_end load_and_run(char **argv)
{
    struct shell_end end = {.code = EXIT_CANNOT_RUN};
    struct config config;
    struct err err;
    unsigned closed;
    if (!fd_fill_standard(&closed, &err))
        return shell_end_unstarted(&err);
    switch (config_load(argv, environ, stdout, &config, &err)) {
    case ARGS_RUN:
        end = run(&config, closed);
        report_last_line(config.termination_log, end.text);
        config_free(&config);
        break;
    case ARGS_SHOWN:
        end.code = EXIT_SUCCESS;
        break;
    case ARGS_BAD:
        if (argv[0] && !argv[1] && isatty(STDERR_FILENO))
            fputs(what_to_type, stderr);
        else
            log_error(NULL, "%s", err.text);
        report_last_line(REPORT_TERMINATION_LOG, err.text);
        break;
    }
    return end;
}

int main(int argc, char **argv)
{
    shell_begin();
    struct shell_end end = load_and_run(argv);
    return shell_finish(&end);
}
