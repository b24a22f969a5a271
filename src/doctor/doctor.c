/* SPDX-License-Identifier: Apache-2.0
 * See doctor.h. The table is the one list of checks.
 */
#include "doctor/doctor.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "config/presets.h"
#include "os/helper.h"
#include "os/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

/* A check that itself waits (for names, other nodes) has a shorter deadline. */
#define ANSWER_WAIT_NS (8 * NS_PER_S)

static const struct doctor_check {
    const char *name;
    check_fn *check;
} checks[] = {
    {"command", check_command},      {"programs", check_programs},
    {"attach", check_attach},        {"pid 1", check_pid1},
    {"batch script", check_batch},   {"pipeline", check_pipeline},
    {"timeout", check_timeout},      {"grace", check_grace},
    {"KillWait", check_kill_wait},   {"sources", check_sources},
    {"notices", check_notices},      {"requeue", check_requeue},
    {"torchrun", check_torchrun},    {"run_dir", check_run_dir},
    {"state_dir", check_state_dir},  {"checkpoints", check_checkpoint_dir},
    {"logs", check_logs_dir},        {"key", check_key},
    {"nodes", check_nodes},          {"names", check_names},
    {"peers", check_peers},          {"replacement", check_replace},
    {"control group", check_cgroup}, {"open files", check_files},
    {"core dumps", check_core},      {"health", check_health},
    {"GPUs", check_health_gpu},
};
enum { CHECKS = ARRAY_LEN(checks) };

static struct patient patient;

/* If the doctor dies, the child gets SIGTERM, so that it can end its program first (runprogram.c).
 */
static void run_check(const void *arg, int answer)
{
    const struct doctor_check *check = arg;
    struct finding finding = {.verdict = FINDING_NONE};
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    ask_until(patient.begun_at + ASK_NS);
    check->check(&patient, &finding);
    if (!fd_write_all(answer, &finding, sizeof finding))
        _exit(1);
}

/* Only a child in a dead file system may outlive the doctor. */
static void doctor_take_finding(struct helper *helper, int64_t until, struct finding *ret)
{
    enum helper_news news = helper_read(helper, -1, until, ret, sizeof *ret);
    if (news != HELPER_ANSWER)
        finding_set(ret, FINDING_BAD,
                    news == HELPER_LATE ? "no answer within 8 s"
                                        : "the check ended without an answer");
    if (news == HELPER_LATE)
        finding_advise(
            ret, "a file system or a server that it needs does not answer; repair that first");
    if (ret->verdict == FINDING_BAD || ret->verdict == FINDING_WARN)
        config_explain(patient.config, ret->seen, sizeof ret->seen);
    str_printable(ret->seen); /* the text may quote a variable or a path */
    str_printable(ret->advice);
    helper_end(helper, true, until);
}

static void print(const char *name, const struct finding *finding, FILE *out)
{
    if (finding->verdict == FINDING_NONE)
        return;
    fprintf(out, "%-8s %-14s %s\n", finding_names[finding->verdict], name, finding->seen);
    if (finding->advice[0])
        fprintf(out, "%-8s %-14s -> %s\n", "", "", finding->advice);
}

static bool doctor_make_checks(struct finding findings[CHECKS], struct err *err)
{
    struct helper helpers[CHECKS];
    struct reap reap = {0};
    int started = 0;
    bool ok = true;
    while (ok && started < CHECKS) {
        helpers[started] = (struct helper){.reap = &reap, .keeps_dir = true};
        ok = helper_ask(&helpers[started], run_check, &checks[started], err);
        started += ok;
    }
    int64_t until = clock_now_ns() + ANSWER_WAIT_NS;
    for (int i = 0; i < started; i++)
        doctor_take_finding(&helpers[i], until, &findings[i]);
    reap_end(&reap);
    return ok || err_wrap(err, "cannot start a check");
}

int doctor_run(struct config *config, FILE *out, struct err *err)
{
    struct finding findings[CHECKS];
    char *state_dir;
    bool is_bad = false;
    log_init(&(struct log_options){.level = LOG_ERROR,
                                   .node_rank = -1}); /* the findings replace the warnings */
    signals_restore(true); /* no command runs: a Ctrl-C ends pchrun as usual */
    if (!presets_settle_notices(config, "", err) || !paths_state_dir(config, &state_dir, err))
        return -1;
    fflush(out);
    patient = (struct patient){config, state_dir, getpid(), getppid(), clock_now_ns()};
    bool ok = doctor_make_checks(findings, err);
    free(state_dir);
    if (!ok)
        return -1;
    for (int i = 0; i < CHECKS; i++) {
        print(checks[i].name, &findings[i], out);
        is_bad = is_bad || findings[i].verdict == FINDING_BAD;
    }
    if (fflush(out) != 0 || ferror(out)) {
        err_set(err, ERR_SYSTEM, errno, "cannot print what was found");
        return -1;
    }
    return is_bad;
}
