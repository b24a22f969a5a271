/* SPDX-License-Identifier: Apache-2.0
 * See health.h.
 */
#include "health/health.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "os/program.h"

#include <stdio.h>
#include <stdlib.h>

enum { TEXT_MAX = 64 * 1024, ILLNESS_MAX = 400 };

bool health_is_wanted(const struct config *config)
{
    return config->health.check;
}

/* "150ms" */
static char *took_text(const struct health *health, char *text, size_t size)
{
    return str_duration(health->took_ns / NS_PER_MS * NS_PER_MS, text, size);
}

/* The reason why the node must not train. "": it may. */
static void health_judge(const struct health *health, char *illness, size_t size)
{
    const struct health_answer *answer = &health->answer;
    char why[ILLNESS_MAX], took[32];
    healthline_describe(answer, why, sizeof why);
    took_text(health, took, sizeof took);
    illness[0] = '\0';
    if (answer->verdict == HEALTH_GOOD) {
        log_info("health", "'%s' says, after %s: this node is healthy", health->argv[0], took);
    } else if (answer->verdict == HEALTH_BAD) {
        snprintf(illness, size, "%s", why);
        log_error("health", "'%s' says, after %s: this node is not healthy: %s", health->argv[0],
                  took, why);
    } else if (health->config->health.strict) {
        snprintf(illness, size, "'%.100s' gives no answer (%.200s), and health.strict is set",
                 health->argv[0], why);
        log_error("health", "%s", illness);
    } else {
        log_warn("health",
                 "'%s' gives no answer: %s; so the health of this node is unknown, and the node "
                 "takes part (health.strict would hold it back)",
                 health->argv[0], why);
    }
}

static void health_tell(struct health *health)
{
    char illness[ILLNESS_MAX];
    health->took_ns = clock_now_ns() - health->started_at;
    health->phase = HEALTH_IDLE;
    health->is_over = true;
    watch_at(&health->clock, CLOCK_NEVER);
    health_judge(health, illness, sizeof illness);
    health->loop->has_changed = true;
    loop_post(health->loop,
              &(struct event){.type = EV_CHECKED, .illness = illness[0] ? illness : NULL});
}

static void health_give_up(struct health *health, const char *why)
{
    health->answer = (struct health_answer){.verdict = HEALTH_UNKNOWN};
    str_fit(health->answer.text, sizeof health->answer.text, why);
    health_tell(health);
}

/* Goes on by the clock: within this call the probe is still in use. */
static void health_on_answer(void *ctx)
{
    struct health *health = ctx;
    if (health->phase == HEALTH_IDLE) /* it was given up, and has ended at last */
        return;
    health->phase = HEALTH_ANSWERED;
    watch_at(&health->clock, clock_now_ns());
}

static void begin_check(struct health *health)
{
    char within[32];
    if (probe_runs(&health->probe)) {
        health_give_up(health, "an earlier run of it cannot be killed");
        return;
    }
    if (!probe_start(&health->probe)) {
        health_give_up(health, health->probe.how);
        return;
    }
    health->has_run = true;
    health->phase = HEALTH_RUNS;
    health->loop->has_changed = true;
    watch_at(&health->clock, clock_now_ns() + health->config->health.timeout_ns);
    log_info("health", "'%s' checks this node, for %s at most", health->argv[0],
             str_duration(health->config->health.timeout_ns, within, sizeof within));
}

static void health_on_clock(void *ctx)
{
    struct health *health = ctx;
    const struct probe *probe = &health->probe;
    switch (health->phase) {
    case HEALTH_IDLE:
        begin_check(health);
        break;
    case HEALTH_RUNS:
        health->phase = HEALTH_KILLED;
        probe_kill(&health->probe, "health.timeout is over");
        watch_at(&health->clock, clock_now_ns() + health->config->stop.kill_wait_ns);
        break;
    case HEALTH_KILLED:
        health_give_up(health, "health.timeout is over, and it cannot be killed");
        break;
    case HEALTH_ANSWERED:
        healthline_read(probe->status, probe->how, buf_bytes(&probe->text), buf_len(&probe->text),
                        &health->answer);
        health_tell(health);
        break;
    }
}

bool health_open(struct health *health, struct err *err)
{
    watch_init(&health->clock, health->loop->base, health_on_clock, health);
    if (!health_is_wanted(health->config))
        return true;
    /* Find the program at the start: the user sees an error early, and relative paths are valid. */
    health->argv = program_args(health->config->health.check, getenv("PATH"), err);
    health->probe = (struct probe){.argv = health->argv,
                                   .base = health->loop->base,
                                   .reap = health->reap,
                                   .max = TEXT_MAX,
                                   .on_over = health_on_answer,
                                   .ctx = health};
    return health->argv || err_wrap(err, "health.check");
}

void health_check(struct health *health)
{
    health->started_at = clock_now_ns();
    watch_at(&health->clock, health->started_at);
}

void health_stop(struct health *health)
{
    if (health->phase != HEALTH_IDLE)
        probe_kill(&health->probe, "the job ends");
    health->phase = HEALTH_IDLE;
    watch_at(&health->clock, CLOCK_NEVER);
}

void health_free(struct health *health)
{
    probe_free(&health->probe);
    watch_end(&health->clock);
    program_args_free(health->argv);
}

void health_write(const struct health *health, struct writer *w, const char *key)
{
    static const char *const names[] = {
        [HEALTH_UNKNOWN] = "unknown", [HEALTH_GOOD] = "healthy", [HEALTH_BAD] = "unhealthy"};
    const struct health_answer *answer = &health->answer;
    bool is_running = health->phase != HEALTH_IDLE;
    if (!writer_object_if(w, key, is_running || health->is_over))
        return;
    writer_text(w, "state", is_running ? "checking" : names[answer->verdict]);
    writer_text(w, "check", health->argv[0]);
    writer_text(w, "component", answer->component);
    writer_text(w, "text", answer->text);
    writer_int(w, "took_ms", health->took_ns / NS_PER_MS);
    writer_end(w);
}
