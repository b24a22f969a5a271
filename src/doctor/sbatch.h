/* SPDX-License-Identifier: Apache-2.0
 *
 * sbatch: the early signal (--signal) that the user asks Slurm for: in the #SBATCH lines of a batch
 * script, on the command line of sbatch, or in its environment. Pure; owns nothing; any thread. The
 * text was written for Slurm, so unknown parts are no error here.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct sbatch_signal {
    const char *where; /* "the batch script has" */
    char text[64];     /* "B:USR1@120", as written; "": none */
    int number;        /* 0: not a signal that pchrun can handle */
    bool is_to_shell;  /* B: to the batch script's process only; else to srun's tasks only */
    int64_t lead_s;    /* how long before the end of the job's time */
};

/* "sbatch --signal=B:TERM@70 /home/me/job.sh its arguments"; `script` is "job.sh", or "" if
 * unknown. */
void sbatch_read_command(const char *command, const char *script, struct sbatch_signal *ret);
/* "B:TERM@70" */
void sbatch_read_signal(const char *value, struct sbatch_signal *ret);
/* Searches the #SBATCH lines. The last --signal counts, as for Slurm. */
void sbatch_find_signal(const char *script, struct sbatch_signal *ret);
