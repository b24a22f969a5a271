/* SPDX-License-Identifier: Apache-2.0
 *
 * status: a snapshot of this node's ranks, for pchctl and the metrics. Main thread.
 */
#pragma once

#include "procs/attach.h"
#include "wire/peermsg.h"
#include "json/writer.h"

struct status_ranks {
    struct core_rank_report list[CORE_SLOTS_MAX]; /* loaded_ns: with that of the page */
    struct steprate_view rates[CORE_SLOTS_MAX];   /* of the same ranks */
    int n;
    uint8_t phases[CORE_SLOTS_MAX]; /* by slot */
    int64_t now;
};
void status_look(struct status_ranks *ret, struct attach *attach);
/* The same without the rates, which a look would change for the next one. */
void status_look_aside(struct status_ranks *ret, const struct attach *attach);

/* On node 0: the highest step that is known of the job. The core knows the steps of this node as of
 * its last reading; the pages show them as of now. */
uint64_t status_newest_step(struct attach *attach);

/* `loading_ns` of the report, as of now. */
uint64_t status_longest_loading(const struct status_ranks *ranks, const struct core_report *report);

/* One rank of the snapshot, also in the form for other nodes. */
struct peer_rank status_rank(const struct status_ranks *ranks, int i);
/* Writes the members of a rank whose data is `ago_ns` old. */
void status_add_rank(struct writer *w, int node_rank, const struct peer_rank *rank, int64_t ago_ns);
/* Writes an age in seconds; below 0 it is unknown, and null. */
void status_add_age(struct writer *w, const char *key, int64_t age_ns);
/* The same for steps per second; 0: unknown. */
void status_add_steprate(struct writer *w, double steps_per_s);
