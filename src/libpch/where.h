/* SPDX-License-Identifier: Apache-2.0
 *
 * where: what the environment says about a process's place in the job. Reads the environment, owns
 * nothing, cannot fail: what is not said, or is not a number, stays unknown. While nobody changes
 * the environment, any thread.
 */
#ifndef PCHRUN_LIBPCH_WHERE_H
#define PCHRUN_LIBPCH_WHERE_H

#include <stdint.h>

struct where {
    int rank, local_rank, world_size, local_world_size; /* PROCMSG_UNKNOWN: not said */
};

/* One launcher's variables are taken together, never mixed with another's: PCH_*, RANK and its
 * like, OMPI_COMM_WORLD_*, SLURM_*, the first that name a rank. A launcher between pchrun and this
 * process (torchrun, mpirun) has made more processes than pchrun did, which its larger world size
 * tells; then it is nearer than PCH_*. Slurm's variables describe the task that pchrun is, so that
 * they count only where there are no others. */
struct where where_by_env(void);

/* PCH_RESUME_STEP, 0 if there is none. */
uint64_t where_resume_step(void);

#endif
