/* SPDX-License-Identifier: Apache-2.0
 *
 * status: how the job stands now, for pchctl: the report, and what is worth no file: where each
 * rank is, and on node 0 where each node is. Main thread.
 */
#ifndef PCHRUN_RUN_STATUS_H
#define PCHRUN_RUN_STATUS_H

#include "run/attach.h"
#include "run/pace.h"
#include "run/report.h"
#include "wire/peermsg.h"

/* The ranks of this node, looked at. */
struct status_ranks {
    struct core_rank_report list[CORE_SLOTS_MAX];
    int n;
    uint64_t steps[CORE_SLOTS_MAX]; /* by slot */
    uint8_t phases[CORE_SLOTS_MAX];
    int64_t now;
};
void status_look(struct status_ranks *ret, const struct attach *attach, struct pace *pace);

/* One of them, as it is told to other nodes, too. */
struct peer_rank status_rank(const struct status_ranks *ranks, int i, const struct pace *pace);

/* Adds the members "now" and "report" to the object that is being written. */
void status_write_job(struct writer *w, const struct report *report);
/* An object of the list "ranks"; it was so `ago_ns` ago. */
void status_write_rank(struct writer *w, int node_rank, const struct peer_rank *rank,
                       int64_t ago_ns);
/* What node 0 knows of the nodes, itself included; elsewhere of none. Returns how many there are;
 * *ret is the caller's to free(). */
int status_nodes(const struct report *report, const struct status_ranks *ranks,
                 const struct pace *pace, struct core_peer_report **ret);
/* An object of the list "nodes"; `unknown`: why its ranks are not, NULL: they are. */
void status_write_node(struct writer *w, const struct core_peer_report *node, int64_t now,
                       const char *unknown);

#endif
