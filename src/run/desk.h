/* SPDX-License-Identifier: Apache-2.0
 *
 * desk: what people and their programs are told of the job while it runs, and what they ask for:
 * the journal of events, the metrics, and the socket of pchctl, whose requests become events of the
 * core. The job depends on none of it: what cannot be opened while it runs is said, and missed.
 * Owns its memory: desk_free(). Main thread.
 */
#ifndef PCHRUN_RUN_DESK_H
#define PCHRUN_RUN_DESK_H

#include "config/config.h"
#include "run/answer.h"
#include "run/attach.h"
#include "run/journal.h"
#include "run/metrics.h"
#include "run/report.h"

struct control;

struct desk {
    const struct config *config;
    const struct core_params *params;
    struct loop *loop;
    struct attach *attach;
    struct report *report;
    struct cluster *cluster;
    struct journal journal;
    struct metrics metrics;
    struct pace pace;
    struct answer answer;
    struct control *control; /* NULL: it could not be opened */
    bool is_over;
    int exit_code;
    void (*on_idle)(void *ctx); /* desk_is_busy() may have become false */
    void *ctx;
};

/* Before the core's first event; set all above `journal`, on_idle and ctx before. False: what the
 * user asks for cannot be had. May block. */
MUST_CHECK bool desk_init(struct desk *desk, const char *state_dir, struct reap *reap,
                          struct err *err);
/* When the commands have been started, if they were. */
MUST_CHECK bool desk_open(struct desk *desk, struct err *err);
void desk_free(struct desk *desk);

/* The core has done this. */
void desk_take(struct desk *desk, const struct action *action);
/* The core is done with an event. */
void desk_settle(struct desk *desk);
/* The job has ended. */
void desk_exit(struct desk *desk, const struct action *action, int code);
/* Is there a write that will still end, or be given up? */
bool desk_is_busy(const struct desk *desk);

#endif
