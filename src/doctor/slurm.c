/* SPDX-License-Identifier: Apache-2.0
 * See finding.h: how much time Slurm leaves, and what it does with the exit code.
 *
 * Most answers come from scontrol, which may be missing, hang or print garbage: then the finding is
 * "unknown". Details of a finding are then left out.
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

#define ASK_NS    (6 * NS_PER_S) /* for all questions of one check */
#define KEPT_NS   (5 * NS_PER_S) /* kept back for the end, out of what Slurm leaves */
#define LEAD_NS   (120 * NS_PER_S)
#define LEAST_NS  (2 * NS_PER_S) /* a shorter KillWait leaves no time to count on */
#define SCONTROL  "scontrol show config"
#define LINUXPROC "proctrack/linuxproc"

enum { TEXT_MAX = 64 * 1024, VALUE_MAX = 128, WORDS_MAX = 7 };

/* --- the answers of Slurm's programs --- */

/* One deadline per check: each check is its own process. */
static int64_t doctor_slurm_time_left(void)
{
    static int64_t until;
    if (until == 0)
        until = clock_now_ns() + ASK_NS;
    return until - clock_now_ns();
}

/* `words` ends with NULL. */
static bool ask_words(const char *const *words, char text[TEXT_MAX], struct err *err)
{
    char copies[WORDS_MAX][VALUE_MAX];
    char *argv[WORDS_MAX + 1] = {NULL};
    for (int i = 0; i < WORDS_MAX && words[i]; i++) {
        str_copy(copies[i], VALUE_MAX, words[i]);
        argv[i] = copies[i];
    }
    return ask(argv, doctor_slurm_time_left(), text, TEXT_MAX, err);
}

static bool ask_scontrol(const char *verb, const char *what, const char *which, char text[TEXT_MAX],
                         struct err *err)
{
    const char *rest = which && str_is(verb, "write") ? "-" : NULL;
    return ask_words((const char *const[]){"scontrol", verb, what, which, rest, NULL}, text, err);
}

/* The text after "NAME   = " at the start of a line; false: none. */
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
static bool doctor_read_seconds(const char *text, int64_t *ret_ns)
{
    char number[16];
    int64_t seconds;
    snprintf(number, sizeof number, "%.*s", (int)strcspn(text, " \n"), text);
    if (!str_to_i64(number, 0, UINT16_MAX, &seconds))
        return false;
    *ret_ns = seconds * NS_PER_S;
    return true;
}

/* The text after "NAME=" up to a space, for the job's partition; false: none, or unknown. */
static bool find_of_partition(const char *name, char ret[VALUE_MAX])
{
    static char text[TEXT_MAX];
    char wanted[32];
    const char *partition = getenv("SLURM_JOB_PARTITION");
    struct err err;
    if (!partition || !ask_scontrol("show", "partition", partition, text, &err))
        return false;
    snprintf(wanted, sizeof wanted, " %s=", name);
    const char *at = strstr(text, wanted);
    if (!at)
        return false;
    at += strlen(wanted);
    snprintf(ret, VALUE_MAX, "%.*s", (int)strcspn(at, " \n"), at);
    return true;
}

/* 0: none, or unknown. */
static int64_t partition_grace(void)
{
    char value[VALUE_MAX];
    int64_t grace = 0;
    return find_of_partition("GraceTime", value) && doctor_read_seconds(value, &grace) ? grace : 0;
}

/* Only the accounting database knows it: "00:02:00", "1-00:00:00". 0: none, or unknown. */
static int64_t qos_grace(void)
{
    static char text[TEXT_MAX];
    char wanted[VALUE_MAX];
    unsigned days = 0, hours, minutes, seconds;
    const char *qos = getenv("SLURM_JOB_QOS");
    struct err err;
    snprintf(wanted, sizeof wanted, "name=%s", qos ? qos : "");
    const char *const words[] = {"sacctmgr", "--noheader", "--parsable2",      "show",
                                 "qos",      wanted,       "format=GraceTime", NULL};
    if (!qos || !*qos || !ask_words(words, text, &err) ||
        (sscanf(text, "%4u-%2u:%2u:%2u", &days, &hours, &minutes, &seconds) != 4 &&
         (days = 0, sscanf(text, "%2u:%2u:%2u", &hours, &minutes, &seconds) != 3)))
        return 0;
    return (((days * 24 + hours) * INT64_C(60) + minutes) * 60 + seconds) * NS_PER_S;
}

/* How long Slurm lets a job run beyond its time limit: the partition's value, else the general one.
 * CLOCK_NEVER: without a limit. */
static int64_t over_time(void)
{
    static char text[TEXT_MAX];
    char value[VALUE_MAX] = "";
    int64_t minutes = 0;
    struct err err;
    bool is_own = find_of_partition("OverTimeLimit", value) && !str_is(value, "NONE");
    if (!is_own && (!ask_scontrol("show", "config", NULL, text, &err) ||
                    !find_setting(text, "OverTimeLimit", value)))
        return 0;
    if (str_is(value, "UNLIMITED"))
        return CLOCK_NEVER;
    value[strcspn(value, " ")] = '\0'; /* "5 min" */
    return str_to_i64(value, 0, UINT16_MAX, &minutes) ? minutes * 60 * NS_PER_S : 0;
}

static bool is_task(void)
{
    return getenv("SLURM_STEP_NODELIST");
}

/* --- what announces the end --- */

static void advise_signal(int64_t need_ns, char *text, size_t size)
{
    int64_t lead = need_ns + KEPT_NS > LEAD_NS ? need_ns + KEPT_NS : LEAD_NS;
    int64_t seconds = (lead + 10 * NS_PER_S - 1) / (10 * NS_PER_S) * 10;
    str_addf(text, size, "#SBATCH --signal=%sUSR1@%lld, and --signals USR1=preempt:%llds",
             is_task() ? "" : "B:", (long long)seconds, (long long)(seconds - KEPT_NS / NS_PER_S));
}

/* "Command=/home/me/job.sh its arguments": "job.sh"; "": none, or unknown. */
static void find_script_name(const char *job, char ret[VALUE_MAX])
{
    static char text[TEXT_MAX];
    struct err err;
    ret[0] = '\0';
    const char *at =
        ask_scontrol("show", "job", job, text, &err) ? strstr(text, " Command=") : NULL;
    if (!at)
        return;
    at += strlen(" Command=");
    size_t len = strcspn(at, " \n");
    for (const char *slash; (slash = memchr(at, '/', len)); at = slash + 1)
        len -= (size_t)(slash + 1 - at);
    snprintf(ret, VALUE_MAX, "%.*s", (int)len, at);
}

/* Only the accounting database knows the command line of sbatch, and only after a while. False:
 * unknown. */
static bool find_on_command_line(const char *job, struct sbatch_signal *ret)
{
    static char text[TEXT_MAX];
    char wanted[VALUE_MAX], script[VALUE_MAX];
    struct err err;
    snprintf(wanted, sizeof wanted, "--jobs=%.60s", job);
    const char *const words[] = {"sacct", "--noheader",          "--parsable2", "--allocations",
                                 wanted,  "--format=SubmitLine", NULL};
    *ret = (struct sbatch_signal){.number = 0};
    if (!ask_words(words, text, &err) || !text[0])
        return false;
    find_script_name(job, script);
    sbatch_read_command(text, script, ret);
    return true;
}

/* The command line overrides the environment of sbatch, which overrides the script. *ret_is_sure:
 * all of them are known. */
static void find_signal(struct sbatch_signal *ret, bool *ret_is_sure)
{
    static char text[TEXT_MAX];
    const char *job = getenv("SLURM_JOB_ID"), *variable = getenv("SBATCH_SIGNAL");
    struct sbatch_signal given;
    struct err err;
    *ret = (struct sbatch_signal){.number = 0};
    *ret_is_sure = false;
    if (!job)
        return;
    bool has_script = ask_scontrol("write", "batch_script", job, text, &err);
    if (has_script)
        sbatch_find_signal(text, ret);
    if (variable && *variable)
        sbatch_read_signal(variable, ret);
    *ret_is_sure = find_on_command_line(job, &given) && has_script;
    if (given.text[0])
        *ret = given;
}

/* Does pchrun ask Slurm for the end of the job's time? */
static bool asks_slurm(const struct patient *patient)
{
    char path[PATH_MAX];
    struct err err;
    return noticelist_has(patient->config, CONFIG_NOTICE_SLURM) &&
           (getenv("SLURM_JOB_END_TIME") ||
            program_find("squeue", getenv("PATH"), path, sizeof path, &err));
}

/* With linuxproc the signal reaches all processes of a task. The final SIGTERM does, too, but then
 * little time is left anyway. */
static bool reaches_all(const struct sbatch_signal *signal)
{
    static char text[TEXT_MAX];
    char value[VALUE_MAX];
    struct err err;
    return !signal->is_to_shell && is_task() && ask_scontrol("show", "config", NULL, text, &err) &&
           find_setting(text, "ProctrackType", value) && str_is(value, LINUXPROC);
}

/* The signal goes to the batch script, which srun has replaced (exec srun). */
static bool kills_tasks(const struct sbatch_signal *signal)
{
    return signal->is_to_shell && is_task() &&
           (signal->number == SIGTERM || signal->number == SIGHUP || signal->number == SIGQUIT);
}

/* Why the requested signal is no good; NULL: it is good. */
static const char *fault_of(const struct patient *patient, const struct sbatch_signal *signal,
                            bool kills)
{
    int64_t grace = config_grace(patient->config, signal->number), save;
    int64_t lead = signal->lead_s * NS_PER_S;
    struct err err;
    if (signal->number == 0)
        return "it is none that pchrun can take for a notice";
    if (kills_tasks(signal))
        return "it goes to the batch script, and srun in its place kills this task at once";
    if (signal->is_to_shell && is_task())
        return signal->number == SIGUSR1 || signal->number == SIGUSR2
                   ? "it goes to the batch script, and on to this task only if that is exec srun"
                   : "it goes to the batch script alone, and this is a task of srun";
    if (!signal->is_to_shell && !is_task())
        return "it goes to tasks of srun alone, and this is none";
    if (grace < 0)
        return "it is no notice to pchrun (signals); a rank that gets it dies of it, unless it "
               "catches it";
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
                        bool is_sure, struct finding *ret)
{
    char seen[300], advice[300] = "";
    int64_t save = 0;
    struct err err;
    bool kills = reaches_all(signal);
    const char *fault = fault_of(patient, signal, kills);
    snprintf(seen, sizeof seen, "%s --signal=%s, %lld s before the end%s%s", signal->where,
             signal->text, (long long)signal->lead_s, fault ? ", but " : "",
             fault     ? fault
             : is_sure ? ""
                       : ", unless sbatch was given another");
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
    bool may_come =
        !kills_tasks(signal) && (asks_slurm(patient) || (signal->is_to_shell && is_task()));
    finding_set(ret, may_come ? FINDING_WARN : FINDING_BAD, seen, advice);
}

/* squeue reports the job's time limit, even if Slurm ends the job later. */
static void tell_asked(struct finding *ret)
{
    char seen[256] = "pchrun asks Slurm when the job's time ends", text[32];
    int64_t over = over_time();
    if (over == CLOCK_NEVER)
        str_addf(seen, sizeof seen,
                 "; Slurm itself ends no job then (OverTimeLimit is UNLIMITED), but pchrun does");
    else if (over > 0)
        str_addf(seen, sizeof seen,
                 "; Slurm itself lets it run %s longer (OverTimeLimit), which pchrun does not use",
                 str_about(over, text, sizeof text));
    finding_set(ret, FINDING_OK, seen, "");
}

void check_notices(const struct patient *patient, struct finding *ret)
{
    struct sbatch_signal signal;
    char advice[400] = "";
    if (!patient_is_in_slurm(patient))
        return;
    bool is_sure, is_asked = asks_slurm(patient);
    find_signal(&signal, &is_sure);
    if (signal.text[0]) {
        tell_signal(patient, &signal, is_sure, ret);
        return;
    }
    if (is_asked) {
        tell_asked(ret);
        return;
    }
    if (over_time() == CLOCK_NEVER) {
        finding_set(ret, FINDING_OK,
                    "Slurm ends no job at its limit of time (OverTimeLimit is UNLIMITED)", "");
        return;
    }
    str_addf(advice, sizeof advice,
             noticelist_has(patient->config, CONFIG_NOTICE_SLURM)
                 ? "install Slurm's client programs, or "
                 : "add slurm to notices, or ");
    advise_signal(0, advice, sizeof advice);
    finding_set(ret, FINDING_WARN,
                is_sure ? "only Slurm's SIGTERM announces the end of the job's time, "
                          "KillWait before the kill: there is no --signal"
                        : "only Slurm's SIGTERM announces the end of the job's time, "
                          "KillWait before the kill, unless sbatch was given --signal",
                advice);
}

/* --- how much time Slurm leaves --- */

/* Adds the time that a preemption leaves in addition, by the partition or the QOS. */
static void add_grace_time(const char *config, char *seen, size_t size)
{
    char text[32], type[VALUE_MAX];
    bool is_qos = find_setting(config, "PreemptType", type) && str_is(type, "preempt/qos");
    int64_t grace = is_qos ? qos_grace() : partition_grace();
    if (grace > 0)
        str_addf(seen, size, "; a preemption tells %s %s earlier (GraceTime%s)%s",
                 is_task() ? "this task" : "tasks of srun", str_about(grace, text, sizeof text),
                 is_qos ? " of its QOS" : "", is_task() ? "" : ", but not this");
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
    bool is_sure;
    if (asks_slurm(patient))
        return true;
    find_signal(&signal, &is_sure);
    return signal.text[0] && !fault_of(patient, &signal, false);
}

/* The verdict if a save takes longer than KillWait. */
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

/* The verdict for a KillWait that is too short for any --grace. */
static enum finding_verdict judge_none(const struct patient *patient, char *advice, size_t size)
{
    bool is_told = is_warned(patient);
    str_addf(advice, size, "have KillWait raised (its default is 30 s)%s",
             is_told ? ": a preemption and scancel leave no time for a save"
                     : "; or have Slurm tell earlier: ");
    if (!is_told)
        advise_signal(0, advice, size);
    return is_told ? FINDING_WARN : FINDING_BAD;
}

void check_kill_wait(const struct patient *patient, struct finding *ret)
{
    static char text[TEXT_MAX];
    char value[VALUE_MAX] = "", left[32], counted[32], took[32], seen[400], advice[400] = "";
    int64_t kill_wait, save = 0, grace = config_grace(patient->config, SIGTERM);
    enum finding_verdict verdict = FINDING_OK;
    struct err err = {.text = ""};
    if (!patient_is_in_slurm(patient))
        return;
    if (!ask_scontrol("show", "config", NULL, text, &err) ||
        !find_setting(text, "KillWait", value) || !doctor_read_seconds(value, &kill_wait)) {
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
    add_grace_time(text, seen, sizeof seen);
    if (kill_wait < LEAST_NS) {
        verdict = judge_none(patient, advice, sizeof advice);
        finding_set(ret, verdict, seen, advice);
        return;
    }
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

/* --- the exit code --- */

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
    int code = patient->config->exit.codes.preempted;
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
