/* SPDX-License-Identifier: Apache-2.0
 * See finding.h: what Slurm says of the time that it leaves, and of what it does with the exit
 * code.
 *
 * All of it is asked for by scontrol, which may be missing, hang or print rubbish: then the finding
 * is that it is not known.
 */
#include "base/clock.h"
#include "base/str.h"
#include "config/noticelist.h"
#include "config/signames.h"
#include "doctor/ask.h"
#include "doctor/finding.h"
#include "doctor/sbatch.h"
#include "os/program.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASK_NS    (6 * NS_PER_S) /* all that one check asks for */
#define KEPT_NS   (5 * NS_PER_S) /* of what Slurm leaves, for the end */
#define LEAD_NS   (120 * NS_PER_S)
#define SCONTROL  "scontrol show config"
#define LINUXPROC "proctrack/linuxproc"

enum { TEXT_MAX = 64 * 1024, VALUE_MAX = 128 };

/* --- what scontrol says --- */

/* Each check is a process of its own. */
static int64_t time_left(void)
{
    static int64_t until;
    if (until == 0)
        until = clock_now_ns() + ASK_NS;
    return until - clock_now_ns();
}

static bool ask_scontrol(const char *verb, const char *what, const char *which, char text[TEXT_MAX],
                         struct err *err)
{
    char words[5][VALUE_MAX] = {"scontrol"};
    char *argv[6] = {words[0]};
    const char *rest[] = {verb, what, which, str_is(verb, "write") ? "-" : NULL};
    for (int i = 0, n = 1; i < 4; i++) {
        if (!rest[i])
            continue;
        str_copy(words[n], VALUE_MAX, rest[i]);
        argv[n] = words[n];
        n++;
    }
    return ask(argv, time_left(), text, TEXT_MAX, err);
}

/* Behind "NAME   = " at the beginning of a line; false: there is none. */
static bool find_setting(const char *text, const char *name, char ret[VALUE_MAX])
{
    size_t len = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *at = line + len;
        if (strncmp(line, name, len) != 0 || !strchr(" =", *at) || !*at)
            continue;
        at += strspn(at, " ");
        if (*at != '=')
            continue;
        at += 1 + strspn(at + 1, " ");
        snprintf(ret, VALUE_MAX, "%.*s", (int)strcspn(at, "\n"), at);
        return true;
    }
    return false;
}

/* "30 sec" */
static bool read_seconds(const char *text, int64_t *ret_ns)
{
    char number[16];
    int64_t seconds;
    snprintf(number, sizeof number, "%.*s", (int)strcspn(text, " \n"), text);
    if (!str_to_i64(number, 0, UINT16_MAX, &seconds))
        return false;
    *ret_ns = seconds * NS_PER_S;
    return true;
}

/* The partition's GraceTime; 0: it has none, or that is not known. */
static int64_t partition_grace(void)
{
    static char text[TEXT_MAX];
    static const char name[] = "GraceTime=";
    const char *partition = getenv("SLURM_JOB_PARTITION");
    struct err err;
    int64_t grace = 0;
    if (!partition || !ask_scontrol("show", "partition", partition, text, &err))
        return 0;
    const char *at = strstr(text, name);
    return at && read_seconds(at + sizeof name - 1, &grace) ? grace : 0;
}

static bool is_task(void)
{
    return getenv("SLURM_STEP_NODELIST");
}

/* --- what tells of the end --- */

static void advise_signal(int64_t need_ns, char *text, size_t size)
{
    int64_t lead = need_ns + KEPT_NS > LEAD_NS ? need_ns + KEPT_NS : LEAD_NS;
    int64_t seconds = (lead + 10 * NS_PER_S - 1) / (10 * NS_PER_S) * 10;
    str_addf(text, size, "#SBATCH --signal=%sUSR1@%lld, and --signals USR1=preempt:%llds",
             is_task() ? "" : "B:", (long long)seconds, (long long)(seconds - KEPT_NS / NS_PER_S));
}

/* False: it cannot be told what was asked for. */
static bool find_signal(struct sbatch_signal *ret)
{
    static char text[TEXT_MAX];
    const char *job = getenv("SLURM_JOB_ID");
    struct err err;
    *ret = (struct sbatch_signal){.number = 0};
    if (!job || !ask_scontrol("write", "batch_script", job, text, &err))
        return false;
    sbatch_find_signal(text, ret);
    return true;
}

/* Does pchrun learn of the end by itself? */
static bool asks_slurm(const struct patient *patient)
{
    char path[PATH_MAX];
    struct err err;
    return noticelist_has(patient->config, CONFIG_NOTICE_SLURM) &&
           (getenv("SLURM_JOB_END_TIME") ||
            program_find("squeue", getenv("PATH"), path, sizeof path, &err));
}

/* As the SIGTERM at the end does, but that one comes when it is late anyway. */
static bool reaches_all(const struct sbatch_signal *signal)
{
    static char text[TEXT_MAX];
    char value[VALUE_MAX];
    struct err err;
    return !signal->is_to_shell && is_task() && ask_scontrol("show", "config", NULL, text, &err) &&
           find_setting(text, "ProctrackType", value) && str_is(value, LINUXPROC);
}

/* Why the signal that is asked for does not do; NULL: it does. */
static const char *fault_of(const struct patient *patient, const struct sbatch_signal *signal,
                            bool kills)
{
    int64_t grace = patient_grace(patient, signal->number), save;
    int64_t lead = signal->lead_s * NS_PER_S;
    struct err err;
    if (signal->number == 0)
        return "it is none that pchrun can take for a notice";
    if (signal->is_to_shell && is_task())
        return signal->number == SIGUSR1 || signal->number == SIGUSR2
                   ? "it goes to the batch script, and on to this task only if that is exec srun"
                   : "it goes to the batch script alone, and this is a task of srun";
    if (!signal->is_to_shell && !is_task())
        return "it goes to tasks of srun alone, and this is none";
    if (grace < 0)
        return "it is no notice to pchrun (signals)";
    if (grace > lead)
        return "pchrun counts on more time after it than that";
    if (patient_saves(patient, &save, &err) && save > 0 && patient_need(save, grace) > grace)
        return "saves take longer than pchrun then has";
    if (kills)
        return "it reaches all processes of a task with " LINUXPROC
               ", and ends those that have not attached, such as data loaders";
    return NULL;
}

static void tell_signal(const struct patient *patient, const struct sbatch_signal *signal,
                        struct finding *ret)
{
    char seen[300], advice[300] = "";
    int64_t save = 0;
    struct err err;
    bool kills = reaches_all(signal);
    const char *fault = fault_of(patient, signal, kills);
    snprintf(seen, sizeof seen, "the batch script has --signal=%s, %lld s before the end%s%s",
             signal->text, (long long)signal->lead_s, fault ? ", but " : "", fault ? fault : "");
    if (!fault) {
        finding_set(ret, FINDING_OK, seen, "");
        return;
    }
    if (!patient_saves(patient, &save, &err))
        save = 0;
    if (kills)
        str_addf(advice, sizeof advice, "no --signal%s",
                 asks_slurm(patient) ? ": pchrun asks Slurm when the job's time ends"
                                     : "; add slurm to notices");
    else
        advise_signal(patient_need(save, LEAD_NS), advice, sizeof advice);
    bool may_come = asks_slurm(patient) || (signal->is_to_shell && is_task());
    finding_set(ret, may_come ? FINDING_WARN : FINDING_BAD, seen, advice);
}

void check_notices(const struct patient *patient, struct finding *ret)
{
    struct sbatch_signal signal;
    char advice[400] = "";
    if (!patient_is_in_slurm(patient))
        return;
    bool is_known = find_signal(&signal), is_asked = asks_slurm(patient);
    if (signal.text[0]) {
        tell_signal(patient, &signal, ret);
        return;
    }
    if (is_asked) {
        finding_set(ret, FINDING_OK, "pchrun asks Slurm when the job's time ends", "");
        return;
    }
    str_addf(advice, sizeof advice,
             noticelist_has(patient->config, CONFIG_NOTICE_SLURM)
                 ? "install Slurm's client programs, or "
                 : "add slurm to notices, or ");
    advise_signal(0, advice, sizeof advice);
    finding_set(ret, FINDING_WARN,
                is_known ? "nothing tells of the end of the job's time but Slurm's SIGTERM, "
                           "KillWait before the kill: the batch script has no --signal"
                         : "nothing tells of the end of the job's time but Slurm's SIGTERM, "
                           "KillWait before the kill, unless sbatch was given --signal",
                advice);
}

/* --- how much time it leaves --- */

/* What a preemption leaves beside it. */
static void add_grace_time(char *seen, size_t size)
{
    char text[32];
    int64_t grace = partition_grace();
    if (grace > 0)
        str_addf(seen, size, "; a preemption tells %s %s earlier (GraceTime)%s",
                 is_task() ? "this task" : "tasks of srun", str_about(grace, text, sizeof text),
                 is_task() ? "" : ", but not this");
}

static void say_unknown(const char *value, const struct err *err, struct finding *ret)
{
    char seen[400];
    snprintf(seen, sizeof seen, "KillWait is not known: %.300s",
             err->text[0] ? err->text
             : value[0]   ? value
                          : SCONTROL " does not tell of it");
    finding_set(ret, FINDING_UNKNOWN, seen,
                "it is 30 s at most sites: see " SCONTROL ", and set --grace to 5 s less");
}

static bool is_warned(const struct patient *patient)
{
    struct sbatch_signal signal;
    return asks_slurm(patient) ||
           (find_signal(&signal) && signal.text[0] && !fault_of(patient, &signal, false));
}

/* A save that is longer than this. */
static enum finding_verdict judge_short(const struct patient *patient, int64_t need_ns,
                                        char *advice, size_t size)
{
    bool is_told = is_warned(patient);
    str_addf(advice, size, "%ssave faster; or have %s", advice[0] ? "; and " : "",
             is_told ? "KillWait raised: a preemption and scancel leave no more"
                     : "Slurm tell "
                       "earlier: ");
    if (!is_told)
        advise_signal(need_ns, advice, size);
    return is_told ? FINDING_WARN : FINDING_BAD;
}

void check_kill_wait(const struct patient *patient, struct finding *ret)
{
    static char text[TEXT_MAX];
    char value[VALUE_MAX] = "", left[32], counted[32], took[32], seen[400], advice[400] = "";
    int64_t kill_wait, save = 0, grace = patient_grace(patient, SIGTERM);
    enum finding_verdict verdict = FINDING_OK;
    struct err err = {.text = ""};
    if (!patient_is_in_slurm(patient))
        return;
    if (!ask_scontrol("show", "config", NULL, text, &err) ||
        !find_setting(text, "KillWait", value) || !read_seconds(value, &kill_wait)) {
        say_unknown(value, &err, ret);
        return;
    }
    if (!patient_saves(patient, &save, &err))
        save = 0; /* "grace" says why */
    snprintf(seen, sizeof seen, "Slurm kills %s after SIGTERM (KillWait)",
             str_about(kill_wait, left, sizeof left));
    if (grace >= 0)
        str_addf(seen, sizeof seen, "; pchrun counts on %s",
                 str_about(grace, counted, sizeof counted));
    if (save > 0)
        str_addf(seen, sizeof seen, "; saves have taken %s", str_about(save, took, sizeof took));
    add_grace_time(seen, sizeof seen);
    if (grace > kill_wait) {
        verdict = FINDING_BAD;
        str_addf(advice, sizeof advice, "--grace %llds",
                 (long long)((kill_wait > 2 * KEPT_NS ? kill_wait - KEPT_NS : kill_wait / 2) /
                             NS_PER_S));
    }
    int64_t need = save > 0 ? patient_need(save, kill_wait) : 0;
    if (need > kill_wait && judge_short(patient, need, advice, sizeof advice) == FINDING_BAD)
        verdict = FINDING_BAD;
    else if (need > kill_wait && verdict == FINDING_OK)
        verdict = FINDING_WARN;
    finding_set(ret, verdict, seen, advice);
}

/* --- what becomes of the exit code --- */

/* "42,50-60" */
static bool lists_code(const char *list, int code)
{
    for (const char *at = list; *at; at += *at == ',') {
        char *end;
        long first = strtol(at, &end, 10), last = first;
        if (end == at)
            return false;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        if (first <= code && code <= last)
            return true;
        at = end;
    }
    return false;
}

void check_requeue(const struct patient *patient, struct finding *ret)
{
    static char text[TEXT_MAX];
    char value[VALUE_MAX], seen[256], advice[200] = "";
    int code = patient->config->exit.preempted;
    struct err err;
    if (!patient_is_in_slurm(patient) || patient->config->exit.hook ||
        !ask_scontrol("show", "config", NULL, text, &err) ||
        !find_setting(text, "RequeueExit", value))
        return;
    bool is_listed = lists_code(value, code);
    snprintf(seen, sizeof seen, "Slurm %s a batch job that ends with %d (RequeueExit is %.60s)",
             is_listed ? "puts back" : "does not put back", code, value);
    if (!is_listed)
        snprintf(
            advice, sizeof advice,
            "RequeueExit=%d in slurm.conf, or --exit-hook contrib/slurm/requeue.sh, which asks "
            "Slurm itself",
            code);
    finding_set(ret, is_listed ? FINDING_OK : FINDING_WARN, seen, advice);
}
