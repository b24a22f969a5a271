/* SPDX-License-Identifier: Apache-2.0
 * See params.h.
 */
#include "run/params.h"

#include "base/clock.h"
#include "base/str.h"
#include "base/value.h"
#include "commands/evidence.h"
#include "config/values.h"
#include "health/health.h"
#include "peers/brief.h"
#include "peers/cluster.h"

#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

/* How long a rank that saved on its own waits for the others. They save at the same step. */
#define COMMIT_WAIT_NS (300 * NS_PER_S)

/* A damaged record must not make a save look longer than this. */
#define SAVE_MAX_NS (24 * 3600 * NS_PER_S)

/* A damaged record must not make the time that the job has run, or the number of its failures,
 * larger than this. */
#define RAN_MAX_NS   (10 * 366 * 24 * 3600 * NS_PER_S)
#define FAILURES_MAX 1000000

/* checkpoint.every auto: the shortest time keeps the cost of quick saves unnoticed. With the
 * longest a failure costs two hours at most, even if it is the first in months. A job whose record
 * shows how often it fails has wider bounds. */
#define EVERY_LEAST_NS (5 * 60 * NS_PER_S)
#define EVERY_MOST_NS  (2 * 3600 * NS_PER_S)
#define KNOWN_LEAST_NS (10 * NS_PER_S)
#define KNOWN_MOST_NS  (24 * 3600 * NS_PER_S)

/* A drill ends with its one notice, so it has no restarts, and waits for no node. */
static bool fill_restart(struct core_params *params, const struct config *config, struct err *err)
{
    params->restart = config->restart;
    if (config->drill_ns) {
        params->restart.max = 0;
        params->restart.after_notice = false;
    }
    return value_codes(config->fatal_codes, params->restart.is_fatal, err);
}

static int expected_procs(const struct config *config)
{
    if (config->procs.per_node >= 0)
        return config->procs.per_node;
    return config->procs.count_is_set ? config->procs.count : -1;
}

static bool fill_identity(struct core_params *params, const struct config *config, struct err *err)
{
    if (config->cluster.node_rank < 0)
        return err_set(err, ERR_USAGE, 0,
                       "cannot tell which of the %d nodes this one is; give it --node-rank",
                       config->cluster.nnodes);
    if (getrandom(&params->incarnation, sizeof params->incarnation, GRND_NONBLOCK) !=
        (ssize_t)sizeof params->incarnation)
        params->incarnation = (uint64_t)clock_real_ns() ^ (uint64_t)getpid();
    if (gethostname(params->host, sizeof params->host) != 0)
        str_copy(params->host, sizeof params->host, "unknown");
    params->host[sizeof params->host - 1] = '\0';
    str_copy(params->job, sizeof params->job, config->job);
    str_copy(params->identity, sizeof params->identity, config_job_identity(config));
    if (params->nnodes > 1 && !config_binding(config, params->settings, sizeof params->settings))
        return err_set(err, ERR_USAGE, 0,
                       "the settings that must be equal on all nodes are too long together");
    return true;
}

bool params_fill(struct core_params *params, const struct config *config, struct err *err)
{
    *params = (struct core_params){
        .node_rank = config->cluster.node_rank,
        .nnodes = config->cluster.nnodes,
        .spares = config->cluster.spares,
        .names = config->cluster.nodes[0] ? config->cluster.nodes : NULL,
        .children = config->procs.count,
        .expected_procs = expected_procs(config),
        .attempt = 1,
        .pid = getpid(),
        .grace_ns = config->grace_ns,
        .is_guess = config_is_guess(config, 0),
        .train_on = config->save.train_on,
        .save_mode = config->save.mode,
        .save_signal = config->save.signal,
        .needs = config->save.needs,
        .is_instrumented = config->instrument,
        .is_drill = config->drill_ns > 0,
        .signals_group = config->procs.signal_group,
        .every_steps = (uint64_t)config->checkpoint.every.steps,
        .every_ns = config->checkpoint.every.is_auto ? EVERY_LEAST_NS : config->checkpoint.every.ns,
        .every_most_ns = config->checkpoint.every.is_auto ? EVERY_MOST_NS : 0,
        .known_least_ns = KNOWN_LEAST_NS,
        .known_most_ns = KNOWN_MOST_NS,
        .join_timeout_ns = config->cluster.join_timeout_ns,
        .heartbeat_interval_ns = config->cluster.heartbeat_interval_ns,
        .heartbeat_timeout_ns = config->cluster.heartbeat_timeout_ns,
        .replace_wait_ns = config->drill_ns ? 0 : config->cluster.replace_wait_ns,
        .replace_max = config->cluster.replace_max,
        .tell_ns = BRIEF_TELL_NS,
        .reconnect_ns = CLUSTER_RECONNECT_NS,
        .exit_wait_ns = config->stop.exit_wait_ns,
        .term_wait_ns = config->stop.term_wait_ns,
        .kill_wait_ns = config->stop.kill_wait_ns,
        .commit_wait_ns = COMMIT_WAIT_NS,
        .leftovers = config->stop.leftovers,
        .watchdog = {.mode = config->watchdog.mode,
                     .limit_ns = {[PAGE_START] = config->watchdog.start_ns,
                                  [PAGE_TRAIN] = config->watchdog.train_ns,
                                  [PAGE_EVAL] = config->watchdog.eval_ns,
                                  [PAGE_COMPILE] = config->watchdog.compile_ns,
                                  [PAGE_SAVE] = config->watchdog.save_ns},
                     .factor = config->watchdog.factor,
                     .follows_timeout = !origin_is_given(config, "watchdog.train"),
                     .end_ns = config->watchdog.end_ns,
                     .silence_ns = config->watchdog.silence_ns,
                     .reads_steps = config->watchdog.log,
                     .evidence_ns = evidence_time(config)},
        .exit = config->exit.codes,
        .checks_health = health_is_wanted(config),
        .checks_net = config->health.net,
        .no_progress_limit = config->exit.no_progress_after,
    };
    for (int number = 0; number < CONFIG_SIGNALS; number++)
        params->signals[number] =
            (struct signal_plan){config->signals[number].rule, config_grace(config, number),
                                 config_is_guess(config, number)};
    return fill_restart(params, config, err) && fill_identity(params, config, err);
}

void params_of_dir(struct core_params *params, const struct config *config, const char *state_dir)
{
    params->has_record = state_dir;
    params->shares_saves = state_dir && config->checkpoint.shared && !config->state_dir;
    if (!state_dir) { /* only the scheduler can have counted the starts */
        params->attempt = (uint32_t)config->restarts + 1;
        params->attempts_without_commit = config->restarts;
    }
    if (state_dir && config->checkpoint.shared)
        snprintf(params->shared_dir, sizeof params->shared_dir, "%s directory, %.280s",
                 config->state_dir ? "state" : "checkpoint",
                 config->state_dir ? state_dir : config->checkpoint.dir);
}

void params_of_history(struct core_params *params, const struct history *history)
{
    params->attempt = (uint32_t)history->attempt;
    params->resume_step = history_last_step(history);
    params->save_ns = clock_min(history->save_ns, SAVE_MAX_NS);
    params->start_ns = clock_min(history->start_ns, SAVE_MAX_NS);
    params->end_ns = clock_min(history->end_ns, SAVE_MAX_NS);
    params->ran_ns = clock_min(history->ran_ns, RAN_MAX_NS);
    params->failures = (int)clock_min(history->failures, FAILURES_MAX);
    params->attempts_without_commit = (int)history->attempts_without_commit;
    params->attempts_without_step = (int)history->attempts_without_step;
}
