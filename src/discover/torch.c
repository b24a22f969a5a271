/* SPDX-License-Identifier: Apache-2.0
 *
 * torch: the variables of torchrun's workers, and those that Kubeflow sets for torchrun.
 *
 * People and Kubeflow's PyTorchJob also set RANK, WORLD_SIZE and MASTER_ADDR without torchrun. In a
 * pod, RANK may count pods while WORLD_SIZE counts processes, so PET_* wins there. But not below a
 * torchrun, because its workers inherit PET_*. WORLD_SIZE or MASTER_ADDR alone prove nothing: batch
 * scripts export them for the program. See finder.h.
 */
#include "base/str.h"
#include "discover/vars.h"

#include <stdio.h>

static bool is_worker(const struct place *place)
{
    return vars_has(place, "TORCHELASTIC_RUN_ID");
}

bool find_torchrun(const struct place *place, struct discovery *ret, struct err *err)
{
    int local = 0, port;
    if (!is_worker(place) && vars_has(place, "PET_NODE_RANK"))
        return true;
    if (!vars_take_nodes(place, "WORLD_SIZE", "RANK", ret, err))
        return false;
    if (ret->nnodes == 1)
        return true;
    if (vars_has(place, "LOCAL_WORLD_SIZE") &&
        !vars_number(place, "LOCAL_WORLD_SIZE", "RANK", &local, err))
        return false;
    const char *master = vars_need(place, "MASTER_ADDR", "RANK", err);
    if (!master)
        return false;
    if (vars_has(place, "MASTER_PORT")) {
        if (!vars_number(place, "MASTER_PORT", "RANK", &port, err))
            return false;
        vars_take_port(ret, (uint64_t)port, "MASTER_PORT", vars_get(place, "MASTER_PORT"));
    }
    if (local != ret->nnodes)
        return vars_take_chief(ret, master, "MASTER_ADDR", err);
    vars_take_loopback(ret, "LOCAL_WORLD_SIZE is WORLD_SIZE");
    return true;
}

bool find_kubeflow(const struct place *place, struct discovery *ret, struct err *err)
{
    const char *count = vars_get(place, "PET_NNODES");
    if (is_worker(place))
        return true;
    if (count && str_is(count, "1")) {
        ret->nnodes = 1;
        str_copy(ret->nnodes_why, sizeof ret->nnodes_why, "PET_NNODES is 1");
        return true;
    }
    if (!vars_take_nodes(place, "PET_NNODES", "PET_NODE_RANK", ret, err))
        return false;
    const char *master = vars_need(place, "PET_MASTER_ADDR", "PET_NNODES", err);
    if (!master || !vars_take_chief(ret, master, "PET_MASTER_ADDR", err))
        return false;
    /* The host name resolves before the pod's name is in the DNS. */
    if (vars_has(place, "HOSTNAME"))
        str_copy(ret->bind, sizeof ret->bind, vars_get(place, "HOSTNAME"));
    return true;
}
