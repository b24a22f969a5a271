/* SPDX-License-Identifier: Apache-2.0
 *
 * sbatch: the signal ahead of the end that Slurm is asked for: in the #SBATCH lines of a batch
 * script, on the command line of sbatch, or in its environment.
 * Pure; owns nothing; any thread. All of it was written for Slurm, so what is not understood
 * is no error here.
 */
#ifndef PCHRUN_DOCTOR_SBATCH_H
#define PCHRUN_DOCTOR_SBATCH_H

#include <stdbool.h>
#include <stdint.h>

struct sbatch_signal {
    const char *where; /* "the batch script has" */
    char text[64];     /* "B:USR1@120", as it stands there; "": none is asked for */
    int number;        /* 0: no signal that pchrun could handle */
    bool is_to_shell; /* B: to the batch script's own process alone; else to the tasks of srun alone
                       */
    int64_t lead_s;   /* before the end of the job's time */
};

/* "sbatch --signal=B:TERM@70 /home/me/job.sh its arguments", of which `script` is "job.sh"; "":
 * that is not known. */
void sbatch_read_command(const char *command, const char *script, struct sbatch_signal *ret);
/* "B:TERM@70" */
void sbatch_read_signal(const char *value, struct sbatch_signal *ret);
/* Of several the last, as Slurm takes it. */
void sbatch_find_signal(const char *script, struct sbatch_signal *ret);

#endif
