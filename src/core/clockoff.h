/* SPDX-License-Identifier: Apache-2.0
 *
 * clockoff: by how much node 0's clock differs from ours.
 *
 * CLOCK_MONOTONIC counts from another moment on every host. A heartbeat and its answer tell how far
 * apart two of them are: node 0's clock was read somewhere between the two, so half of the round
 * trip is the most that an estimate from its middle can be wrong by. The samples of the last
 * heartbeats are kept, and the most exact one counts. Owned by uplink; pure.
 */
#ifndef PCHRUN_CORE_CLOCKOFF_H
#define PCHRUN_CORE_CLOCKOFF_H

#include <stdbool.h>
#include <stdint.h>

enum { CLOCKOFF_SAMPLES = 8 };

struct clockoff {
    struct clockoff_sample {
        int64_t at;     /* by our clock */
        int64_t offset; /* theirs is ahead of ours by so much */
        int64_t error;  /* at most, when it was taken */
    } samples[CLOCKOFF_SAMPLES];
    int n, next;
};

/* A heartbeat was sent and answered at these times of our clock; in between theirs showed `theirs`.
 * A sample that the ones before contradict means that one of the clocks has stood still, as in a
 * machine that was suspended: those are forgotten. */
void clockoff_take(struct clockoff *off, int64_t sent, int64_t answered, int64_t theirs);
/* What time `ours` is by their clock, and by how much that may be wrong, `now`. False: nothing is
 * known yet. */
bool clockoff_theirs(const struct clockoff *off, int64_t now, int64_t ours, int64_t *ret_theirs,
                     int64_t *ret_error);

#endif
