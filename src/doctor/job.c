/* SPDX-License-Identifier: Apache-2.0
 * See doctor.h: the command, pchrun's parent processes, and the time that a notice leaves.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "commands/env.h"
#include "config/values.h"
#include "core/common/grace.h"
#include "doctor/doctor.h"
#include "notices/inbox.h"
#include "os/above.h"
#include "os/proc.h"
#include "os/program.h"
#include "record/history.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The part of a script that is searched. */
enum { SCRIPT_MAX = 1024 * 1024 };

bool patient_is_in_slurm(const struct patient *patient)
{
    return patient->config->platform.preset == PRESET_SLURM;
}

void check_command(const struct patient *patient, struct finding *ret)
{
    char path[PATH_MAX];
    struct err err;
    if (!program_find(patient->config->command[0], getenv("PATH"), path, sizeof path, &err))
        finding_set(ret, FINDING_BAD, "%s", err.text);
    else if (!str_is(basename(path), "srun"))
        finding_set(ret, FINDING_OK, "%s", path);
    else {
        finding_set(ret, FINDING_WARN,
                    "what srun starts on other hosts cannot attach to a pchrun on this one, and a "
                    "signal to srun kills what it has started");
        finding_advise(ret, "the other way round: srun pchrun -- command");
    }
}

/* A run does not start without these programs; only the platform's own notice sources may be
 * missing. The process ends afterwards, so nothing is freed. */
void check_programs(const struct patient *patient, struct finding *ret)
{
    const struct config *config = patient->config;
    struct inbox inbox = {0};
    char *const *others[] = {config->exit.hook, config->watchdog.diagnose};
    static const char *const names[] = {"exit.hook", "watchdog.diagnose"};
    bool is_own = !origin_is_given(config, "notices");
    char path[PATH_MAX];
    struct err err;
    if (!inbox_init(&inbox, config, NULL, &err)) {
        finding_set(ret, is_own ? FINDING_WARN : FINDING_BAD, "%s", err.text);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(others) && ret->verdict == FINDING_NONE; i++)
        if (others[i] && !program_find(others[i][0], getenv("PATH"), path, sizeof path, &err))
            finding_set(ret, FINDING_BAD, "%s: %s", names[i], err.text);
}

/* The container or the service sends its SIGTERM to the process that it started: process 1 or its
 * child. Slurm signals its own processes, so skip the check there. */
void check_pid1(const struct patient *patient, struct finding *ret)
{
    struct proc first, parent;
    char program[32], name[32] = "";
    if (patient_is_in_slurm(patient))
        return;
    if (!proc_read(1, &first)) {
        finding_set(ret, FINDING_UNKNOWN, "/proc does not show process 1");
        return;
    }
    above_read_program(&first, program, sizeof program);
    if (!str_is(first.comm, program) && !above_is_shell(first.comm))
        snprintf(name, sizeof name, " (%.20s)", program);
    if (patient->self != 1 && above_is_shell(program)) {
        finding_set(ret, FINDING_BAD, "process 1 is %s, a shell%s, which hands no signal on",
                    first.comm, name);
        finding_advise(ret, "in a container: let pchrun be the command itself, as a list of words, "
                            "or write exec before it");
    } else if (patient->self != 1 && above_find_shell(patient->parent, &parent)) {
        finding_set(ret, FINDING_WARN,
                    "process 1 is %s; below it a shell (%s, process %d) has started this one",
                    first.comm, parent.comm, (int)parent.pid);
        finding_advise(ret,
                       "the shell dies of a SIGTERM and passes none on: write exec before pchrun");
    } else {
        finding_set(ret, FINDING_OK, "process 1 is %s%s", first.comm,
                    patient->self == 1 ? ", this one" : "");
    }
}

/* --- the shell of a batch script --- */

#define SLURMSTEPD   "slurmstepd"   /* the parent of all that Slurm starts on a node */
#define SLURM_SCRIPT "slurm_script" /* Slurm's name for its copy of the batch script */

/* Finds a shell between pchrun and slurmstepd. A shell above slurmstepd, or without slurmstepd, may
 * be a user's. */
static bool find_shell_above(const struct patient *patient, struct proc *ret)
{
    enum { DEPTH_MAX = 64 };
    struct proc at = {.ppid = patient->parent};
    *ret = (struct proc){.pid = 0};
    for (int depth = 0; depth < DEPTH_MAX && proc_read(at.ppid, &at); depth++) {
        char program[32];
        if (str_is(at.comm, SLURMSTEPD))
            return ret->pid && !above_has_terminal();
        above_read_program(&at, program, sizeof program);
        if (str_is(at.comm, SLURM_SCRIPT) || (!ret->pid && above_is_shell(program)))
            *ret = at;
        if (str_is(at.comm, SLURM_SCRIPT))
            return true;
    }
    return false;
}

/* True for the batch script's process: its environment names this job, and no step of it. */
static bool has_env_of_batch(pid_t pid)
{
    char ours[64];
    snprintf(ours, sizeof ours, "SLURM_JOB_ID=%.40s", getenv("SLURM_JOB_ID"));
    return proc_has_env(pid, ours) && !proc_has_env(pid, "SLURM_STEP_NODELIST");
}

/* False: the batch script does not run on this node, or /proc does not show it. */
static bool find_batch_process(struct proc *ret)
{
    bool is_found = false;
    DIR *dir = opendir("/proc");
    struct proc parent;
    pid_t pid;
    while (dir && !is_found && (pid = proc_next(dir)))
        is_found = proc_read(pid, ret) && proc_read(ret->ppid, &parent) &&
                   str_is(parent.comm, SLURMSTEPD) && has_env_of_batch(ret->pid);
    if (dir)
        closedir(dir);
    return is_found;
}

/* The parents of a task are only srun and Slurm, so search all processes for the batch script. */
static void look_for_waiting_shell(struct finding *ret)
{
    struct proc batch;
    char program[32];
    if (!find_batch_process(&batch)) {
        finding_set(ret, FINDING_UNKNOWN,
                    "no batch script of this job is seen on this node; where it runs, a shell may "
                    "wait for srun");
        return;
    }
    above_read_program(&batch, program, sizeof program);
    if (!str_is(batch.comm, SLURM_SCRIPT) && !above_is_shell(program)) {
        finding_set(ret, FINDING_OK, "no shell of the batch script waits for srun");
        return;
    }
    finding_set(ret, FINDING_WARN,
                "the shell of the batch script (process %d) waits for srun; it dies of Slurm's "
                "SIGTERM, and its code is the job's",
                (int)batch.pid);
    finding_advise(ret, "end the script with exec srun pchrun ...");
}

void check_batch(const struct patient *patient, struct finding *ret)
{
    struct proc shell;
    bool is_task = getenv("SLURM_STEP_NODELIST");
    if (!getenv("SLURM_JOB_ID"))
        return;
    if (find_shell_above(patient, &shell)) {
        finding_set(ret, FINDING_WARN,
                    "the shell of %s (process %d) has started this; it dies of Slurm's SIGTERM, "
                    "and its code is the job's",
                    is_task ? "this task" : "the batch script", (int)shell.pid);
        finding_advise(ret, is_task
                                ? "write exec before pchrun there"
                                : "end the script with exec pchrun ..., or exec srun pchrun ...");
    } else if (is_task) {
        look_for_waiting_shell(ret);
    } else {
        finding_set(ret, FINDING_OK, "no shell of a batch script is between Slurm and pchrun");
    }
}

/* The doctor's own output may be read by other programs than the job's will be. */
void check_pipeline(const struct patient *patient, struct finding *ret)
{
    struct proc reader;
    if (above_has_terminal() || !above_find_reader(patient->self, patient->parent, &reader))
        return;
    finding_set(ret, FINDING_WARN,
                "standard output goes to %s (process %d): the exit code is that of the pipeline's "
                "last command, and a notice may end that before the job",
                reader.comm, (int)reader.pid);
    finding_advise(ret, "--logs-dir instead of tee; or in bash set -o pipefail");
}

/* timeout(1) ends with 124 when its time is over, whatever pchrun's exit code is. */
void check_timeout(const struct patient *patient, struct finding *ret)
{
    struct proc above;
    char path[64], words[512] = "";
    if (!proc_read(patient->parent, &above) || !str_is(above.comm, "timeout"))
        return;
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)above.pid);
    ssize_t n = fd_read_text(path, words, sizeof words);
    if (n > 0 && memmem(words, (size_t)n, "--preserve-status", sizeof "--preserve-status"))
        return;
    finding_set(ret, FINDING_WARN,
                "timeout (process %d) has started this: when its time is over, its exit code is "
                "124, and pchrun's is lost",
                (int)above.pid);
    finding_advise(ret, "timeout --preserve-status, or a time limit of the scheduler");
}

/* Adds a note if the job relies on a guess of the time that a notice leaves. */
static void say_if_guess(const struct config *config, int64_t grace, struct finding *ret)
{
    char left[32];
    if (config->save.train_on != TRAIN_ON_AUTO || !config_is_guess(config, 0) ||
        grace != config->grace_ns)
        return;
    str_addf(ret->seen, sizeof ret->seen,
             "; %s is a guess, so after a signal the job saves and leaves at once",
             str_about(grace, left, sizeof left));
    finding_advise(ret, "%sset --grace to what the platform leaves, less 5 s, to train on",
                   ret->advice[0] ? "; and " : "");
}

int64_t patient_saves(const struct patient *patient, struct err *err)
{
    struct history history = {.job = config_job_identity(patient->config)};
    char path[PATH_MAX] = "";
    if (patient->state_dir)
        snprintf(path, sizeof path, "%s/" HISTORY_FILE, patient->state_dir);
    return path[0] && !history_read_commits(&history, path, err) ? -1 : history.save_ns;
}

int64_t patient_need(int64_t save_ns, int64_t grace_ns)
{
    return save_ns > 0 ? grace_save_need(save_ns, save_ns) + grace_reserve(grace_ns) : 0;
}

void check_grace(const struct patient *patient, struct finding *ret)
{
    struct err err;
    int64_t grace = config_least_grace(patient->config), save = patient_saves(patient, &err);
    char left[32], took[32], needed[32];
    str_about(grace, left, sizeof left);
    if (save < 0) {
        finding_set(ret, FINDING_UNKNOWN,
                    "a notice leaves %s; see state_dir why the times of earlier saves are unknown",
                    left);
        return;
    }
    if (save == 0) {
        finding_set(ret, FINDING_UNKNOWN,
                    "a notice leaves %s; how long a save takes is not known yet", left);
        finding_advise(ret, "try it: pchrun --drill TIME -- command");
        say_if_guess(patient->config, grace, ret);
        return;
    }
    int64_t need = patient_need(save, grace);
    finding_set(ret, need > grace ? FINDING_BAD : FINDING_OK,
                "a notice leaves %s; saves have taken %s", left,
                str_about(save, took, sizeof took));
    if (need > grace)
        finding_advise(
            ret, "make the platform leave at least %s, and set --grace to that; or save faster",
            str_about(need, needed, sizeof needed));
    say_if_guess(patient->config, grace, ret);
}

/* The command's Python script; NULL: none is seen. */
static const char *find_script(char *const *command)
{
    for (; *command; command++)
        if (program_is_python(*command))
            return *command;
    return NULL;
}

/* A module that the script imports may attach, so a script without libpch is only a hint. A job
 * that has saved before does attach. */
void check_attach(const struct patient *patient, struct finding *ret)
{
    static char text[SCRIPT_MAX];
    const struct config *config = patient->config;
    const char *script = find_script(config->command);
    struct err err;
    bool must_attach = config->save.mode == SAVE_ATTACH && !config->instrument;
    if (!must_attach || !script || patient_saves(patient, &err) != 0 ||
        fd_read_text(script, text, sizeof text) <= 0 || strstr(text, "pch"))
        return;
    finding_set(ret, FINDING_UNKNOWN,
                "%.300s does not name pch: unless a module of it attaches, a notice saves nothing",
                script);
    finding_advise(ret, "--instrument for Trainer, Lightning and Keras; pch.attach(); or "
                        "--save-mode signal");
}

/* Also finds torchrun under other names: "env A=1 torchrun", "python -m torch.distributed.run",
 * "accelerate launch". */
static bool has_torchrun(char *const *command)
{
    for (; *command; command++) {
        const char *name = basename(*command);
        if (str_is(name, "torchrun") || str_is(name, "torch.distributed.run") ||
            str_is(name, "torch.distributed.launch") ||
            (str_is(name, "accelerate") && command[1] && str_is(command[1], "launch")))
            return true;
    }
    return false;
}

/* pchrun tells torchrun how long to wait, unless the user does; an old torchrun ignores that. */
void check_torchrun(const struct patient *patient, struct finding *ret)
{
    const char *set = getenv(ENV_SHUTDOWN);
    int told_s = env_shutdown_s(patient->config);
    int grace_s = (int)((patient->config->grace_ns + NS_PER_S - 1) / NS_PER_S);
    int64_t wait_s = ENV_SHUTDOWN_S;
    if (!has_torchrun(patient->config->command))
        return;
    if (told_s == 0 && !str_to_i64(set, 0, INT32_MAX, &wait_s))
        wait_s = ENV_SHUTDOWN_S;
    if (wait_s < grace_s && told_s > 0) {
        finding_set(ret, FINDING_UNKNOWN,
                    "pchrun tells torchrun to give its workers %d s to end; before PyTorch 2.12 "
                    "torchrun gives %d",
                    told_s, ENV_SHUTDOWN_S);
        finding_advise(ret, "PyTorch 2.12, or let pchrun start the ranks: -n");
        return;
    }
    finding_set(ret, wait_s < grace_s ? FINDING_WARN : FINDING_OK,
                "after a SIGTERM torchrun kills its workers in %d s; a notice leaves %d s",
                (int)wait_s, grace_s);
    if (wait_s < grace_s)
        finding_advise(ret, "unset " ENV_SHUTDOWN ", which pchrun then sets");
}
