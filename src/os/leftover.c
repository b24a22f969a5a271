/* SPDX-License-Identifier: Apache-2.0
 * See leftover.h. Read first: pid_namespaces(7).
 */
#include "os/leftover.h"

#include "base/fd.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Forks may escape a round, so there is another one until none is found. */
enum { ROUNDS_MAX = 32, ABOVE_MAX = 64 };

/* --- the mark: "PID.STARTED.PLACE" --- */

static uint64_t namespace_number(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? st.st_ino : 0;
}

/* A start time depends on the time namespace, too. */
void leftover_mark(const char *state_dir, char ret[LEFTOVER_MARK_SIZE])
{
    char place[5120], boot[64];
    struct proc us;
    ret[0] = '\0';
    if (!proc_is_ours() || !proc_read(getpid(), &us) ||
        fd_read_text("/proc/sys/kernel/random/boot_id", boot, sizeof boot) <= 0)
        return;
    place[0] = '\0';
    if (str_addf(place, sizeof place, "%" PRIu64 " %" PRIu64 " %s %s",
                 namespace_number("/proc/self/ns/pid"), namespace_number("/proc/self/ns/time"),
                 boot, state_dir))
        snprintf(ret, LEFTOVER_MARK_SIZE, "%d.%" PRIu64 ".%016" PRIx64, (int)us.pid, us.started,
                 str_hash(place));
}

static bool is_of_our_place(const char *mark, const char *ours)
{
    const char *place = strrchr(mark, '.'), *our_place = strrchr(ours, '.');
    return place && our_place && str_is(place, our_place);
}

/* In doubt a supervisor lives. */
static bool supervisor_is_dead(const char *mark)
{
    char *end;
    struct proc now;
    pid_t pid = (pid_t)strtol(mark, &end, 10);
    uint64_t started = *end == '.' ? strtoull(end + 1, &end, 10) : 0;
    if (pid <= 1 || started == 0 || end != strrchr(mark, '.'))
        return false;
    if (!proc_kill(pid, 0) && errno == ESRCH)
        return true;
    return proc_read(pid, &now) && (proc_is_dead(&now) || now.started != started);
}

/* --- finding --- */

struct search {
    const char *mark;
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
    char mark[LEFTOVER_MARK_SIZE];
    const char *inherited = getenv(LEFTOVER_VARIABLE);
    return pid > 1 && proc_has_env(pid, LEFTOVER_VARIABLE) && !is_above(search, pid) &&
           proc_read(pid, proc) && !proc_is_dead(proc) &&
           proc_read_env(pid, LEFTOVER_VARIABLE, mark, sizeof mark) &&
           is_of_our_place(mark, search->mark) && !(inherited && str_is(mark, inherited)) &&
           supervisor_is_dead(mark);
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
    int64_t pid;
    struct proc proc;
    DIR *dir = opendir("/proc");
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (!str_to_i64(entry->d_name, 1, INT32_MAX, &pid) ||
            !is_leftover(search, (pid_t)pid, &proc) || leftover_has(left, &proc) ||
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
    struct search search = {.mark = arg};
    find_above(&search);
    for (int round = 0; round < ROUNDS_MAX && leftover_round(&search, &left); round++)
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
