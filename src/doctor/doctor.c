/* SPDX-License-Identifier: Apache-2.0
 * See doctor.h. The table is the one list of checks.
 */
#include "doctor/doctor.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "config/paths.h"
#include "config/presets.h"
#include "doctor/finding.h"
#include "os/proc.h"
#include "os/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

/* A check that itself waits (for names, other nodes) has a shorter deadline. */
#define ANSWER_WAIT_NS (8 * NS_PER_S)

static const struct {
    const char *name;
    check_fn *check;
} checks[] = {
    {"command", check_command},
    {"programs", check_programs},
    {"pid 1", check_pid1},
    {"batch script", check_batch},
    {"grace", check_grace},
    {"KillWait", check_kill_wait},
    {"sources", check_sources},
    {"notices", check_notices},
    {"requeue", check_requeue},
    {"torchrun", check_torchrun},
    {"run_dir", check_run_dir},
    {"state_dir", check_state_dir},
    {"checkpoints", check_checkpoint_dir},
    {"logs", check_logs_dir},
    {"key", check_key},
    {"nodes", check_nodes},
    {"peers", check_peers},
    {"control group", check_cgroup},
    {"open files", check_files},
    {"core dumps", check_core},
};
enum { CHECKS = ARRAY_LEN(checks) };

_Static_assert(sizeof(struct finding) < PIPE_BUF, "a finding is written as a whole");

struct child {
    pid_t pid;
    int answer; /* -1: read */
};

/* A child that hangs must not keep the doctor's output open: its reader would wait. */
static void leave_streams(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; null >= 0 && fd < 3; fd++)
        dup2(null, fd);
}

/* If the doctor dies, the child gets SIGTERM, so that it can end its program first (ask.h). */
static _Noreturn void be_child(check_fn *check, const struct patient *patient, int answer)
{
    struct finding finding = {.verdict = FINDING_NONE};
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    leave_streams();
    check(patient, &finding);
    ssize_t written = write(answer, &finding, sizeof finding);
    _exit(written == sizeof finding ? 0 : 1);
}

static bool doctor_start_check(struct child *child, check_fn *check, const struct patient *patient,
                               struct err *err)
{
    int pipe[2];
    if (pipe2(pipe, O_CLOEXEC) != 0)
        return err_set(err, ERR_SYSTEM, errno, "cannot start a check");
    child->pid = fork();
    if (child->pid == 0)
        be_child(check, patient, pipe[1]);
    int error = errno;
    close(pipe[1]);
    child->answer = pipe[0];
    if (child->pid > 0)
        return true;
    fd_close(&child->answer);
    return err_set(err, ERR_SYSTEM, error, "cannot start a check");
}

static bool doctor_is_ready(int answer, short events, int64_t until)
{
    struct pollfd pipe = {.fd = answer, .events = events};
    int64_t left = until - clock_now_ns();
    return poll(&pipe, 1, left > 0 ? (int)(left / NS_PER_MS) : 0) > 0;
}

/* The child is not reaped yet, so no other process can have its pid. The pipe closes when it is
 * dead. Only a child in a dead file system may outlive the doctor. */
static void doctor_end_check(struct child *child, int64_t until)
{
    proc_kill(child->pid, SIGKILL);
    doctor_is_ready(child->answer, 0, until); /* poll() always reports POLLHUP */
    fd_close(&child->answer);
}

static void doctor_take_finding(struct child *child, int64_t until, struct finding *ret)
{
    bool ready = doctor_is_ready(child->answer, POLLIN, until);
    ssize_t got = ready ? read(child->answer, ret, sizeof *ret) : -1;
    if (got != sizeof *ret)
        finding_set(
            ret, FINDING_BAD, ready ? "the check ended without an answer" : "no answer within 8 s",
            ready ? ""
                  : "a file system or a server that it needs does not answer; repair that first");
    str_printable(ret->seen); /* it may quote a variable or a path */
    str_printable(ret->advice);
    doctor_end_check(child, until);
}

static void print(const char *name, const struct finding *finding, FILE *out)
{
    static const char *const verdicts[FINDING__COUNT] = {"ok", "warn", "bad", "unknown", ""};
    if (finding->verdict == FINDING_NONE)
        return;
    fprintf(out, "%-8s %-14s %s\n", verdicts[finding->verdict], name, finding->seen);
    if (finding->advice[0])
        fprintf(out, "%-8s %-14s -> %s\n", "", "", finding->advice);
}

static bool doctor_make_checks(const struct patient *patient, struct finding findings[CHECKS],
                               struct err *err)
{
    struct child children[CHECKS] = {{.pid = 0}};
    int started = 0;
    while (started < CHECKS &&
           doctor_start_check(&children[started], checks[started].check, patient, err))
        started++;
    int64_t until = clock_now_ns() + ANSWER_WAIT_NS;
    for (int i = 0; i < started; i++)
        doctor_take_finding(&children[i], until, &findings[i]);
    return started == CHECKS;
}

int doctor_run(struct config *config, FILE *out, struct err *err)
{
    struct finding findings[CHECKS];
    char *state_dir;
    bool is_bad = false;
    log_init(&(struct log_options){.level = LOG_ERROR,
                                   .node_rank = -1}); /* findings report it instead */
    signals_restore(); /* no command runs: a Ctrl-C ends pchrun as usual */
    signals_tell_of_children();
    if (!presets_settle_notices(config, "", err) || !paths_state_dir(config, &state_dir, err))
        return -1;
    fflush(out);
    bool ok = doctor_make_checks(&(struct patient){config, state_dir, getpid(), getppid()},
                                 findings, err);
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
