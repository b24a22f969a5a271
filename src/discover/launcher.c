/* SPDX-License-Identifier: Apache-2.0
 *
 * launcher: the variables of mpirun's processes, of torchrun's workers, and those that Kubeflow
 * sets for torchrun. See vars.h.
 */
#include "base/str.h"
#include "discover/vars.h"

#include <stdio.h>

/* --- mpirun: Open MPI has its own variables, MPICH, Intel MPI and others use PMI's --- */

static const struct {
    const char *rank, *size, *local_size, *job;
} families[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
     "PMIX_NAMESPACE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "PMI_JOBID"},
};

/* No variable says where rank 0 is, so it is only known if all ranks are on this machine. Open MPI
 * up to 4 gives the address of mpirun, which may run elsewhere than rank 0, so it is not used. */
bool find_mpi(const struct place *place, struct discovery *ret, struct err *err)
{
    size_t at = vars_get(place, families[0].rank) || vars_get(place, families[0].size) ? 0 : 1;
    const char *local_size = families[at].local_size, *job = families[at].job;
    char why[DISCOVER_TEXT_MAX];
    int local = 0;
    if (!vars_take_nodes(place, families[at].size, families[at].rank, ret, err))
        return false;
    if (ret->nnodes == 1)
        return true;
    if (!vars_number_if_set(place, local_size, &local, err))
        return false;
    if (vars_get(place, job)) /* hashed: Open MPI's lower bits are the same for all jobs */
        vars_take_port(ret, str_hash(vars_get(place, job)), job, vars_get(place, job));
    if (local == ret->nnodes) {
        snprintf(why, sizeof why, "%s is %d", local_size, local);
        vars_take_loopback(ret, why);
    }
    return true;
}

/* --- torchrun --- */

/* People and Kubeflow's PyTorchJob also set RANK, WORLD_SIZE and MASTER_ADDR without torchrun. In a
 * pod, RANK may count pods while WORLD_SIZE counts processes, so PET_* is used there. But RANK is
 * used below torchrun: its workers inherit PET_*. WORLD_SIZE or MASTER_ADDR alone prove nothing:
 * batch scripts export them for the program. */

static bool is_worker(const struct place *place)
{
    return vars_get(place, "TORCHELASTIC_RUN_ID");
}

bool find_torchrun(const struct place *place, struct discovery *ret, struct err *err)
{
    int local = 0, port = -1;
    if (!is_worker(place) && vars_get(place, "PET_NODE_RANK"))
        return true;
    if (!vars_take_nodes(place, "WORLD_SIZE", "RANK", ret, err))
        return false;
    if (ret->nnodes == 1)
        return true;
    const char *master = vars_need(place, "MASTER_ADDR", "RANK", err);
    if (!vars_number_if_set(place, "LOCAL_WORLD_SIZE", &local, err) || !master ||
        !vars_number_if_set(place, "MASTER_PORT", &port, err))
        return false;
    if (port >= 0)
        vars_take_port(ret, (uint64_t)port, "MASTER_PORT", vars_get(place, "MASTER_PORT"));
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
    vars_bind_to_pod(place, ret);
    return vars_take_nodes(place, "PET_NNODES", "PET_NODE_RANK", ret, err) &&
           vars_need_chief(place, "PET_MASTER_ADDR", "PET_NNODES", ret, err);
}
