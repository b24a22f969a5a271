/* SPDX-License-Identifier: Apache-2.0
 *
 * finding: what one check of the doctor found, and what it looks at. Pure values.
 */
#ifndef PCHRUN_DOCTOR_FINDING_H
#define PCHRUN_DOCTOR_FINDING_H

#include "config/config.h"

#include <sys/types.h>

enum finding_verdict {
    FINDING_OK,
    FINDING_WARN,    /* it may go wrong */
    FINDING_BAD,     /* it will */
    FINDING_UNKNOWN, /* it cannot be told from here */
    FINDING_NONE,    /* there is nothing to look at: it is not shown */
    FINDING__COUNT
};

/* Goes through a pipe as it is: no pointers, and less than PIPE_BUF. */
struct finding {
    enum finding_verdict verdict;
    char seen[512];   /* what was looked at, and what there is */
    char advice[512]; /* what to change; "": nothing */
};

/* Where it looks. */
struct patient {
    const struct config *config;
    const char *state_dir; /* NULL: none */
    pid_t self, parent;    /* pchrun, and who has started it */
};

/* A check fills in a finding, which is FINDING_NONE and empty. It runs in a child of its own, so it
 * may block and allocate, and owns nothing afterwards. */
typedef void check_fn(const struct patient *patient, struct finding *ret);

/* Sets all three; `seen` and `advice` are formatted by the caller before, where they hold values.
 */
void finding_set(struct finding *ret, enum finding_verdict verdict, const char *seen,
                 const char *advice);

/* What several checks want to know (job.c). */
bool patient_is_in_slurm(const struct patient *patient);
/* How much time this signal leaves; -1: it is no notice. */
int64_t patient_grace(const struct patient *patient, int number);
/* How long saves have taken, 0: not known. False: the record cannot be read. */
MUST_CHECK bool patient_saves(const struct patient *patient, int64_t *ret_ns, struct err *err);
/* How much time a notice has to leave for such a save; of `grace_ns` some is kept for the end. */
int64_t patient_need(int64_t save_ns, int64_t grace_ns);

/* job.c: the command, who started us, and how much time there is. */
check_fn check_command, check_programs, check_pid1, check_batch, check_grace, check_torchrun;
/* slurm.c: what Slurm says of that. */
check_fn check_kill_wait, check_notices, check_requeue;
/* place.c: directories, the key, and what the system allows. */
check_fn check_run_dir, check_state_dir, check_checkpoint_dir, check_logs_dir, check_key,
    check_cgroup, check_files, check_core;
/* sources.c */
check_fn check_sources;
/* peers.c */
check_fn check_nodes, check_peers;

#endif
