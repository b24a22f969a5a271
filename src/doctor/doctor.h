/* SPDX-License-Identifier: Apache-2.0
 *
 * doctor: `pchrun --doctor -- command`: checks what would go wrong here when a notice comes, says
 * what to change, and does not run the command.
 *
 * One table lists the checks. They use what a run uses: the same configuration, key file,
 * directories, control group and addresses. Each check runs in a forked child, since a dead file
 * system or server must not block the doctor. A check without an answer in time is a finding, too.
 * Checks remove what they make. Owns nothing afterwards; a killed child may still hang in a dead
 * file system. Main thread.
 */
#pragma once

#include "base/str.h"
#include "config/config.h"

#include <stdio.h>
#include <sys/types.h>

/* Worse verdicts come last. */
MUST_CHECK int doctor_run(struct config *config, FILE *out, struct err *err);

/* --- findings --- */

/* The worse ones last. */
enum finding_verdict {
    FINDING_NONE, /* nothing to check: not shown */
    FINDING_OK,
    FINDING_UNKNOWN, /* the doctor cannot find out */
    FINDING_WARN,    /* something may go wrong */
    FINDING_BAD,     /* something will go wrong */
    FINDING__COUNT
};
extern const char *const finding_names[FINDING__COUNT]; /* "ok"; in sourcecheck.c */

/* Goes through a pipe as bytes: no pointers, and less than PIPE_BUF. */
struct finding {
    enum finding_verdict verdict;
    char seen[512];   /* what was checked, and the result */
    char advice[512]; /* what to change; "": nothing */
};

/* The run that the checks examine. */
struct patient {
    const struct config *config;
    const char *state_dir; /* NULL: none */
    pid_t self, parent;    /* pchrun, and the process that started it */
    int64_t begun_at;      /* the doctor */
};

/* A check gets a finding that is FINDING_NONE and empty, and fills it in. It runs in its own child,
 * so it may block and allocate, and frees nothing. */
typedef void check_fn(const struct patient *patient, struct finding *ret);

static inline void finding_make_worse(struct finding *ret, enum finding_verdict verdict)
{
    ret->verdict = verdict > ret->verdict ? verdict : ret->verdict;
}
/* Sets the verdict and `seen`, and clears the advice. */
#define finding_set(ret, worth, ...)                \
    (*(ret) = (struct finding){.verdict = (worth)}, \
     str_addf((ret)->seen, sizeof(ret)->seen, __VA_ARGS__))
/* Appends to the advice. */
#define finding_advise(ret, ...) str_addf((ret)->advice, sizeof(ret)->advice, __VA_ARGS__)

/* Shared by several checks (job.c). */
bool patient_is_in_slurm(const struct patient *patient);
/* How long saves have taken; 0: unknown; -1: the record cannot be read, see *err. */
MUST_CHECK int64_t patient_saves(const struct patient *patient, struct err *err);
/* How much time a notice must leave: for a save of `save_ns`, and the part of `grace_ns` that is
 * kept for the end. 0: unknown. */
int64_t patient_need(int64_t save_ns, int64_t grace_ns);

/* job.c: the command, its parent processes, and the time that a notice leaves. */
check_fn check_command, check_programs, check_attach, check_pid1, check_batch, check_pipeline,
    check_timeout, check_grace, check_torchrun;
/* slurmcheck.c: the time that Slurm leaves, and what it does with the exit code. */
check_fn check_kill_wait, check_notices, check_requeue;
/* place.c: directories, the key, what the system allows, and the other nodes. */
check_fn check_run_dir, check_state_dir, check_checkpoint_dir, check_logs_dir, check_key,
    check_cgroup, check_files, check_core, check_nodes, check_names, check_peers, check_replace;
/* sourcecheck.c */
check_fn check_sources;
/* healthcheck.c */
check_fn check_health, check_health_gpu;

/* --- runprogram.c: runs a program and reads what it prints --- */

/* All programs that this child of the doctor asks have so much time, from the doctor's begin. The
 * doctor's own wait begins then, too: a child that gets no processor for a while is not late. */
#define ASK_NS (6 * NS_PER_S)
void ask_until(int64_t until);

/* Looks for `argv` in PATH. Stores the output in `text`, cut to `size` and ended by NUL. The
 * program may be missing, hang, print without end, or leave other processes behind; in each case
 * the caller goes on by its deadline. Before a signal ends this child of the doctor, it ends the
 * program and its process group. Returns the status as of wait(2); REAP_LOST: the program cannot be
 * run, or has not ended in time. */
MUST_CHECK int ask_status(char **argv, int64_t wait_ns, char *text, size_t size, struct err *err);
/* The same. False also if it has printed nothing, for example because it failed. */
MUST_CHECK bool ask(char **argv, int64_t wait_ns, char *text, size_t size, struct err *err);
