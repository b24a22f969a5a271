/* SPDX-License-Identifier: Apache-2.0
 * See finding.h: the other nodes, and the way to node 0, or the address where node 0 listens.
 */
#include "base/clock.h"
#include "discover/discover.h"
#include "doctor/finding.h"
#include "peers/cluster.h"

#include <errno.h>

extern char **environ;

#define REACH_WAIT_NS (5 * NS_PER_S)

/* True if the environment names other nodes, but the user has turned discovery off. */
static bool may_miss_some(const struct config *config, struct discovery *ret)
{
    struct err err;
    return config->cluster.nnodes == 1 && config->cluster.discovery == DISCOVER_NONE &&
           discover(environ, "", DISCOVER_AUTO, ret, &err) && ret->nnodes > 1;
}

void check_nodes(const struct patient *patient, struct finding *ret)
{
    const struct config *config = patient->config;
    struct discovery found;
    if (config->found.warning[0]) {
        finding_set(ret, FINDING_WARN, "%s", config->found.warning);
    } else if (may_miss_some(config, &found)) {
        finding_set(ret, FINDING_WARN, "this one runs alone, but %s (%s)", found.nnodes_why,
                    discover_names[found.from]);
        finding_advise(ret, "if they train together, set cluster.discovery to auto: else each node "
                            "saves at its own step");
    } else if (config->cluster.nnodes > 1) {
        finding_set(ret, FINDING_OK, "%d, and this is node %d", config->cluster.nnodes,
                    config->cluster.node_rank);
        if (config->found.from != DISCOVER_NONE)
            str_addf(ret->seen, sizeof ret->seen, " (%.200s)", config->found.why);
    }
}

void check_peers(const struct patient *patient, struct finding *ret)
{
    const struct config *config = patient->config;
    struct err err;
    if (config->cluster.nnodes == 1)
        return;
    bool is_chief = config->cluster.node_rank == 0;
    if (cluster_reach(config, REACH_WAIT_NS, &err))
        finding_set(ret, FINDING_OK,
                    is_chief ? "this is node 0, and it can listen at its address"
                             : "a program listens at the address of node 0");
    else if (!is_chief && err.sys_errno == ECONNREFUSED)
        finding_set(ret, FINDING_OK, "the machine of node 0 answers; its pchrun is not there yet");
    else
        finding_set(ret, FINDING_BAD, "%s", err.text);
    if (ret->verdict == FINDING_BAD && !is_chief)
        finding_advise(ret, "check its name, the routes and the firewalls from each node");
}
