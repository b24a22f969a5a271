/* SPDX-License-Identifier: Apache-2.0
 *
 * health: the health checks of this node (health.check), before the job's start and before each
 * generation in place.
 *
 * A check is a program with a deadline (loop/probe.h). It cannot harm the job: without an answer
 * the verdict is "unknown", which is logged, and counts as "not healthy" only with health.strict.
 * Owns its memory: health_free(). Main thread.
 */
#pragma once

#include "config/config.h"
#include "health/healthline.h"
#include "loop/loop.h"
#include "loop/probe.h"
#include "json/writer.h"

enum health_phase { HEALTH_IDLE, HEALTH_RUNS, HEALTH_KILLED, HEALTH_ANSWERED };

struct health {
    const struct config *config;
    struct reap *reap;
    struct loop *loop;
    bool has_run; /* to read: a process was started for a check */
    /* private from here on */
    char **argv; /* of health.check, the path first; NULL: none */
    struct probe probe;
    struct watch clock; /* the begin of a check, its deadline, or its end */
    enum health_phase phase;
    int64_t started_at, took_ns;
    struct health_answer answer; /* of the last check that is over */
    bool is_over;                /* there is one */
};

/* True if this node has a check. */
bool health_is_wanted(const struct config *config);

/* Set the public fields first. False: the program of health.check cannot be executed. May block. */
MUST_CHECK bool health_open(struct health *health, struct err *err);
void health_free(struct health *health);
/* ACT_CHECK: EV_CHECKED follows, after health.timeout and stop.kill_wait at the latest. */
void health_check(struct health *health);
/* The job ends: kills a check that runs. EV_CHECKED does not follow. */
void health_stop(struct health *health);

/* For the report: an object, or null if there is no check. */
void health_write(const struct health *health, struct writer *w, const char *key);
