/* SPDX-License-Identifier: Apache-2.0
 *
 * counts: what has happened to this node since pchrun started: steps, restarts, saves, notices. For
 * the metrics.
 *
 * It compares each report of the core with the one before. A round that begins and ends between two
 * reports is not counted: the core reports each change. Steps that an earlier attempt lost are not
 * known here. Plain data, pure.
 */
#pragma once

#include "core/core.h"

enum {
    COUNTS_BUCKETS = 13, /* of a histogram */
    COUNTS_SOURCES = 8,  /* of notices, with a count of their own */
};
/* The upper bounds of all buckets but the last one, in seconds. */
extern const double counts_bounds[COUNTS_BUCKETS - 1];

struct counts_times {
    uint64_t in[COUNTS_BUCKETS]; /* a time is in one bucket only */
    uint64_t n;
    double sum_s;
};

struct counts {
    unsigned restarts[OUTCOME__COUNT]; /* in place, by the outcome of the generation that ended */
    uint64_t steps;                    /* of earlier generations */
    uint64_t lost;                     /* of these, the steps after the commit: trained again */
    uint64_t loading_ns;               /* in earlier generations */
    unsigned failed, aborted;          /* rounds */
    struct counts_times agreement;     /* from the proposal of a round to its decision */
    struct counts_times save;          /* of the committed ones: from there to the commit */
    struct {
        char source[32];
        unsigned n;
    } notices[COUNTS_SOURCES + 1]; /* the last: all other sources */
    /* private from here on: of the report before */
    uint32_t generation, round;
    const char *phase;
    int64_t decided_at, committed_at;
    uint64_t resumed_step, last_step, longest_loading;
    enum outcome restarts_after;
    bool is_admitted, has_notice;
    struct notice_label notice;
};

/* The newest report of the core. */
void counts_take(struct counts *counts, const struct core_report *report);
/* The steps of all generations, if the furthest rank of this one is at `step`. */
uint64_t counts_steps(const struct counts *counts, uint64_t step);
