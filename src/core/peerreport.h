/* SPDX-License-Identifier: Apache-2.0
 *
 * peerreport: what node 0 can tell of a node, for people. Plain data.
 */
#ifndef PCHRUN_CORE_PEERREPORT_H
#define PCHRUN_CORE_PEERREPORT_H

#include <stdbool.h>
#include <stdint.h>

/* A node as the chief knows it from what it said last. */
struct core_peer_report {
    int node_rank;
    char host[64]; /* "": it has not come yet */
    /* "missing", "waiting", "running", "ended", "finished", "failed", "gone", "lost" */
    const char *state;
    int conn; /* the number of its connection, CONN_NONE: it has none */
    bool is_connected, has_notice;
    int ranks_expected; /* -1: nobody has said */
    int ranks_attached;
    uint64_t highest, lowest; /* finished steps of its ranks */
    int64_t heard_at;         /* CLOCK_MONOTONIC, 0: never */
    int64_t moved_at;         /* since when it shows `highest`, 0: not known */
    double steps_per_s;       /* 0: not known */
    char why[128];            /* it was lost; "": it was not */
};

#endif
