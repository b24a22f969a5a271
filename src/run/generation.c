/* SPDX-License-Identifier: Apache-2.0
 * See generation.h.
 */
#include "run/generation.h"

#include "base/clock.h"
#include "base/log.h"
#include "os/spawn.h"
#include "peers/rendezvous.h"

/* The delay of on_tidying(): until then its work would slow down the start of the commands. */
#define TIDY_AFTER_NS (100 * NS_PER_MS)
/* How often the start checks whether a dead pchrun's processes have ended. */
#define SWEEP_LOOK_NS (2 * NS_PER_MS)

/* With -n each command is a rank. Otherwise the ranks of this node are not known yet. */
static bool can_resume(struct generation *generation, struct err *err)
{
    const struct core_params *params = generation->params;
    if (params->expected_procs == 0)
        return true;
    if (!generation->config->procs.count_is_set)
        return record_check_rank(generation->record, RECORD_ANY_RANK, err);
    bool ok = true;
    for (int i = 0; ok && i < params->children; i++)
        ok = record_check_rank(generation->record, params->node_rank * params->children + i, err);
    return ok;
}

static void generation_start(struct generation *generation, const struct action *action)
{
    struct err err;
    record_begin(generation->record, action->start.attempt, action->start.resume_step);
    if (!can_resume(generation, &err)) {
        log_error("record", "%s", err.text);
        children_refuse(generation->children, &err);
        return;
    }
    jobs_start(generation->jobs, action);
    drill_start(generation->drill);
    watch_at(&generation->tidying, clock_now_ns() + TIDY_AFTER_NS);
}

/* --- the processes of a dead pchrun --- */

static void tell_swept(const struct generation *generation, const struct cgroup_left *left,
                       int64_t took_ns)
{
    int took_ms = (int)(took_ns / NS_PER_MS);
    if (left->groups)
        log_warn("start",
                 "killed what a dead pchrun had left running: %s; after %d ms these still run: %s; "
                 "they may hold memory and ports; the commands start nevertheless",
                 generation->swept.text, took_ms, left->text[0] ? left->text : "some that end");
    else if (generation->swept.text[0])
        log_warn("start", "killed what a dead pchrun had left running: %s; they ended in %d ms",
                 generation->swept.text, took_ms);
}

/* The processes of a dead pchrun hold memory and ports that the commands need. True: they have
 * ended, or have had kill_wait to do so. */
static bool is_swept(struct generation *generation)
{
    struct cgroup_left left;
    cgroup_sweep(&generation->children->cgroup, &left);
    if (left.groups == 0 && !left.text[0] && !generation->swept_from)
        return true;
    int64_t now = clock_now_ns();
    if (!generation->swept_from) {
        generation->swept_from = now;
        generation->swept = left;
    }
    int64_t took = now - generation->swept_from;
    if (left.groups && took < generation->params->kill_wait_ns)
        return false;
    tell_swept(generation, &left, took);
    return true;
}

static void start_swept(struct generation *generation)
{
    if (is_swept(generation))
        generation_start(generation, &generation->to_start);
    else
        watch_at(&generation->starting, clock_now_ns() + SWEEP_LOOK_NS);
}

/* --- the start --- */

/* pchrun may still be reaping the last command before a restart: start the next generation later.
 */
void generation_act(struct generation *generation, const struct action *action)
{
    if (action->type == ACT_PORT) {
        *action->port = rendezvous_pick(generation->config);
        return;
    }
    generation->to_start = *action;
    if (action->start.generation > 0) {
        watch_at(&generation->starting, clock_now_ns());
        return;
    }
    children_begin_group(generation->children);
    start_swept(generation);
}

static void on_starting(void *ctx)
{
    struct generation *generation = ctx;
    struct err err;
    if (generation->to_start.start.generation == 0) {
        start_swept(generation);
    } else if (procs_mend(generation->attach->procs, &err)) {
        children_begin_group(generation->children);
        generation_start(generation, &generation->to_start);
    } else {
        log_error("start", "%s", err.text);
        children_refuse(generation->children, &err);
    }
}

/* Does the work of a start that no process waits for. */
static void on_tidying(void *ctx)
{
    struct generation *generation = ctx;
    children_watch(generation->children);
    const struct restart_policy *restart = &generation->params->restart;
    if (restart->max == 0 && !restart->after_notice) /* a restart inherits from pchrun again */
        spawn_let_go();
    procs_clean(generation->attach->procs);
}

void generation_open(struct generation *generation, struct event_base *base)
{
    watch_init(&generation->tidying, base, on_tidying, generation);
    watch_init(&generation->starting, base, on_starting, generation);
}

void generation_free(struct generation *generation)
{
    watch_end(&generation->tidying);
    watch_end(&generation->starting);
}
