/* SPDX-License-Identifier: Apache-2.0
 *
 * status: how the job stands now, for pchctl: the report, and what is worth no file: where each
 * rank of this node is, and on node 0 where each node is. Main thread.
 */
#ifndef PCHRUN_RUN_STATUS_H
#define PCHRUN_RUN_STATUS_H

#include "run/attach.h"
#include "run/pace.h"
#include "run/report.h"

/* The ranks of this node, looked at. */
struct status_ranks {
    struct core_rank_report list[CORE_SLOTS_MAX];
    int n;
    uint64_t steps[CORE_SLOTS_MAX]; /* by slot */
    uint8_t phases[CORE_SLOTS_MAX];
    int64_t now;
};
void status_look(struct status_ranks *ret, const struct attach *attach, struct pace *pace);

/* Adds the members "now", "report", "ranks" and "nodes" to the object that is being written. */
void status_write(struct writer *w, const struct report *report, const struct status_ranks *ranks,
                  const struct pace *pace);

#endif
