/* SPDX-License-Identifier: Apache-2.0
 *
 * ring: what the nodes' transfers, each from a node to the next one, say about the network.
 *
 * A pair is slow if its rate is below half of the median. One pair does not show which of its nodes
 * is at fault. A node whose two pairs are both bad is named. Needs no memory for a list. Pure.
 */
#pragma once

#include "core/common/out.h"
#include "core/common/peerreport.h"
#include "wire/peermsg.h"

struct ring {
    int n; /* nodes, at least 2; the last one sends to the first */
    const void *of;
    /* The node's part; NULL: the node has not reported it. */
    const struct peer_link *(*link)(const void *of, int node);
    const char *(*host)(const void *of, int node);
};

struct core_network ring_judge(const struct ring *ring);
/* Logs the result: the rates, and each pair or node that is bad. */
void ring_say(const struct ring *ring, const struct core_network *network, struct out *out);
