/* SPDX-License-Identifier: Apache-2.0
 *
 * drill: a notice that nobody gave (pchrun --drill), so that a preemption is seen before the day of
 * a real one.
 *
 * On node 0 it waits until the training is warm, gives the notice, notes when what was agreed on,
 * saved and committed, and says at the end how long each took, whether it fitted, and what grace
 * would do. On every node it turns the outcome into the drill's exit code: 0 if all was saved in
 * time, 1 if not. A command that ends before the notice ends as without a drill, and so does a job
 * that a real notice ends, which leaves less time. Owns its watch.
 * Main thread.
 */
#ifndef PCHRUN_RUN_DRILL_H
#define PCHRUN_RUN_DRILL_H

#include "run/attach.h"
#include "run/loop.h"

/* Two belong to a notice; one that was under way may come before. Of more, which somebody asks for,
 * those in the middle are forgotten. */
enum { DRILL_ROUNDS_MAX = 4 };

struct drill_round {
    uint32_t id;
    uint64_t step;
    int64_t decided_at, committed_at; /* CLOCK_MONOTONIC, 0: not */
};

struct drill {
    int64_t grace_ns; /* 0: none is wanted */
    bool forgoes_restarts;
    const struct core_params *params;
    struct attach *attach;
    struct watch tick;
    int64_t started_at, notice_at; /* CLOCK_MONOTONIC, 0: not yet; as this node has heard of it */
    bool has_ended;
    char acted_upon[32]; /* what the job did: the source of its notice, "": none */
    bool is_stepping;    /* the first step, which may have been compiled, is done */
    uint64_t first_step;
    struct drill_round rounds[DRILL_ROUNDS_MAX];
    int nrounds;
};

/* config->drill_ns 0: no drill, and all the others do nothing. attach and params must live as long.
 */
MUST_CHECK bool drill_open(struct drill *drill, const struct config *config, struct attach *attach,
                           const struct core_params *params, struct err *err);
/* The commands have been started: it waits for their training from now on. */
void drill_start(struct drill *drill);
/* The core has taken an event: what has come of the notice? */
void drill_watch(struct drill *drill);
/* The job has ended: says how it went. Returns what to exit with instead of `code`. */
int drill_end(struct drill *drill, enum outcome outcome, int code);
void drill_close(struct drill *drill);

#endif
