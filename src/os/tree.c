/* SPDX-License-Identifier: Apache-2.0
 * See tree.h.
 */
#include "os/tree.h"

#include "base/fd.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

/* The kernel's list of our children. Only the main thread has children. If /proc is of another pid
 * namespace, the list has other numbers. */
#define OUR_CHILDREN "/proc/thread-self/children"

bool tree_adopt(struct err *err)
{
    if (getpid() == 1 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
        return true;
    return err_set(err, ERR_SYSTEM, errno,
                   "cannot become the parent of orphans (prctl PR_SET_CHILD_SUBREAPER); processes "
                   "that leave their parent will outlive the job");
}

static bool is_in(pid_t pid, const pid_t *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == pid)
            return true;
    return false;
}

static bool tree_has(const struct tree *tree, const struct proc *proc)
{
    for (size_t i = 0; i < tree->n; i++)
        if (tree->entries[i].proc.pid == proc->pid &&
            tree->entries[i].proc.started == proc->started)
            return true;
    return false;
}

static bool tree_add(struct tree *tree, const struct proc *proc, int parent)
{
    if (tree->n == tree->cap) {
        size_t cap = tree->cap ? 2 * tree->cap : 64;
        struct tree_entry *entries = realloc(tree->entries, cap * sizeof *entries);
        if (!entries)
            return false;
        tree->entries = entries;
        tree->cap = cap;
    }
    tree->entries[tree->n++] = (struct tree_entry){.proc = *proc, .parent = parent};
    return true;
}

void tree_free(struct tree *tree)
{
    free(tree->entries);
    *tree = (struct tree){0};
}

/* Adds a child of the entry `parent`; -1: of us. */
static void add_child(struct tree *tree, const struct tree_job *job, pid_t pid, int parent)
{
    struct proc proc;
    if (parent < 0 && is_in(pid, job->helpers, job->nhelpers))
        return;
    if (!proc_read(pid, &proc)) {
        tree->is_unsure = true;
        return;
    }
    if (proc_is_dead(&proc) || tree_has(tree, &proc))
        return;
    if (!tree_add(tree, &proc, parent))
        tree->is_unsure = true;
}

static void add_children_of_task(struct tree *tree, const struct tree_job *job, const char *path,
                                 int parent)
{
    FILE *list = fopen(path, "re");
    if (!list) {
        tree->is_unsure = true;
        return;
    }
    int pid;
    while (fscanf(list, "%d", &pid) == 1)
        add_child(tree, job, pid, parent);
    fclose(list);
}

static void add_children_of(struct tree *tree, const struct tree_job *job, pid_t pid, int parent)
{
    char path[320];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    if (!tasks) {
        tree->is_unsure = true;
        return;
    }
    pid_t tid;
    while ((tid = proc_next(tasks))) {
        snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)tid);
        add_children_of_task(tree, job, path, parent);
    }
    closedir(tasks);
}

/* Lists all processes in /proc, with any parent. */
static void list_all(struct tree *all)
{
    DIR *dir = proc_is_ours() ? opendir("/proc") : NULL;
    pid_t pid;
    struct proc proc;
    all->is_unsure = true;
    while (dir && (pid = proc_next(dir)))
        if (proc_read(pid, &proc) && tree_add(all, &proc, -1))
            all->is_unsure = false; /* sure, as /proc lists a process (at least ours) */
    if (dir)
        closedir(dir);
}

static void scan_all(struct tree *tree, const struct tree_job *job)
{
    struct tree all = {0};
    list_all(&all);
    tree->is_unsure |= all.is_unsure;
    pid_t pid = getpid();
    for (int parent = -1;; pid = tree->entries[parent].proc.pid) {
        for (size_t i = 0; i < all.n; i++)
            if (all.entries[i].proc.ppid == pid)
                add_child(tree, job, all.entries[i].proc.pid, parent);
        if (++parent >= (int)tree->n)
            break;
    }
    tree_free(&all);
}

struct listing {
    struct tree *tree;
    const struct tree_job *job;
};

static void add_listed(void *ctx, pid_t pid)
{
    struct listing *listing = ctx;
    struct proc proc = {.pid = pid, .pgid = getpgid(pid), .state = '?', .comm = "?"};
    if (pid > 0 && proc.pgid > 0 && !is_in(pid, listing->job->helpers, listing->job->nhelpers) &&
        !tree_add(listing->tree, &proc, -1))
        listing->tree->is_unsure = true;
}

static void scan_group(struct tree *tree, const struct tree_job *job)
{
    struct listing listing = {tree, job};
    if (!cgroup_list(job->cgroup, add_listed, &listing))
        tree->is_unsure = true;
}

static bool names_only(const char *list, const pid_t *known, size_t n)
{
    char *end;
    for (long pid; (pid = strtol(list, &end, 10)), end != list; list = end)
        if (!is_in((pid_t)pid, known, n))
            return false;
    return true;
}

bool tree_has_only(const pid_t *known, size_t n)
{
    char text[4096]; /* the list usually names one child */
    struct tree all = {0};
    bool has_others = false;
    ssize_t len = proc_is_ours() ? fd_read_text(OUR_CHILDREN, text, sizeof text) : -1;
    if (len >= 0 && len < (ssize_t)sizeof text - 1)
        return names_only(text, known, n);
    list_all(&all);
    for (size_t i = 0; i < all.n; i++)
        has_others |=
            all.entries[i].proc.ppid == getpid() && !is_in(all.entries[i].proc.pid, known, n);
    bool is_sure = !all.is_unsure;
    tree_free(&all);
    return is_sure && !has_others;
}

void tree_scan(struct tree *tree, const struct tree_job *job)
{
    tree->n = 0;
    tree->is_unsure = false;
    if (!proc_is_ours() || access(OUR_CHILDREN, R_OK) != 0) {
        (proc_is_ours() ? scan_all : scan_group)(tree, job);
        return;
    }
    add_children_of(tree, job, getpid(), -1);
    for (size_t i = 0; i < tree->n; i++)
        add_children_of(tree, job, tree->entries[i].proc.pid, (int)i);
}

/* Stopped processes handle a signal only after SIGCONT. */
static void continue_all(const struct tree_job *job, const struct tree *seen)
{
    for (size_t i = 0; i < job->ngroups; i++)
        proc_kill_group(job->groups[i], SIGCONT);
    for (size_t i = 0; i < seen->n; i++)
        if (!is_in(seen->entries[i].proc.pgid, job->groups, job->ngroups))
            proc_signal(&seen->entries[i].proc, SIGCONT);
}

/* Signals the processes that no earlier round found. Returns true if there may be more. */
static bool signal_round(const struct tree_job *job, int number, int round, struct tree *seen)
{
    struct tree now = {0};
    tree_scan(&now, job);
    bool is_changing = now.is_unsure;
    for (size_t i = 0; i < now.n; i++) {
        const struct proc *proc = &now.entries[i].proc;
        if (tree_has(seen, proc) || !tree_add(seen, proc, -1))
            continue;
        is_changing = true;
        /* The first round has already signalled the groups. */
        if (round > 0 || !is_in(proc->pgid, job->groups, job->ngroups))
            proc_signal(proc, number);
    }
    tree_free(&now);
    return is_changing;
}

/* Signals all processes but us. A helper may be writing, so it gets no SIGKILL from us: the kernel
 * kills all processes when we, PID 1, end. */
static void signal_namespace(const struct tree_job *job, int number)
{
    if (number == SIGKILL && job->nhelpers > 0)
        return;
    kill(-1, number);
    if (number != SIGKILL)
        kill(-1, SIGCONT);
}

size_t tree_signal(const struct tree_job *job, int number)
{
    /* A list may miss a child while its sibling ends, so two rounds in a row must find nothing new.
     * Processes that fork faster than this get only the next signal. */
    enum { ROUNDS_MAX = 32, QUIET_ROUNDS = 2 };
    struct tree seen = {0};
    bool is_blind = !(job->cgroup && job->cgroup->dir) && !proc_is_ours();
    if (getpid() == 1 && is_blind) {
        signal_namespace(job, number);
        return 0;
    }
    for (size_t i = 0; i < job->ngroups; i++)
        proc_kill_group(job->groups[i], number);
    for (int round = 0, quiet = 0; round < ROUNDS_MAX && quiet < QUIET_ROUNDS; round++)
        quiet = signal_round(job, number, round, &seen) ? 0 : quiet + 1;
    if (number != SIGKILL)
        continue_all(job, &seen);
    size_t n = seen.n;
    tree_free(&seen);
    return n;
}

/* The topmost processes with `name` in their environment; NULL: of all. */
static size_t topmost(const struct tree_job *job, const char *name, struct proc *ret, size_t max)
{
    struct tree tree = {0};
    size_t n = 0;
    tree_scan(&tree, job);
    for (size_t i = 0; i < tree.n; i++) {
        struct tree_entry *entry = &tree.entries[i];
        /* Parents come first. A parent with pid 0 is such a process, or is below one. */
        bool is_below = entry->parent >= 0 && tree.entries[entry->parent].proc.pid == 0;
        if (!is_below && name && !proc_has_env(entry->proc.pid, name))
            continue;
        if (!is_below && n < max)
            ret[n] = entry->proc;
        n += !is_below;
        entry->proc.pid = 0;
    }
    tree_free(&tree);
    return n;
}

size_t tree_ranks(const struct tree_job *job, struct proc *ret, size_t max)
{
    return topmost(job, "RANK", ret, max);
}

size_t tree_tops(const struct tree_job *job, struct proc *ret, size_t max)
{
    return topmost(job, NULL, ret, max);
}

char *tree_describe(const struct tree_job *job, char *text, size_t size)
{
    enum { NAMED_MAX = 8 };
    struct tree tree = {0};
    tree_scan(&tree, job);
    text[0] = '\0';
    for (size_t i = 0; i < tree.n && i < NAMED_MAX; i++) {
        const struct proc *proc = &tree.entries[i].proc;
        char wchan[64];
        unsigned user;
        str_addf(text, size, "%s%d (%s) %c", i ? ", " : "", (int)proc->pid, proc->comm,
                 proc->state);
        if (*proc_wchan(proc->pid, wchan, sizeof wchan))
            str_addf(text, size, " in %s", wchan);
        if (proc_is_foreign(proc->pid, &user))
            str_addf(text, size, ", which now runs as user %u, so pchrun may not kill it", user);
    }
    if (tree.n > NAMED_MAX)
        str_addf(text, size, " and %zu more", tree.n - NAMED_MAX);
    tree_free(&tree);
    return text;
}
