/* SPDX-License-Identifier: Apache-2.0
 * See ports.h.
 */
#include "config/ports.h"

#include "base/str.h"

static const struct {
    int first, last;
    const char *owner;
} taken[] = {
    {8482, 8482, "JAX on TPU"},
    {29400, 29400, "torchrun's rendezvous"},
    {29500, 29500, "torch.distributed"},
    {55527, 55527, "JAX on Kubernetes"},
    {61440, 65535, "JAX under Slurm and Open MPI"},
};

bool ports_check(int port, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(taken); i++)
        if (port >= taken[i].first && port <= taken[i].last)
            return err_set(err, ERR_USAGE, 0,
                           "port %d is used by %s; take another one, such as 14242", port,
                           taken[i].owner);
    return true;
}
