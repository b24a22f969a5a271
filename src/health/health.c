/* SPDX-License-Identifier: Apache-2.0
 * See health.h.
 */
#include "health/health.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "health/healthdisk.h"
#include "os/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 64 * 1024, ILLNESS_MAX = 400 };

bool health_is_wanted(const struct config *config)
{
    return config->health.disk || config->health.gpu || config->health.check;
}

static bool health_wants(const struct health *health, enum health_kind kind)
{
    const bool wanted[] = {[HEALTH_DISK] = health->config->health.disk,
                           [HEALTH_GPU] = health->config->health.gpu,
                           [HEALTH_PROGRAM] = health->config->health.check != NULL};
    return wanted[kind];
}

/* The name of the check, for people. */
static const char *health_name(const struct health *health, enum health_kind kind)
{
    return kind == HEALTH_DISK  ? "health.disk"
           : kind == HEALTH_GPU ? "health.gpu"
                                : health->argv[0];
}

/* The answer of one check. Returns true if the node must not train, and the reason. */
static bool health_judge(struct health *health, const struct health_answer *answer, char *illness,
                         size_t size)
{
    const char *name = health_name(health, health->kind);
    char why[ILLNESS_MAX], took[32];
    healthline_describe(answer, why, sizeof why);
    str_duration(health->took_ns / NS_PER_MS * NS_PER_MS, took, sizeof took);
    if (answer->verdict == HEALTH_SKIPPED) {
        log_line(health->was_skipped ? LOG_DEBUG : LOG_INFO, "health", "'%s' is skipped: %s", name,
                 why);
        health->was_skipped = true;
    } else if (answer->verdict == HEALTH_GOOD) {
        log_info("health", "'%s' says, after %s: this node is healthy%s%s", name, took,
                 why[0] ? "; " : "", why);
    } else if (answer->verdict == HEALTH_BAD) {
        str_fit(illness, size, why);
        log_error("health", "'%s' says, after %s: this node is not healthy: %s", name, took, why);
    } else if (health->config->health.strict) {
        snprintf(illness, size, "'%.100s' gives no answer (%.200s), and health.strict is set", name,
                 why);
        log_error("health", "%s", illness);
    } else {
        log_warn("health",
                 "'%s' gives no answer: %s; so the health of this node is unknown, and the node "
                 "takes part (health.strict would hold it back)",
                 name, why);
    }
    return illness[0];
}

/* All checks are over, or one has said that the node must not train. */
static void health_tell(struct health *health, const char *illness)
{
    health->phase = HEALTH_IDLE;
    health->is_over = true;
    watch_at(&health->clock, CLOCK_NEVER);
    health->loop->has_changed = true;
    loop_post(health->loop, &(struct event){.type = EV_CHECKED, .illness = illness});
}

/* Goes on by the clock: within this call the probe or the inquiry of the last check is in use. */
static void health_go_on(struct health *health, enum health_kind kind)
{
    while (kind < HEALTH__COUNT && !health_wants(health, kind))
        kind++;
    health->kind = kind;
    health->phase = HEALTH_NEXT;
    health->started_at = clock_now_ns();
    watch_at(&health->clock, health->started_at);
}

static void health_take(struct health *health, const struct health_answer *answer)
{
    char illness[ILLNESS_MAX] = "";
    health->took_ns = clock_now_ns() - health->started_at;
    if (answer->verdict >= health->answer.verdict) {
        health->answer = *answer;
        health->told_by = health->kind;
    }
    if (health_judge(health, answer, illness, sizeof illness)) {
        health_tell(health, illness);
        return;
    }
    health_go_on(health, health->kind + 1);
}

static void health_give_up(struct health *health, const char *why)
{
    struct health_answer answer = {.verdict = HEALTH_UNKNOWN};
    str_fit(answer.text, sizeof answer.text, why);
    health_take(health, &answer);
}

/* --- the user's program --- */

/* Goes on by the clock: within this call the probe is still in use. */
static void health_on_answer(void *ctx)
{
    struct health *health = ctx;
    if (health->kind != HEALTH_PROGRAM || health->phase < HEALTH_RUNS)
        return; /* it was given up, and has ended at last */
    health->phase = HEALTH_ANSWERED;
    watch_at(&health->clock, clock_now_ns());
}

static void begin_program(struct health *health)
{
    if (probe_runs(&health->probe)) {
        health_give_up(health, "an earlier run of it cannot be killed");
        return;
    }
    if (!probe_start(&health->probe)) {
        health_give_up(health, health->probe.how);
        return;
    }
    health->has_run = true;
    watch_within(&health->clock, health->config->health.timeout_ns);
}

/* --- the checkpoint directory --- */

/* A directory that does not answer is not healthy: no rank could load or save there. */
static void on_disk_checked(void *ctx, bool is_late)
{
    struct health *health = ctx;
    struct health_answer answer = {.verdict = HEALTH_BAD, .component = "disk"};
    const struct buf *told = &health->disk.text;
    if (is_late)
        snprintf(answer.text, sizeof answer.text, "%.150s does not answer within health.timeout",
                 health->config->checkpoint.dir);
    else if (buf_len(told) == sizeof answer)
        memcpy(&answer, buf_bytes(told), sizeof answer);
    else
        answer = (struct health_answer){HEALTH_UNKNOWN, .text = "its process has died"};
    health_take(health, &answer);
}

/* --- the GPUs --- */

/* An NVML that does not answer says nothing certain about the node, as a program that does not. */
static void on_gpu_checked(void *ctx, bool is_late)
{
    struct health *health = ctx;
    struct healthgpu_answer answer;
    const struct buf *told = &health->gpu.text;
    if (is_late) {
        health_give_up(health, "NVML does not answer within health.timeout");
    } else if (buf_len(told) != sizeof answer) {
        health_give_up(health, "its process has died");
    } else {
        memcpy(&answer, buf_bytes(told), sizeof answer);
        health->gpu_past = answer.past;
        health_take(health, &answer.health);
    }
}

/* --- the sequence --- */

/* NULL: the check is a program. */
static struct inquiry *health_inquiry(struct health *health)
{
    return health->kind == HEALTH_DISK  ? &health->disk
           : health->kind == HEALTH_GPU ? &health->gpu
                                        : NULL;
}

/* The process of an earlier check has ended. */
static void health_on_reaped(void *ctx, enum reap_what what, int status)
{
    struct health *health = ctx;
    if (what == REAP_EXITED && health->phase == HEALTH_NEXT)
        watch_at(&health->clock, clock_now_ns());
}

/* It has answered or was killed, but the kernel may need time to end it. */
static bool waits_for_last(struct health *health, const struct inquiry *inquiry)
{
    int64_t until = health->started_at + health->config->stop.kill_wait_ns;
    if (!inquiry->helper.watch.pid || clock_now_ns() >= until)
        return false;
    watch_at(&health->clock, until);
    return true;
}

static void begin_next(struct health *health)
{
    char within[32];
    struct err err;
    struct inquiry *inquiry = health_inquiry(health);
    if (health->kind == HEALTH__COUNT) {
        health_tell(health, NULL);
        return;
    }
    if (inquiry && waits_for_last(health, inquiry))
        return;
    health->phase = HEALTH_RUNS;
    health->loop->has_changed = true;
    log_info("health", "'%s' checks this node, for %s at most", health_name(health, health->kind),
             str_duration(health->config->health.timeout_ns, within, sizeof within));
    if (!inquiry)
        begin_program(health);
    else if (!inquiry_start(inquiry, &err))
        health_give_up(health, err.text);
}

static void health_on_clock(void *ctx)
{
    struct health *health = ctx;
    const struct probe *probe = &health->probe;
    struct health_answer answer;
    switch (health->phase) {
    case HEALTH_IDLE:
        break;
    case HEALTH_NEXT:
        begin_next(health);
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
                        &answer);
        health_take(health, &answer);
        break;
    }
}

bool health_open(struct health *health, struct err *err)
{
    const struct reap_watch on_reaped = {.fn = health_on_reaped, .ctx = health};
    watch_init(&health->clock, health->loop->base, health_on_clock, health);
    health->disk = (struct inquiry){.fn = healthdisk_check,
                                    .arg = health->config->checkpoint.dir,
                                    .base = health->loop->base,
                                    .wait_ns = health->config->health.timeout_ns,
                                    .max = sizeof(struct health_answer),
                                    .on_over = on_disk_checked,
                                    .ctx = health,
                                    .helper = {.reap = health->reap, .watch = on_reaped}};
    health->gpu = (struct inquiry){.fn = healthgpu_check,
                                   .arg = &health->gpu_past,
                                   .base = health->loop->base,
                                   .wait_ns = health->config->health.timeout_ns,
                                   .max = sizeof(struct healthgpu_answer),
                                   .on_over = on_gpu_checked,
                                   .ctx = health,
                                   .helper = {.reap = health->reap, .watch = on_reaped}};
    if (!health->config->health.check)
        return true;
    /* Find the program at the start: the user sees an error early, and relative paths are valid. */
    health->argv = program_args(health->config->health.check, getenv("PATH"), err);
    health->probe = (struct probe){.argv = health->argv,
                                   .base = health->loop->base,
                                   .reap = health->reap,
                                   .max = TEXT_MAX,
                                   .keeps_last = true,
                                   .on_over = health_on_answer,
                                   .ctx = health};
    return health->argv || err_wrap(err, "health.check");
}

void health_check(struct health *health)
{
    health->answer = (struct health_answer){.verdict = HEALTH_SKIPPED};
    health_go_on(health, 0);
}

void health_stop(struct health *health)
{
    if (health->phase == HEALTH_IDLE)
        return;
    probe_kill(&health->probe, "the job ends");
    inquiry_stop(&health->disk);
    inquiry_stop(&health->gpu);
    health->phase = HEALTH_IDLE;
    watch_at(&health->clock, CLOCK_NEVER);
}

void health_free(struct health *health)
{
    probe_free(&health->probe);
    inquiry_free(&health->disk);
    inquiry_free(&health->gpu);
    watch_end(&health->clock);
    program_args_free(health->argv);
}

void health_write(const struct health *health, struct writer *w, const char *key)
{
    static const char *const names[] = {[HEALTH_SKIPPED] = "skipped",
                                        [HEALTH_GOOD] = "healthy",
                                        [HEALTH_UNKNOWN] = "unknown",
                                        [HEALTH_BAD] = "unhealthy"};
    const struct health_answer *answer = &health->answer;
    bool is_running = health->phase != HEALTH_IDLE;
    bool has_check = is_running && health->kind < HEALTH__COUNT; /* else the last one is over */
    if (!writer_object_if(w, key, is_running || health->is_over))
        return;
    writer_text(w, "state", is_running ? "checking" : names[answer->verdict]);
    writer_text(w, "check", health_name(health, has_check ? health->kind : health->told_by));
    writer_text(w, "component", answer->component);
    writer_text(w, "text", answer->text);
    writer_int(w, "took_ms", health->took_ns / NS_PER_MS);
    writer_end(w);
}
