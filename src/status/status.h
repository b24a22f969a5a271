/* SPDX-License-Identifier: Apache-2.0
 *
 * status: how the job stands now, for pchctl: the report, each rank, and on node 0 each node. Main
 * thread.
 */
#pragma once

#include "procs/attach.h"
#include "status/report.h"
#include "wire/peermsg.h"

/* A snapshot of this node's ranks. */
struct status_ranks {
    struct core_rank_report list[CORE_SLOTS_MAX];
    struct steprate_view rates[CORE_SLOTS_MAX]; /* of the same ranks */
    int n;
    uint64_t steps[CORE_SLOTS_MAX]; /* by slot */
    uint8_t phases[CORE_SLOTS_MAX];
    int64_t now;
};
void status_look(struct status_ranks *ret, struct attach *attach);

/* One rank of the snapshot, also in the form for other nodes. */
struct peer_rank status_rank(const struct status_ranks *ranks, int i);

/* Adds an object to the list "ranks"; its data is `ago_ns` old. */
void status_write_rank(struct writer *w, int node_rank, const struct peer_rank *rank,
                       int64_t ago_ns);
/* The state of all nodes, on node 0; 0 nodes on any other. Returns the count; the caller frees
 * *ret. */
int status_nodes(const struct report *report, const struct status_ranks *ranks,
                 struct core_peer_report **ret);
/* Adds an object to the list "nodes". `unknown`: why the node's ranks are unknown; NULL: they are
 * known. */
void status_write_node(struct writer *w, const struct core_peer_report *node, int64_t now,
                       const char *unknown);
