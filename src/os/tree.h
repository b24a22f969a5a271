/* SPDX-License-Identifier: Apache-2.0
 *
 * tree: all processes of the job on this node: all our descendants except our own helpers.
 *
 * pchrun is a child subreaper (or PID 1), so orphans become its children. No process leaves the
 * tree, neither by a new session nor by a double fork. Reads /proc/<pid>/task/<tid>/children, or
 * all of /proc on kernels without that file. Without a /proc of our PID namespace the job's control
 * group lists the processes. Without both, pchrun sees no process, and as PID 1 it signals every
 * process. Signals go out in rounds until a round finds no new process, so forks do not escape. A
 * struct tree owns its memory: tree_free(). Main thread. If memory runs out, the processes found so
 * far are used.
 */
#pragma once

#include "os/cgroup.h"
#include "os/proc.h"

/* Separates the job's processes from our own. */
struct tree_job {
    const pid_t *groups; /* process groups whose leader is an unreaped child of ours */
    size_t ngroups;
    const pid_t *helpers; /* our children that are not of the job */
    size_t nhelpers;
    const struct cgroup *cgroup; /* of the job; NULL: none */
};

struct tree_entry {
    struct proc proc;
    int parent; /* index in entries, -1: our child */
};
struct tree {
    struct tree_entry *entries; /* parents before their children; without dead processes */
    size_t n, cap;
    bool is_unsure; /* a process ended during the scan: scan again */
};

/* Makes us the parent of all orphaned descendants. PID 1 is that already. False: orphans will
 * escape; tell the user. */
MUST_CHECK bool tree_adopt(struct err *err);

/* True if `known` are all our children, including dead ones. Then every process of the tree is one
 * of them or their descendant. False: there are others, or it is unknown. */
bool tree_has_only(const pid_t *known, size_t n);

void tree_scan(struct tree *tree, const struct tree_job *job);
void tree_free(struct tree *tree);

/* Signals the groups at once, then each process outside of them. SIGCONT follows, because a stopped
 * process does not handle SIGTERM. Returns how many processes were seen. */
size_t tree_signal(const struct tree_job *job, int number);

/* The rank processes: with RANK in their environment, and without their descendants. Returns how
 * many there are; at most `max` are stored. */
size_t tree_ranks(const struct tree_job *job, struct proc *ret, size_t max);
/* Like tree_ranks(), but for the processes that are below no other process of the job. */
size_t tree_tops(const struct tree_job *job, struct proc *ret, size_t max);

/* "4711 (python) D in nfs_wait_bit_killable, 4712 (sh) S": the remaining processes, for the log.
 * Also names the new user of a process that we may not kill any more. Returns text. */
char *tree_describe(const struct tree_job *job, char *text, size_t size);
