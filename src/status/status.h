/* SPDX-License-Identifier: Apache-2.0
 *
 * status: a snapshot of this node's ranks, for pchctl and the metrics. Main thread.
 */
#pragma once

#include "procs/attach.h"
#include "status/report.h"
#include "wire/peermsg.h"

struct status_ranks {
    struct core_rank_report list[CORE_SLOTS_MAX];
    struct steprate_view rates[CORE_SLOTS_MAX]; /* of the same ranks */
    int n;
    uint8_t phases[CORE_SLOTS_MAX]; /* by slot */
    int64_t now;
};
void status_look(struct status_ranks *ret, struct attach *attach);

/* One rank of the snapshot, also in the form for other nodes. */
struct peer_rank status_rank(const struct status_ranks *ranks, int i);
