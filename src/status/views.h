/* SPDX-License-Identifier: Apache-2.0
 *
 * views: all that people and their programs can see and ask while the job runs: the journal of
 * events, the metrics, and the socket of pchctl. A request of pchctl becomes an event of the core.
 * The job depends on none of it: if it fails while the job runs, pchrun logs that and goes on. Owns
 * its memory: views_free(). Main thread.
 */
#ifndef PCHRUN_STATUS_VIEWS_H
#define PCHRUN_STATUS_VIEWS_H

#include "config/config.h"
#include "procs/attach.h"
#include "status/answer.h"
#include "status/journal.h"
#include "status/metrics.h"
#include "status/report.h"

struct views {
    const struct config *config;
    const struct core_params *params;
    struct loop *loop;
    struct attach *attach;
    struct report *report;
    struct cluster *cluster;
    struct journal journal;
    struct metrics metrics;
    struct steprate steprate;
    struct answer answer;
};

/* Call before the core's first event; set all fields above `journal` first. False: a file that the
 * user asks for cannot be used. May block. */
MUST_CHECK bool views_open(struct views *views, const char *state_dir, struct reap *reap,
                           struct err *err);
void views_free(struct views *views);

/* Call for each action of the core. */
void views_take(struct views *views, const struct action *action);
/* Call after each event of the core. */
void views_settle(struct views *views);
/* The job has ended, and the report knows the exit code. */
void views_exit(struct views *views, const struct action *action);
/* Is a write under way that will end or time out? */
bool views_is_busy(const struct views *views);

#endif
