/* SPDX-License-Identifier: Apache-2.0
 *
 * health: the health checks of this node, before the job's start and before each generation in
 * place: that of the checkpoint directory (health.disk), that of the GPUs (health.gpu), then the
 * user's program (health.check).
 *
 * Each check runs in a process with a deadline (loop/inquiry.h, loop/probe.h). The program cannot
 * harm the job: without an answer the verdict is "unknown", which is logged, and counts as "not
 * healthy" only with health.strict. The first check that says "not healthy" is the last.
 * Owns its memory: health_free(). Main thread.
 */
#pragma once

#include "config/config.h"
#include "health/healthgpu.h"
#include "health/healthline.h"
#include "loop/inquiry.h"
#include "loop/loop.h"
#include "loop/probe.h"
#include "json/writer.h"

enum health_kind { HEALTH_DISK, HEALTH_GPU, HEALTH_PROGRAM, HEALTH__COUNT };

/* Of the check that is under way. */
enum health_phase {
    HEALTH_IDLE, /* none is */
    HEALTH_NEXT, /* it is about to begin */
    HEALTH_RUNS,
    HEALTH_KILLED,
    HEALTH_ANSWERED
};

struct health {
    const struct config *config;
    struct reap *reap;
    struct loop *loop;
    bool has_run; /* to read: a process was started for a check */
    /* private from here on */
    char **argv; /* of health.check, the path first; NULL: none */
    struct probe probe;
    struct inquiry disk, gpu;
    struct healthgpu_past gpu_past;
    bool was_skipped;   /* people know that this machine has no NVML */
    struct watch clock; /* the begin of a check, its deadline, or its end */
    enum health_kind kind;
    enum health_phase phase;
    int64_t started_at, took_ns;
    /* Of the last checks: the answer that counts, and whose it is. */
    struct health_answer answer;
    enum health_kind told_by;
    bool is_over; /* there is one */
};

/* True if this node has a check. */
bool health_is_wanted(const struct config *config);

/* Set the public fields first. False: the program of health.check cannot be executed. May block. */
MUST_CHECK bool health_open(struct health *health, struct err *err);
void health_free(struct health *health);
/* ACT_CHECK: EV_CHECKED follows. Each check takes health.timeout and stop.kill_wait at most. */
void health_check(struct health *health);
/* The job ends: kills a check that runs. EV_CHECKED does not follow. */
void health_stop(struct health *health);

/* For the report: an object, or null if there is no check. */
void health_write(const struct health *health, struct writer *w, const char *key);
