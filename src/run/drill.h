/* SPDX-License-Identifier: Apache-2.0
 *
 * drill: gives a notice as a test (pchrun --drill), so that users see a preemption before a real
 * one.
 *
 * On node 0 the drill waits until the training is warm and gives the notice. It notes when a save
 * was agreed, saved and committed, and how long the ranks of this node were in each phase. At the
 * end it logs how long each took, in which phase a notice would save nothing, whether the save
 * fitted into the grace, which grace would be enough, and how the processes ended. On every node it
 * sets the exit code: 0 if all was saved in time, else 1. If a command ends before the notice, or a
 * real notice ends the job, the exit code is the usual one. Main thread.
 */
#pragma once

#include "loop/loop.h"
#include "procs/attach.h"
#include "run/drill_phases.h"

/* A notice causes two rounds, and a round may be under way before it. pchctl can ask for more
 * rounds: then the middle ones are dropped. */
enum { DRILL_ROUNDS_MAX = 4 };

struct drill_round {
    uint32_t id;
    uint64_t step;
    int64_t decided_at, committed_at; /* CLOCK_MONOTONIC; 0: not yet */
};

struct drill {
    const struct config *config;
    struct attach *attach;
    struct watch tick;
    int64_t notice_at; /* when this node heard of the notice; CLOCK_MONOTONIC, 0: not yet */
    bool has_ended;
    char acted_upon[32]; /* the source of the notice that the job acted upon; "": none */
    uint64_t first_step; /* the first step seen: it may include compiling; 0: none */
    struct drill_round rounds[DRILL_ROUNDS_MAX];
    int nrounds;
    struct drill_phases phases;
};

/* With config->drill_ns 0 there is no drill: the other functions do nothing. config and attach must
 * outlive it. *drill is all zero: clearing it here would touch memory that a job without a drill
 * never uses. */
void drill_open(struct drill *drill, const struct config *config, struct attach *attach);
/* Call when the commands are started: waits for their training from now on. */
void drill_start(struct drill *drill);
/* Call after each event of the core: notes the rounds of the notice. */
void drill_watch(struct drill *drill);
/* The job has ended: logs the result. Returns the exit code to use instead of `code`. */
int drill_end(struct drill *drill, enum outcome outcome, int code);
/* The same for a spare, which knows the outcome alone. */
int drill_code(const struct config *config, enum outcome outcome, int code);
