/* SPDX-License-Identifier: Apache-2.0
 * See leftover.h. Read first: pid_namespaces(7).
 */
#include "os/leftover.h"

#include "base/fd.h"
#include "base/str.h"
#include "os/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Forks may escape a round, so there is another one until none is found. */
enum { ROUNDS_MAX = 32, ABOVE_MAX = 64 };

/* --- the mark: "PID.STARTED.ORIGIN.PLACE" --- */

struct mark {
    int pid; /* of the supervisor */
    uint64_t started;
    char origin[17], place[17]; /* hashes */
};

static bool mark_read(const char *text, struct mark *ret)
{
    int end = 0;
    return sscanf(text, "%d.%" SCNu64 ".%16[0-9a-f].%16[0-9a-f]%n", &ret->pid, &ret->started,
                  ret->origin, ret->place, &end) == 4 &&
           !text[end] && ret->pid > 1 && ret->started > 0;
}

static uint64_t namespace_number(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? st.st_ino : 0;
}

/* The job of the batch system and the control group in which a process runs. */
struct origin {
    char job[64]; /* "": none */
    struct cgroup_place group;
};

static void origin_read(pid_t pid, struct origin *ret)
{
    static const char *const jobs[] = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID"};
    *ret = (struct origin){0};
    for (size_t i = 0; i < ARRAY_LEN(jobs) && !ret->job[0]; i++)
        if (!proc_read_env(pid, jobs[i], ret->job, sizeof ret->job))
            ret->job[0] = '\0';
    /* Where both versions are in use, batch systems use version 1. */
    if (cgroup_name("", pid, &ret->group))
        return;
    ret->group.is_v2 = true;
    if (!cgroup_name("", pid, &ret->group))
        ret->group.name[0] = '\0';
}

static void origin_hash(const struct origin *origin, char ret[17])
{
    char text[PATH_MAX + 80];
    snprintf(text, sizeof text, "%s %s", origin->job, origin->group.name);
    snprintf(ret, 17, "%016" PRIx64, str_hash(text));
}

/* The control group above. False: this is the root. */
static bool origin_climb(struct origin *origin)
{
    char *slash = strrchr(origin->group.name, '/');
    if (!slash || !slash[1])
        return false;
    slash[slash == origin->group.name] = '\0';
    return true;
}

/* False for a process that got the variable, but is no descendant of the supervisor: a batch system
 * passes on the environment of the program that submits a job. The commands of a supervisor may run
 * in groups below its own. */
static bool has_origin(pid_t pid, const char *wanted)
{
    struct origin origin;
    char hash[17];
    origin_read(pid, &origin);
    do {
        origin_hash(&origin, hash);
    } while (!str_is(hash, wanted) && origin_climb(&origin));
    return str_is(hash, wanted);
}

/* A start time depends on the time namespace, too. */
void leftover_mark(const char *state_dir, char ret[LEFTOVER_MARK_SIZE])
{
    char place[5120], boot[64], origin[17];
    struct origin ours;
    struct proc us;
    ret[0] = '\0';
    if (!proc_is_ours() || !proc_read(getpid(), &us) ||
        fd_read_text("/proc/sys/kernel/random/boot_id", boot, sizeof boot) <= 0)
        return;
    origin_read(getpid(), &ours);
    origin_hash(&ours, origin);
    place[0] = '\0';
    if (str_addf(place, sizeof place, "%" PRIu64 " %" PRIu64 " %s %s",
                 namespace_number("/proc/self/ns/pid"), namespace_number("/proc/self/ns/time"),
                 boot, state_dir))
        snprintf(ret, LEFTOVER_MARK_SIZE, "%d.%" PRIu64 ".%s.%016" PRIx64, (int)us.pid, us.started,
                 origin, str_hash(place));
}

void leftover_begin(const char *state_dir, struct leftover_marks *ret)
{
    const char *above = getenv(LEFTOVER_VARIABLE);
    str_fit(ret->above, sizeof ret->above, above ? above : "");
    leftover_mark(state_dir, ret->ours);
    if (ret->ours[0] && setenv(LEFTOVER_VARIABLE, ret->ours, 1) != 0)
        ret->ours[0] = '\0';
}

/* In doubt a supervisor lives. */
static bool supervisor_is_dead(const struct mark *mark)
{
    struct proc now;
    if (!proc_kill(mark->pid, 0) && errno == ESRCH)
        return true;
    return proc_read(mark->pid, &now) && (proc_is_dead(&now) || now.started != mark->started);
}

/* --- finding --- */

struct search {
    struct mark ours;
    const char *spared;     /* the mark of the pchrun below which we run */
    pid_t above[ABOVE_MAX]; /* this helper, the supervisor, and the processes above it */
    size_t nabove;
};

static void find_above(struct search *search)
{
    struct proc proc;
    pid_t pid = getpid();
    while (pid > 1 && search->nabove < ABOVE_MAX) {
        search->above[search->nabove++] = pid;
        pid = proc_read(pid, &proc) ? proc.ppid : 0;
    }
}

static bool is_above(const struct search *search, pid_t pid)
{
    for (size_t i = 0; i < search->nabove; i++)
        if (search->above[i] == pid)
            return true;
    return false;
}

/* Most processes have no mark, so that is looked at first. Fills *proc before it reads the mark, so
 * proc_signal() signals that process or none. */
static bool is_leftover(const struct search *search, pid_t pid, struct proc *proc)
{
    char text[LEFTOVER_MARK_SIZE];
    struct mark mark;
    return pid > 1 && proc_has_env(pid, LEFTOVER_VARIABLE) && !is_above(search, pid) &&
           proc_read(pid, proc) && !proc_is_dead(proc) &&
           proc_read_env(pid, LEFTOVER_VARIABLE, text, sizeof text) && mark_read(text, &mark) &&
           str_is(mark.place, search->ours.place) && !str_is(text, search->spared) &&
           supervisor_is_dead(&mark) && has_origin(pid, mark.origin);
}

static bool leftover_has(const struct leftover_list *left, const struct proc *proc)
{
    for (int i = 0; i < left->n; i++)
        if (left->list[i].pid == proc->pid && left->list[i].started == proc->started)
            return true;
    return false;
}

/* False: this round has found none that is new. */
static bool leftover_round(const struct search *search, struct leftover_list *left)
{
    bool has_found = false;
    pid_t pid;
    struct proc proc;
    DIR *dir = opendir("/proc");
    while (dir && (pid = proc_next(dir))) {
        if (!is_leftover(search, pid, &proc) || leftover_has(left, &proc) ||
            !proc_signal(&proc, SIGKILL))
            continue;
        has_found = true;
        if (left->n < LEFTOVERS_MAX)
            left->list[left->n++] = proc;
    }
    if (dir)
        closedir(dir);
    return has_found;
}

void leftover_kill(const void *arg, int answer)
{
    struct leftover_list left = {.n = 0};
    const struct leftover_marks *marks = arg;
    struct search search = {.spared = marks->above};
    bool is_known = mark_read(marks->ours, &search.ours);
    find_above(&search);
    for (int round = 0; is_known && round < ROUNDS_MAX && leftover_round(&search, &left); round++)
        ;
    if (!fd_write_all(answer, &left, sizeof left))
        _exit(1);
}

/* --- what was found --- */

void leftover_settle(struct leftover_list *left)
{
    struct proc now;
    int n = 0;
    for (int i = 0; i < left->n; i++) {
        const struct proc *proc = &left->list[i];
        if (proc_read(proc->pid, &now) && now.started == proc->started && !proc_is_dead(&now))
            left->list[n++] = *proc;
    }
    left->n = n;
}

char *leftover_describe(const struct leftover_list *left, char *text, size_t size)
{
    enum { NAMED_MAX = 8 };
    text[0] = '\0';
    for (int i = 0; i < left->n && i < NAMED_MAX; i++)
        str_addf(text, size, "%s%d (%s)", i ? ", " : "", (int)left->list[i].pid,
                 left->list[i].comm);
    if (left->n > NAMED_MAX)
        str_addf(text, size, " and %d more", left->n - NAMED_MAX);
    return text;
}
