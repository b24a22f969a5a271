/* SPDX-License-Identifier: Apache-2.0
 *
 * tree: all processes of the job on this node: everything below us but our own helpers.
 *
 * We are a child subreaper (or PID 1), so whoever is orphaned becomes our child, and no process
 * leaves the tree: neither a new session nor a double fork helps. Reads
 * /proc/<pid>/task/<tid>/children, or all of /proc where the kernel has no such file. Without a
 * /proc of our PID namespace it is what the job's control group lists; without that we see nothing,
 * and as PID 1 signal every process. Signals are sent in rounds until a round finds no new process,
 * so that forks do not escape. A struct tree owns its memory: tree_free(). Main thread. Out of
 * memory: what was found so far is used.
 */
#ifndef PCHRUN_OS_TREE_H
#define PCHRUN_OS_TREE_H

#include "os/cgroup.h"
#include "os/proc.h"

/* How the tree is told from what is not part of the job. */
struct tree_job {
    const pid_t *groups; /* process groups that a child of ours leads who has not been reaped */
    size_t ngroups;
    const pid_t *helpers; /* children of ours that are not of the job */
    size_t nhelpers;
    const struct cgroup *cgroup; /* of the job, where it has one; NULL */
};

struct tree_entry {
    struct proc proc;
    int parent; /* index in entries, -1: our child */
};
struct tree {
    struct tree_entry *entries; /* parents before their children; the dead are left out */
    size_t n, cap;
    bool is_unsure; /* somebody ended while we looked: look again */
};

/* Makes us the parent of all orphans below us. False (PID 1 needs nothing and is true): orphans
 * will escape, say so. */
MUST_CHECK bool tree_adopt(struct err *err);

/* The list of our children, for tree_has_only(): close-on-exec, the caller's. -1: the kernel has
 * none. To find the file takes longer than to read it. */
int tree_open_list(void);
/* Have we no other children than these, dead ones included? Nobody who is not below one of them can
 * then be in the tree: only we take children out of our list. False: we have, or it cannot be told.
 */
bool tree_has_only(int list, const pid_t *known, size_t n);

void tree_scan(struct tree *tree, const struct tree_job *job);
void tree_free(struct tree *tree);

/* To everybody: the groups at once, then each one outside of them; SIGCONT follows (a stopped
 * process does not act on SIGTERM). Returns how many processes were seen. */
size_t tree_signal(const struct tree_job *job, int number);

/* The rank processes: those with RANK in their environment, without what is below one of them.
 * Returns how many there are; at most `max` are stored. */
size_t tree_ranks(const struct tree_job *job, struct proc *ret, size_t max);

/* "4711 (python) D in nfs_wait_bit_killable, 4712 (sh) S": who is left, for the log, and whether it
 * is the user's fault that we cannot end it. Returns text. */
char *tree_describe(const struct tree_job *job, char *text, size_t size);

#endif
