/* SPDX-License-Identifier: Apache-2.0
 * See finding.h: the way to node 0, or what it listens at.
 */
#include "base/clock.h"
#include "doctor/finding.h"
#include "run/cluster.h"

#include <errno.h>

#define REACH_WAIT_NS (5 * NS_PER_S)

void check_peers(const struct patient *patient, struct finding *ret)
{
    const struct config *config = patient->config;
    struct err err;
    if (config->cluster.nnodes == 1)
        return;
    bool is_chief = config->cluster.node_rank == 0;
    if (cluster_reach(config, REACH_WAIT_NS, &err))
        finding_set(ret, FINDING_OK,
                    is_chief ? "this is node 0, and its address can be listened at"
                             : "something listens where node 0 is to be",
                    "");
    else if (!is_chief && err.sys_errno == ECONNREFUSED)
        finding_set(ret, FINDING_OK, "the machine of node 0 answers; its pchrun is not there yet",
                    "");
    else
        finding_set(ret, FINDING_BAD, err.text,
                    is_chief ? "" : "see to its name, routes and firewalls, from each node");
}
