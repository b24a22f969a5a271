/* SPDX-License-Identifier: Apache-2.0
 * See doctor.h: how much time Slurm leaves, and what it does with the exit code.
 *
 * Most answers come from scontrol, which may be missing, hang or print garbage: then the finding is
 * "unknown", or has less detail.
 */
#include "base/clock.h"
#include "base/sigtext.h"
#include "base/str.h"
#include "config/noticelist.h"
#include "config/rules.h"
#include "doctor/doctor.h"
#include "health/health.h"
#include "os/program.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEPT_NS   (5 * NS_PER_S) /* the part of Slurm's time that is kept for the end */
#define LEAD_NS   (120 * NS_PER_S)
#define LEAST_NS  (2 * NS_PER_S) /* with a shorter KillWait no save can be counted on */
#define SCONTROL  "scontrol show config"
#define LINUXPROC "proctrack/linuxproc"
#define SBATCH    "#SBATCH"
#define OPTION    "--signal"

enum { LEAD_S = 60 }; /* of --signal; Slurm's default, if no time is given */
enum { TEXT_MAX = 64 * 1024, VALUE_MAX = 128, COMMAND_MAX = 4096 };

/* --- the answers of Slurm's programs --- */

/* Asks a program of Slurm. The text is valid until the next question; NULL: see *err. */
static const char *ask_slurm(const char *const *words, struct err *err)
{
    static char text[TEXT_MAX];
    return ask((char **)words, ASK_NS, text, sizeof text, err) ? text : NULL;
}
#define ASK_SLURM(err, ...) ask_slurm((const char *const[]){__VA_ARGS__, NULL}, err)

/* Finds "NAME=" or "NAME = " at the start or after a separator; copies the value up to the next. */
static bool find_value(const char *text, const char *name, const char *separators, char *ret,
                       size_t size)
{
    for (const char *at = text; (at = strstr(at, name)); at++) {
        const char *value = at + strlen(name);
        value += strspn(value, " ");
        if (*value != '=' || (at > text && !strchr(separators, at[-1])))
            continue;
        value += 1 + strspn(value + 1, " ");
        snprintf(ret, size, "%.*s", (int)strcspn(value, separators), value);
        return true;
    }
    return false;
}

/* Reads a setting of Slurm. False: there is none, or *err says why it is unknown. */
static bool ask_setting(const char *name, char ret[VALUE_MAX], struct err *err)
{
    static char config[TEXT_MAX];
    if (!config[0])
        str_copy(config, sizeof config, ASK_SLURM(err, "scontrol", "show", "config"));
    return find_value(config, name, "\n", ret, VALUE_MAX);
}

/* "30 sec", "5 min": the number in that unit. -1: not such a text. */
static int64_t doctor_read_time(const char *text, int64_t unit_ns)
{
    char number[16];
    int64_t units;
    snprintf(number, sizeof number, "%.*s", (int)strcspn(text, " \n"), text);
    return str_to_i64(number, 0, UINT16_MAX, &units) ? units * unit_ns : -1;
}

/* Reads a setting of the job's partition. False: none, or unknown. */
static bool find_of_partition(const char *name, char ret[VALUE_MAX])
{
    const char *partition = getenv("SLURM_JOB_PARTITION");
    struct err err;
    const char *text =
        partition ? ASK_SLURM(&err, "scontrol", "show", "partition", partition) : NULL;
    return text && find_value(text, name, " \n", ret, VALUE_MAX);
}

/* 0 or less: none, or unknown. */
static int64_t partition_grace(void)
{
    char value[VALUE_MAX];
    return find_of_partition("GraceTime", value) ? doctor_read_time(value, NS_PER_S) : 0;
}

/* The GraceTime of the job's QOS, from the accounting database: "00:02:00", "1-00:00:00". 0: none,
 * or unknown. */
static int64_t qos_grace(void)
{
    char wanted[VALUE_MAX];
    unsigned days = 0, hours, minutes, seconds;
    const char *qos = getenv("SLURM_JOB_QOS");
    struct err err;
    if (!qos || !*qos)
        return 0;
    snprintf(wanted, sizeof wanted, "name=%s", qos);
    const char *text = ASK_SLURM(&err, "sacctmgr", "--noheader", "--parsable2", "show", "qos",
                                 wanted, "format=GraceTime");
    if (!text || (sscanf(text, "%4u-%2u:%2u:%2u", &days, &hours, &minutes, &seconds) != 4 &&
                  (days = 0, sscanf(text, "%2u:%2u:%2u", &hours, &minutes, &seconds) != 3)))
        return 0;
    return (((days * 24 + hours) * INT64_C(60) + minutes) * 60 + seconds) * NS_PER_S;
}

/* How long Slurm lets a job run beyond its time limit: the partition's value, else the general one.
 * CLOCK_NEVER: without a limit; 0 or less: not at all, or unknown. */
static int64_t over_time(void)
{
    char value[VALUE_MAX] = "";
    struct err err;
    bool is_own = find_of_partition("OverTimeLimit", value) && !str_is(value, "NONE");
    if (!is_own && !ask_setting("OverTimeLimit", value, &err))
        return 0;
    if (str_is(value, "UNLIMITED"))
        return CLOCK_NEVER;
    return doctor_read_time(value, 60 * NS_PER_S);
}

static bool is_task(void)
{
    return getenv("SLURM_STEP_NODELIST");
}

/* --- sbatch(1): the early signal (--signal) that the user asks Slurm for --- */

/* In the #SBATCH lines of a batch script, on the command line of sbatch, or in its environment. The
 * text was written for Slurm, so unknown parts are no error here. */
struct sbatch_signal {
    const char *where; /* "the batch script has" */
    char text[64];     /* "B:USR1@120", as written; "": none */
    int number;        /* 0: not a signal that pchrun can handle */
    bool is_to_shell; /* with B: only to the batch script's process; without it only to srun's tasks
                       */
    int64_t lead_s;   /* how long before the end of the job's time */
};

/* "USR1", or its number */
static int read_signal(const char *name)
{
    struct err err;
    int64_t number;
    int ret = 0;
    if (str_to_i64(name, 1, SIGRTMAX, &number))
        return sigabbrev((int)number) ? (int)number : 0;
    return signame_parse(name, &ret, &err) ? ret : 0;
}

static void read_value(const char *value, size_t len, struct sbatch_signal *ret)
{
    char name[sizeof ret->text];
    snprintf(ret->text, sizeof ret->text, "%.*s", (int)len, value);
    const char *colon = strchr(ret->text, ':');
    ret->is_to_shell = colon && memchr(ret->text, 'B', (size_t)(colon - ret->text));
    str_copy(name, sizeof name, colon ? colon + 1 : ret->text);
    char *at = strchr(name, '@');
    ret->lead_s = LEAD_S;
    if (at && !str_to_i64(at + 1, 0, UINT16_MAX, &ret->lead_s))
        ret->lead_s = 0;
    if (at)
        *at = '\0';
    ret->number = read_signal(name);
}

/* The value follows "=" or spaces, perhaps in quotes. */
static void read_options(const char *options, size_t len, struct sbatch_signal *ret)
{
    char text[4096];
    snprintf(text, sizeof text, "%.*s", (int)len, options);
    const char *at = strstr(text, " " OPTION);
    if (!at)
        return;
    at += sizeof " " OPTION - 1;
    if (!strchr("= \t", *at))
        return;
    at += strspn(at, "= \t\"'");
    size_t end = strcspn(at, " \t\"'\r");
    if (end > 0)
        read_value(at, end, ret);
}

/* "sbatch --signal=B:TERM@70 /home/me/job.sh its arguments", with the script "job.sh", or "" if
 * unknown: returns the length of sbatch's own options, which end before the script. */
static size_t find_arguments(const char *command, const char *script)
{
    size_t len = strlen(script);
    for (const char *at = command; len > 0 && (at = strstr(at, script)); at++)
        if (at > command && strchr(" /", at[-1]) && strchr(" \n", at[len]))
            return (size_t)(at - command);
    return strlen(command);
}

/* Searches the #SBATCH lines. The last --signal counts, as for Slurm. */
static void sbatch_find_signal(const char *script, struct sbatch_signal *ret)
{
    *ret = (struct sbatch_signal){.where = "the batch script has"};
    for (const char *line = script; *line;) {
        size_t len = strcspn(line, "\n");
        size_t blank = strspn(line, " \t\r");
        if (blank < len && line[0] != '#') /* a command: Slurm reads no further */
            return;
        const char *comment = memmem(line, len, " #", 2);
        if (len > sizeof SBATCH && str_starts(line, SBATCH))
            read_options(line, comment ? (size_t)(comment - line) : len, ret);
        line += len + (line[len] == '\n');
    }
}

/* --- what announces the end --- */

static void advise_signal(int64_t need_ns, struct finding *ret)
{
    int64_t lead = need_ns + KEPT_NS > LEAD_NS ? need_ns + KEPT_NS : LEAD_NS;
    int64_t seconds = (lead + 10 * NS_PER_S - 1) / (10 * NS_PER_S) * 10;
    finding_advise(ret, "#SBATCH --signal=%sUSR1@%lld, and --signals USR1=preempt:%llds",
                   is_task() ? "" : "B:", (long long)seconds,
                   (long long)(seconds - KEPT_NS / NS_PER_S));
}

/* A batch job, or unknown. The signal of another job can be on the command line alone. */
static bool may_be_batch(const char *shown)
{
    char value[VALUE_MAX];
    return !find_value(shown, "BatchFlag", " \n", value, sizeof value) || !str_is(value, "0");
}

/* A newer scontrol shows the command line of sbatch. Else only the accounting database knows it,
 * and only after a while. `shown` is what scontrol shows of the job. False: unknown. */
static bool find_on_command_line(const char *job, const char *shown, struct sbatch_signal *ret)
{
    char command[COMMAND_MAX], wanted[VALUE_MAX], script[PATH_MAX] = "";
    const char *line = strstr(shown, " SubmitLine=");
    struct err err;
    *ret = (struct sbatch_signal){.where = "sbatch was given"};
    /* "Command=/home/me/job.sh its arguments" */
    (void)find_value(shown, "Command", " \n", script, sizeof script);
    if (line) {
        snprintf(command, sizeof command, "%.*s", (int)strcspn(line, "\n"), line);
    } else {
        snprintf(wanted, sizeof wanted, "--jobs=%.60s", job);
        const char *text = ASK_SLURM(&err, "sacct", "--noheader", "--parsable2", "--allocations",
                                     wanted, "--format=SubmitLine");
        if (!text)
            return false;
        str_copy(command, sizeof command, text);
    }
    read_options(command, find_arguments(command, basename(script)), ret);
    return true;
}

/* The command line overrides the environment of sbatch, which overrides the script. *ret_is_sure:
 * all three are known. */
static void find_signal(struct sbatch_signal *ret, bool *ret_is_sure)
{
    const char *job = getenv("SLURM_JOB_ID"), *variable = getenv("SBATCH_SIGNAL");
    static char shown[TEXT_MAX];
    struct sbatch_signal given;
    struct err err;
    *ret = (struct sbatch_signal){.number = 0};
    *ret_is_sure = false;
    if (!job)
        return;
    const char *text = ASK_SLURM(&err, "scontrol", "write", "batch_script", job, "-");
    bool has_script = text != NULL;
    if (has_script)
        sbatch_find_signal(text, ret);
    if (variable && *variable) { /* "B:TERM@70" */
        *ret = (struct sbatch_signal){.where = "SBATCH_SIGNAL has"};
        read_value(variable, strlen(variable), ret);
    }
    text = ASK_SLURM(&err, "scontrol", "show", "job", job);
    str_copy(shown, sizeof shown, text ? text : "");
    *ret_is_sure = find_on_command_line(job, shown, &given) &&
                   (given.text[0] || has_script || !may_be_batch(shown));
    if (given.text[0])
        *ret = given;
}

/* True if pchrun asks Slurm for the end of the job's time. */
static bool asks_slurm(const struct patient *patient)
{
    char path[PATH_MAX];
    struct err err;
    return noticelist_has(patient->config, CONFIG_NOTICE_SLURM) &&
           (getenv("SLURM_JOB_END_TIME") ||
            program_find("squeue", getenv("PATH"), path, sizeof path, &err));
}

/* True with linuxproc: the signal reaches all processes of a task. The final SIGTERM does, too, but
 * then little time is left anyway. */
static bool reaches_all(const struct sbatch_signal *signal)
{
    char value[VALUE_MAX];
    struct err err;
    return !signal->is_to_shell && is_task() && ask_setting("ProctrackType", value, &err) &&
           str_is(value, LINUXPROC);
}

/* True if the signal would kill the tasks of an srun that has replaced the script (exec srun). */
static bool kills_tasks(const struct sbatch_signal *signal)
{
    return signal->is_to_shell && is_task() &&
           (signal->number == SIGTERM || signal->number == SIGHUP || signal->number == SIGQUIT);
}

/* Why the requested signal is no good; NULL: it is good. */
static const char *fault_of(const struct patient *patient, const struct sbatch_signal *signal,
                            bool kills)
{
    int64_t grace = config_grace(patient->config, signal->number);
    int64_t lead = signal->lead_s * NS_PER_S;
    struct err err;
    if (signal->number == 0)
        return "pchrun cannot take it as a notice";
    if (kills_tasks(signal))
        return "it goes to the batch script, and srun in its place kills this task at once";
    if (signal->is_to_shell && is_task())
        return signal->number == SIGUSR1 || signal->number == SIGUSR2
                   ? "it goes to the batch script, and on to this task only if the script ends in "
                     "exec srun"
                   : "it goes to the batch script alone, and this process is a task of srun";
    if (!signal->is_to_shell && !is_task())
        return "it goes to tasks of srun alone, not to this process";
    if (grace < 0)
        return "pchrun does not take it as a notice (signals), and it ends every rank that has no "
               "handler for it";
    if (grace > lead)
        return "pchrun expects more time after it";
    if (patient_need(patient_saves(patient, &err), grace) > grace)
        return "a save needs more than the grace of that signal";
    if (kills)
        return "it reaches all processes of a task with " LINUXPROC
               ", and ends those that have not attached, such as data loaders";
    return NULL;
}

static void tell_signal(const struct patient *patient, const struct sbatch_signal *signal,
                        struct finding *ret)
{
    struct err err;
    bool kills = reaches_all(signal);
    const char *fault = fault_of(patient, signal, kills);
    finding_set(ret, FINDING_OK, "%s --signal=%s, %lld s before the end%s%s", signal->where,
                signal->text, (long long)signal->lead_s, fault ? ", but " : "", fault ? fault : "");
    if (!fault)
        return;
    if (kills)
        finding_advise(ret, "no --signal%s",
                       asks_slurm(patient) ? ": pchrun asks Slurm when the job's time ends"
                                           : "; add slurm to notices");
    else
        advise_signal(patient_need(patient_saves(patient, &err), LEAD_NS), ret);
    bool may_come =
        !kills_tasks(signal) && (asks_slurm(patient) || (signal->is_to_shell && is_task()));
    ret->verdict = may_come ? FINDING_WARN : FINDING_BAD;
}

/* squeue reports the job's time limit, even if Slurm ends the job later. */
static void tell_asked(struct finding *ret)
{
    char text[32];
    int64_t over = over_time();
    finding_set(ret, FINDING_OK, "pchrun asks Slurm when the job's time ends");
    if (over == CLOCK_NEVER)
        str_addf(ret->seen, sizeof ret->seen,
                 "; Slurm itself ends no job then (OverTimeLimit is UNLIMITED), but pchrun does");
    else if (over > 0)
        str_addf(ret->seen, sizeof ret->seen,
                 "; Slurm itself lets it run %s longer (OverTimeLimit), which pchrun does not use",
                 str_about(over, text, sizeof text));
}

/* A good finding is no more than unknown: sbatch may have been given another signal. */
static void doubt(bool has_signal, struct finding *ret)
{
    if (ret->verdict == FINDING_OK)
        ret->verdict = FINDING_UNKNOWN;
    str_addf(ret->seen, sizeof ret->seen, "; whether sbatch was given %s is unknown",
             has_signal ? "another" : OPTION);
    if (ret->verdict == FINDING_UNKNOWN)
        finding_advise(ret,
                       "look for " OPTION " in the command that submitted the job, which Slurm "
                       "does not show here");
}

void check_notices(const struct patient *patient, struct finding *ret)
{
    struct sbatch_signal signal;
    bool is_sure;
    if (!patient_is_in_slurm(patient))
        return;
    find_signal(&signal, &is_sure);
    if (signal.text[0]) {
        tell_signal(patient, &signal, ret);
    } else if (asks_slurm(patient)) {
        tell_asked(ret);
    } else if (over_time() == CLOCK_NEVER) {
        finding_set(ret, FINDING_OK,
                    "Slurm ends no job at its time limit (OverTimeLimit is UNLIMITED)");
    } else {
        finding_set(ret, FINDING_WARN,
                    "only Slurm's SIGTERM announces the end of the job's time, KillWait before the "
                    "kill%s",
                    is_sure ? ": there is no " OPTION : "");
        finding_advise(ret, noticelist_has(patient->config, CONFIG_NOTICE_SLURM)
                                ? "install Slurm's client programs, or "
                                : "add slurm to notices, or ");
        advise_signal(0, ret);
    }
    if (!is_sure)
        doubt(signal.text[0], ret);
}

/* --- how much time Slurm leaves --- */

/* Adds how much earlier a preemption warns: GraceTime of the partition or the QOS. */
static void add_grace_time(struct finding *ret)
{
    char text[32], type[VALUE_MAX];
    struct err err;
    bool is_qos = ask_setting("PreemptType", type, &err) && str_is(type, "preempt/qos");
    int64_t grace = is_qos ? qos_grace() : partition_grace();
    if (grace > 0)
        str_addf(ret->seen, sizeof ret->seen, "; a preemption tells %s %s earlier (GraceTime%s)%s",
                 is_task() ? "this task" : "tasks of srun", str_about(grace, text, sizeof text),
                 is_qos ? " of its QOS" : "", is_task() ? "" : ", but not this");
}

static void say_unknown(const char *value, const struct err *err, struct finding *ret)
{
    finding_set(ret, FINDING_UNKNOWN, "KillWait is not known: %.300s",
                err->text[0] ? err->text
                : value[0]   ? value
                             : SCONTROL " does not show it");
    finding_advise(ret, "it is 30 s at most sites: see " SCONTROL ", and set --grace to 5 s less");
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

/* KillWait is too short. The verdict and the advice depend on whether anything else warns
 * of the end. */
static void judge_wait(const struct patient *patient, int64_t need_ns, const char *if_warned,
                       const char *if_not, struct finding *ret)
{
    bool is_told = is_warned(patient);
    finding_advise(ret, "%s", is_told ? if_warned : if_not);
    if (!is_told)
        advise_signal(need_ns, ret);
    finding_make_worse(ret, is_told ? FINDING_WARN : FINDING_BAD);
}

/* Compares KillWait with the grace of SIGTERM, and with the time that a save needs. */
static void judge_kill_wait(const struct patient *patient, int64_t kill_wait, int64_t save,
                            struct finding *ret)
{
    int64_t need = patient_need(save, kill_wait);
    ret->verdict = FINDING_OK;
    if (kill_wait < LEAST_NS) {
        judge_wait(
            patient, 0,
            "have KillWait raised (its default is 30 s): a preemption and scancel leave no "
            "time for a save",
            "have KillWait raised (its default is 30 s); or have Slurm send a signal earlier: ",
            ret);
        return;
    }
    if (config_grace(patient->config, SIGTERM) > kill_wait) {
        ret->verdict = FINDING_BAD;
        finding_advise(
            ret, "--grace %llds%s",
            (long long)((kill_wait > 2 * KEPT_NS ? kill_wait - KEPT_NS : kill_wait / 2) / NS_PER_S),
            need > kill_wait ? "; and " : "");
    }
    if (need > kill_wait)
        judge_wait(patient, need,
                   "save faster; or have KillWait raised: a preemption and scancel leave no more",
                   "save faster; or have Slurm send a signal earlier: ", ret);
}

void check_kill_wait(const struct patient *patient, struct finding *ret)
{
    char value[VALUE_MAX] = "", text[32];
    int64_t kill_wait = -1, grace = config_grace(patient->config, SIGTERM);
    struct err err = {.text = ""};
    if (!patient_is_in_slurm(patient))
        return;
    if (ask_setting("KillWait", value, &err))
        kill_wait = doctor_read_time(value, NS_PER_S);
    if (kill_wait < 0) {
        say_unknown(value, &err, ret);
        return;
    }
    int64_t save = patient_saves(patient, &err); /* if unreadable, "state_dir" says why */
    str_addf(ret->seen, sizeof ret->seen, "Slurm kills %s after SIGTERM (KillWait)",
             str_about(kill_wait, text, sizeof text));
    if (grace >= 0)
        str_addf(ret->seen, sizeof ret->seen, "; pchrun counts on %s",
                 str_about(grace, text, sizeof text));
    if (save > 0)
        str_addf(ret->seen, sizeof ret->seen, "; saves have taken %s",
                 str_about(save, text, sizeof text));
    add_grace_time(ret);
    judge_kill_wait(patient, kill_wait, save, ret);
}

/* --- the exit code --- */

/* "42, 0-255": Slurm accepts more forms than pchrun's own options. */
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
        at = end + strcspn(end, ",");
    }
    return false;
}

void check_requeue(const struct patient *patient, struct finding *ret)
{
    char value[VALUE_MAX];
    int code = patient->config->exit.codes.preempted;
    struct err err;
    if (!patient_is_in_slurm(patient) || patient->config->exit.hook ||
        !ask_setting("RequeueExit", value, &err))
        return;
    if (lists_code(value, code) && health_is_wanted(patient->config))
        code = patient->config->exit.codes.unhealthy;
    bool is_listed = lists_code(value, code);
    finding_set(ret, is_listed ? FINDING_OK : FINDING_WARN,
                "Slurm %s a batch job that ends with %d (RequeueExit is %.60s)",
                is_listed ? "puts back" : "does not put back", code, value);
    if (!is_listed)
        finding_advise(ret,
                       "RequeueExit=%d in slurm.conf, or --exit-hook contrib/slurm/requeue.sh, "
                       "which asks Slurm itself",
                       code);
}
