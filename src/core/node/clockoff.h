/* SPDX-License-Identifier: Apache-2.0
 *
 * clockoff: the offset between node 0's clock and ours.
 *
 * CLOCK_MONOTONIC starts at a different moment on every host. A heartbeat and its answer measure
 * the offset: node 0 reads its clock between the two. An estimate from the middle is wrong by at
 * most half of the round trip. The samples of the last heartbeats are kept, and the most exact one
 * counts. Owned by uplink; pure.
 */
#ifndef PCHRUN_CORE_NODE_CLOCKOFF_H
#define PCHRUN_CORE_NODE_CLOCKOFF_H

#include <stdbool.h>
#include <stdint.h>

enum { CLOCKOFF_SAMPLES = 8 };

struct clockoff {
    struct clockoff_sample {
        int64_t at;     /* by our clock */
        int64_t offset; /* how far node 0's clock is ahead of ours */
        int64_t error;  /* the largest error, at the time of the sample */
    } samples[CLOCKOFF_SAMPLES];
    int n, next;
};

/* A heartbeat was sent and answered at these times of our clock; in between node 0's clock showed
 * `theirs`. If earlier samples contradict this one, a clock has stood still, for example in a
 * suspended machine. The earlier samples are then forgotten. */
void clockoff_take(struct clockoff *off, int64_t sent, int64_t answered, int64_t theirs);
/* Converts our time `ours` to node 0's clock, with the largest error at `now`. False: there is no
 * sample yet. */
bool clockoff_theirs(const struct clockoff *off, int64_t now, int64_t ours, int64_t *ret_theirs,
                     int64_t *ret_error);

#endif
