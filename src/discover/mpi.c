/* SPDX-License-Identifier: Apache-2.0
 *
 * mpi: the variables of mpirun's processes: Open MPI has its own, MPICH, Intel MPI and others use
 * PMI's.
 *
 * Neither says where rank 0 is, unless all ranks are on this machine. Open MPI up to 4 gives the
 * address of mpirun, which may run elsewhere than rank 0, so it is not used. See finder.h.
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
    if (vars_has(place, job)) /* Open MPI's lower bits are the same for all jobs */
        vars_take_port(ret, str_hash(vars_get(place, job)), job, vars_get(place, job));
    if (local == ret->nnodes) {
        snprintf(why, sizeof why, "%s is %d", local_size, local);
        vars_take_loopback(ret, why);
    }
    return true;
}
