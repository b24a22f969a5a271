/* SPDX-License-Identifier: Apache-2.0
 *
 * mpi: what mpirun tells its processes: Open MPI in its own variables, MPICH, Intel MPI and
 * others in those of PMI.
 *
 * Neither says where rank 0 is, unless all are on this machine. Open MPI up to 4 tells the address
 * of mpirun itself, which need not be on rank 0's machine, so it is not taken. See finder.h.
 */
#include "base/str.h"
#include "discover/vars.h"

#include <stdio.h>

static const struct {
    const char *rank, *size, *local_size, *job;
} families[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
     "PMIX_NAMESPACE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "PMI_JOBID"},
};

bool find_mpi(const struct place *place, struct discovery *ret, struct err *err)
{
    size_t at = vars_has(place, families[0].rank) || vars_has(place, families[0].size) ? 0 : 1;
    const char *local_size = families[at].local_size, *job = families[at].job;
    char why[DISCOVER_TEXT_MAX];
    int local = 0;
    if (!vars_take_nodes(place, families[at].size, families[at].rank, ret, err))
        return false;
    if (ret->nnodes == 1)
        return true;
    if (vars_has(place, local_size) &&
        !vars_number(place, local_size, families[at].rank, &local, err))
        return false;
    if (vars_has(place,
                 job)) /* of Open MPI's the upper bits tell jobs apart, the lower are equal */
        vars_take_port(ret, str_hash(vars_get(place, job)), job, vars_get(place, job));
    if (local == ret->nnodes) {
        snprintf(why, sizeof why, "%s is %d", local_size, local);
        vars_take_loopback(ret, why);
    }
    return true;
}
