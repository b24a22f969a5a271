/* SPDX-License-Identifier: Apache-2.0
 *
 * cloud: multi-node jobs of AWS Batch, and the workers of a Cloud TPU. See vars.h.
 */
#include "base/str.h"
#include "discover/vars.h"

#include <stdio.h>
#include <string.h>

#define BATCH "AWS_BATCH_JOB_"

/* AWS may make any node the main node. It becomes our node 0, and the ranks of the nodes before it
 * rise by one. Only these other nodes get its address. */
bool find_aws_batch(const struct place *place, struct discovery *ret, struct err *err)
{
    int main_node;
    if (!vars_take_nodes(place, BATCH "NUM_NODES", BATCH "NODE_INDEX", ret, err))
        return false;
    if (ret->nnodes == 1)
        return true;
    if (!vars_number(place, BATCH "MAIN_NODE_INDEX", BATCH "NODE_INDEX", &main_node, err))
        return false;
    if (main_node >= ret->nnodes)
        return err_set(err, ERR_USAGE, 0, BATCH "MAIN_NODE_INDEX is %d, but %s", main_node,
                       ret->nnodes_why);
    int index = ret->node_rank;
    ret->node_rank = index == main_node ? 0 : index < main_node ? index + 1 : index;
    str_addf(ret->node_rank_why, sizeof ret->node_rank_why, ", " BATCH "MAIN_NODE_INDEX is %d",
             main_node);
    if (index == main_node)
        return vars_take_chief(ret, "0.0.0.0", "the main node's own address", err);
    return vars_need_chief(place, BATCH "MAIN_NODE_PRIVATE_IPV4_ADDRESS", BATCH "NODE_INDEX", ret,
                           err);
}

/* --- TPU --- */

static int count_items(const char *list)
{
    int n = 1;
    for (; *list; list++)
        n += *list == ',';
    return n;
}

/* Finds the list of a slice's workers, and its first item. Returns the variable's name. */
static const char *read_workers(const struct place *place, const char **ret_list, char *first,
                                size_t size)
{
    static const char *const names[] = {"TPU_WORKER_HOSTNAMES", "TPU_PROCESS_ADDRESSES"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        *ret_list = vars_get(place, names[i]);
        if (!*ret_list)
            continue;
        snprintf(first, size, "%.*s", (int)strcspn(*ret_list, ","), *ret_list);
        return names[i];
    }
    return NULL;
}

/* With several slices, each has the same number of workers. */
static bool take_slices(const struct place *place, struct discovery *ret, struct err *err)
{
    struct discovery slices = {0};
    if (!vars_get(place, "MEGASCALE_NUM_SLICES") && !vars_get(place, "MEGASCALE_SLICE_ID"))
        return true;
    if (!vars_take_nodes(place, "MEGASCALE_NUM_SLICES", "MEGASCALE_SLICE_ID", &slices, err))
        return false;
    if (slices.nnodes == 1)
        return true;
    if (slices.nnodes > DISCOVER_NODES_MAX / ret->nnodes)
        return err_set(err, ERR_USAGE, 0, "%s, and %s: more than %d nodes", slices.nnodes_why,
                       ret->nnodes_why, DISCOVER_NODES_MAX);
    ret->node_rank += slices.node_rank * ret->nnodes;
    ret->nnodes *= slices.nnodes;
    str_addf(ret->nnodes_why, sizeof ret->nnodes_why, ", %s", slices.nnodes_why);
    str_addf(ret->node_rank_why, sizeof ret->node_rank_why, ", %s", slices.node_rank_why);
    return vars_need_chief(place, "MEGASCALE_COORDINATOR_ADDRESS", "MEGASCALE_NUM_SLICES", ret,
                           err);
}

bool find_tpu(const struct place *place, struct discovery *ret, struct err *err)
{
    const char *list;
    char first[ADDRESS_HOST_MAX + 8];
    const char *name = read_workers(place, &list, first, sizeof first);
    if (!name)
        return err_set(err, ERR_NOT_FOUND, 0,
                       "TPU_WORKER_ID is set (%.20s), but TPU_WORKER_HOSTNAMES is not",
                       vars_get(place, "TPU_WORKER_ID"));
    int n = count_items(list), id = 0;
    bool is_numbered = n > 1 || vars_get(place, "TPU_WORKER_ID");
    ret->nnodes = n;
    if (is_numbered && !vars_number(place, "TPU_WORKER_ID", name, &id, err))
        return false;
    if (id >= n || n > DISCOVER_NODES_MAX)
        return err_set(err, ERR_USAGE, 0, "TPU_WORKER_ID is %d, but %s has %d entries (%.100s)", id,
                       name, n, list);
    ret->node_rank = id;
    snprintf(ret->nnodes_why, sizeof ret->nnodes_why, "%s has %d entr%s", name, n,
             n == 1 ? "y" : "ies");
    if (is_numbered)
        snprintf(ret->node_rank_why, sizeof ret->node_rank_why, "TPU_WORKER_ID is %d", id);
    if (n > 1 && !vars_take_chief(ret, first, name, err))
        return false;
    return take_slices(place, ret, err);
}
