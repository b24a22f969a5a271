/* SPDX-License-Identifier: Apache-2.0
 *
 * sbatch: what a batch script asks Slurm for in its #SBATCH lines: the signal ahead of the end.
 * Pure; owns nothing; any thread. It was written by somebody for Slurm, so what is not understood
 * is no error here.
 */
#ifndef PCHRUN_DOCTOR_SBATCH_H
#define PCHRUN_DOCTOR_SBATCH_H

#include <stdbool.h>
#include <stdint.h>

struct sbatch_signal {
    char text[64];    /* "B:USR1@120", as it stands there; "": none is asked for */
    int number;       /* 0: no signal that pchrun could handle */
    bool is_to_shell; /* B: to the batch script's own process alone; else to the tasks of srun alone
                       */
    int64_t lead_s;   /* before the end of the job's time */
};

/* Of several the last, as Slurm takes it. */
void sbatch_find_signal(const char *script, struct sbatch_signal *ret);

#endif
