/* SPDX-License-Identifier: Apache-2.0
 *
 * generation: starts the commands, at first and in restarts, and does slow work a moment later.
 * Owns its watches. Main thread.
 */
#pragma once

#include "commands/children.h"
#include "commands/jobs.h"
#include "procs/attach.h"
#include "record/record.h"
#include "run/drill.h"

struct generation {
    const struct config *config;
    const struct core_params *params;
    struct children *children;
    struct jobs *jobs;
    struct record *record;
    struct attach *attach;
    struct drill *drill;
    struct watch starting; /* starts the commands after the current event */
    struct action to_start;
    int64_t swept_from; /* since when the start waits for a dead pchrun's processes to end; 0: it
                           does not */
    struct cgroup_left swept; /* the processes found at that time */
    struct watch tidying;     /* for on_tidying(), after a start */
};

/* Set all pointers first; they must outlive `generation`. */
void generation_open(struct generation *generation, struct event_base *base);
void generation_free(struct generation *generation);
/* ACT_START, ACT_PORT. */
void generation_act(struct generation *generation, const struct action *action);
