/* SPDX-License-Identifier: Apache-2.0
 *
 * ladder: how to end the processes of a node, as data: rungs of (wait, then signal), climbed by
 * time. The last rung gives up, since a task in uninterruptible sleep cannot be killed by anybody.
 * Pure.
 */
#ifndef PCHRUN_CORE_LADDER_H
#define PCHRUN_CORE_LADDER_H

#include "core/action.h"

#include <stdbool.h>
#include <stdint.h>

enum { LADDER_RUNGS = 6 };

struct ladder_rung {
    int64_t at; /* when this rung is climbed */
    int signal; /* 0: the last one, give up */
    enum signal_target target;
};

struct ladder {
    struct ladder_rung rungs[LADDER_RUNGS];
    int n, next;     /* next == n: finished, or never started */
    int64_t kill_by; /* SIGKILL may be put off until then, CLOCK_NEVER: for ever */
    int64_t kill_wait;
};

struct ladder_times {
    int64_t now;
    int64_t deadline; /* the platform kills everything then; CLOCK_NEVER: it does not */
    int64_t exit_wait, term_wait, kill_wait;
};

/* Builds the ladder for a manner (wire/peermsg.h). `signal` is the one to forward or to ask with.
 */
void ladder_start(struct ladder *ladder, enum peer_manner manner, int signal,
                  const struct ladder_times *times);
/* For what is left when the commands have ended. */
void ladder_sweep(struct ladder *ladder, const struct ladder_times *times);
bool ladder_is_active(const struct ladder *ladder);
/* When ladder_climb() has something to do; CLOCK_NEVER: never. */
int64_t ladder_wake_at(const struct ladder *ladder);
/* The next rung if its time has come. If it comes late, those behind it do, too, as far as the
 * deadline lets them: whoever is signalled gets the time to act upon it. */
bool ladder_climb(struct ladder *ladder, int64_t now, struct ladder_rung *ret);
/* Does not wait for the next signal any longer, and the rungs behind it move up as much. */
void ladder_hurry(struct ladder *ladder, int64_t now);
/* The platform kills everything at `deadline`: SIGKILL and what is behind it move up, to come in
 * time before that. */
void ladder_limit(struct ladder *ladder, int64_t now, int64_t deadline);
/* We were away for so long, and what we signalled perhaps, too: all that is to come is put off as
 * much, as far as the deadline lets it. The killed have their time to die from now on: when we saw
 * them last they may not have run yet. */
void ladder_forgive(struct ladder *ladder, int64_t now, int64_t away);
void ladder_stop(struct ladder *ladder);

#endif
