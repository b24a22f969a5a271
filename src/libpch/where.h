/* SPDX-License-Identifier: Apache-2.0
 *
 * where: reads a process's place in the job from the environment. Owns nothing, cannot fail: a
 * missing or malformed number stays unknown. Any thread, while no thread changes the environment.
 */
#ifndef PCHRUN_LIBPCH_WHERE_H
#define PCHRUN_LIBPCH_WHERE_H

#include <stdint.h>

struct where {
    int rank, local_rank, world_size, local_world_size; /* or PROCMSG_UNKNOWN */
};

/* Takes all values from one launcher: the first of PCH_*, RANK and its like, OMPI_COMM_WORLD_*,
 * SLURM_* that names a rank. A launcher below pchrun (torchrun, mpirun) starts more processes, so a
 * larger world size than pchrun's wins over PCH_*. Slurm's variables describe pchrun's own task, so
 * they come last. */
struct where where_by_env(void);

/* PCH_RESUME_STEP; 0: not set. */
uint64_t where_resume_step(void);

#endif
