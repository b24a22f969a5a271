/* SPDX-License-Identifier: Apache-2.0
 *
 * ladder: how to end the processes of a node, as data: rungs of (wait, then signal), climbed by
 * time. The last rung gives up, because no signal kills a task in uninterruptible sleep. Pure.
 */
#pragma once

#include "core/common/action.h"

#include <stdbool.h>
#include <stdint.h>

enum { LADDER_RUNGS = 6 };

struct ladder_rung {
    int64_t at; /* when this rung is climbed */
    int signal; /* 0: the last rung, which gives up */
    enum signal_target target;
};

struct ladder {
    const struct core_params *params;
    struct ladder_rung rungs[LADDER_RUNGS];
    int n, next;     /* next == n: finished, or never started */
    int64_t kill_by; /* the latest time for SIGKILL, CLOCK_NEVER: any time */
};

/* Builds the ladder for a manner (wire/peermsg.h). `signal`: the signal to forward, or to ask with.
 * The platform kills everything at `deadline`; CLOCK_NEVER: no deadline. */
void ladder_start(struct ladder *ladder, enum peer_manner manner, int signal, int64_t now,
                  int64_t deadline);
/* Builds the ladder for processes that are left when the commands have ended. */
void ladder_sweep(struct ladder *ladder, int64_t now, int64_t deadline);
bool ladder_is_active(const struct ladder *ladder);
/* When ladder_climb() has something to do; CLOCK_NEVER: never. */
int64_t ladder_wake_at(const struct ladder *ladder);
/* The next rung if its time has come. If this rung comes late, the later rungs are put off as much,
 * up to the deadline: each process gets its full time to act upon a signal. */
bool ladder_climb(struct ladder *ladder, int64_t now, struct ladder_rung *ret);
/* The next signal is due now, and the later rungs move up as much. */
void ladder_hurry(struct ladder *ladder, int64_t now);
/* The platform kills everything at `deadline`: SIGKILL and the later rungs move up before it. */
void ladder_limit(struct ladder *ladder, int64_t now, int64_t deadline);
/* pchrun stood still for `away`, and perhaps the processes did, too. The rungs to come are put off
 * as much, up to the deadline. After SIGKILL the wait begins anew, because the killed processes may
 * not have run since. */
void ladder_forgive(struct ladder *ladder, int64_t now, int64_t away);
void ladder_stop(struct ladder *ladder);
