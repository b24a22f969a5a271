/* SPDX-License-Identifier: Apache-2.0
 *
 * waits: finds what a job waits for: the replacement of a lost node, nodes that are missing, cut
 * off or silent, ranks that have not attached, ranks that are behind, in training or in a save,
 * slow ranks. Pure; any thread.
 */
#pragma once

#include "ctl/tally.h"

enum { WAITS_MAX = 5 };

struct wait {
    int64_t rank, node; /* -1: none */
    int64_t step;       /* of the rank */
    char text[240]; /* "rank 5 on n2: at step 48,208 for 40 s, all others at 48,210, evaluating" */
};

struct waits {
    struct wait list[WAITS_MAX]; /* the worst first */
    int n;
    int more; /* others that did not fit */
};

/* True if the job waits for this node, or for this rank. */
bool waits_has_node(const struct json *answer, const struct json *node);
bool waits_has_rank(const struct json *answer, const struct tally *tally, const struct json *rank);
void waits_find(const struct json *answer, const struct tally *tally, struct waits *ret);
