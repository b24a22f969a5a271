/* SPDX-License-Identifier: Apache-2.0
 * See doctor.h. The table is the one list of what is looked at.
 */
#include "doctor/doctor.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "config/presets.h"
#include "doctor/finding.h"
#include "os/proc.h"
#include "os/signals.h"
#include "run/params.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

/* A check that waits for something itself (names, other nodes) takes less. */
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
    int answer; /* -1: taken */
};

/* One that is stuck must not hold whoever reads what we print. */
static void leave_streams(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; null >= 0 && fd < 3; fd++)
        dup2(null, fd);
}

/* With the doctor it ends by a signal that it can see coming (ask.h). */
static _Noreturn void be_child(check_fn *check, const struct patient *patient, int answer)
{
    struct finding finding = {.verdict = FINDING_NONE};
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    leave_streams();
    check(patient, &finding);
    ssize_t written = write(answer, &finding, sizeof finding);
    _exit(written == sizeof finding ? 0 : 1);
}

static bool start(struct child *child, check_fn *check, const struct patient *patient,
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

static bool is_ready(int answer, short events, int64_t until)
{
    struct pollfd pipe = {.fd = answer, .events = events};
    int64_t left = until - clock_now_ns();
    return poll(&pipe, 1, left > 0 ? (int)(left / NS_PER_MS) : 0) > 0;
}

/* It is ours and not reaped: nobody else can have its number. Its end of the pipe closes with it:
 * only one that no signal reaches (a dead file system) may outlive us. */
static void end(struct child *child, int64_t until)
{
    proc_kill(child->pid, SIGKILL);
    is_ready(child->answer, 0, until); /* POLLHUP is always told */
    fd_close(&child->answer);
}

static void take(struct child *child, int64_t until, struct finding *ret)
{
    bool ready = is_ready(child->answer, POLLIN, until);
    ssize_t got = ready ? read(child->answer, ret, sizeof *ret) : -1;
    if (got != sizeof *ret)
        finding_set(ret, FINDING_BAD, ready ? "the check came to no end" : "no answer within 8 s",
                    ready ? "" : "a file system or a server that it needs is dead; see to that");
    str_printable(ret->seen); /* it may quote a variable or a path */
    str_printable(ret->advice);
    end(child, until);
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

static bool look(const struct patient *patient, struct finding findings[CHECKS], struct err *err)
{
    struct child children[CHECKS] = {{.pid = 0}};
    int started = 0;
    while (started < CHECKS && start(&children[started], checks[started].check, patient, err))
        started++;
    int64_t until = clock_now_ns() + ANSWER_WAIT_NS;
    for (int i = 0; i < started; i++)
        take(&children[i], until, &findings[i]);
    return started == CHECKS;
}

int doctor_run(struct config *config, FILE *out, struct err *err)
{
    struct finding findings[CHECKS];
    char *state_dir;
    bool is_bad = false;
    log_init(&(struct log_options){.level = LOG_ERROR, .node_rank = -1}); /* a finding says it */
    signals_restore(); /* nothing is run: a Ctrl-C ends us as anybody */
    signals_tell_of_children();
    if (!presets_settle_notices(config, "", err) || !params_state_dir(config, &state_dir, err))
        return -1;
    fflush(out);
    bool ok = look(&(struct patient){config, state_dir, getpid(), getppid()}, findings, err);
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
