/* SPDX-License-Identifier: Apache-2.0
 *
 * slowness: which ranks are slow. Ranks in lockstep take the same time for a step, because they
 * wait for each other. A rank's own part of a step is the time in which it does not wait. libpch
 * measures it if the program marks its waits.
 *
 * A rank becomes slow when its own part is at least 1.3 times the median, and the excess is at
 * least a tenth of a whole step: less than that does not matter. Two times that the rank measured
 * one after the other must show it. It stays slow until its own part is below 1.2 times the median.
 * The chief knows the median of the job (chief_pace.c). Pure.
 */
#pragma once

#include "core/common/ranks.h"
#include "wire/peermsg.h"

/* How many of these have an own part from 1 to `most` nanoseconds. */
typedef uint64_t slowness_count_fn(const void *of, uint64_t most);

/* The median of the values that `count` counts. With an even number of values it is the lower of
 * the two in the middle. 0: there is none. Needs no memory for a list, and asks at most 64 times.
 */
uint64_t slowness_median(slowness_count_fn *count, const void *of);

/* Takes the times that were read, and judges each rank by the median of the job. */
void slowness_read(struct ranks *ranks, const struct event *event, uint64_t median_ns);
void slowness_judge(struct ranks *ranks, uint64_t median_ns);
/* A slow rank's own part in hundredths of the median; 0: it is not slow. */
uint16_t slowness_of(const struct member *m, uint64_t median_ns);
/* Some rank marks its waits. */
bool slowness_is_known(const struct ranks *ranks);
/* The node's part of a STATUS. `before`: of the STATUS before, for
 * the rank to name. */
struct peer_own slowness_view(const struct ranks *ranks, const struct peer_own *before);
