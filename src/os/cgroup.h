/* SPDX-License-Identifier: Apache-2.0
 *
 * cgroup: a control group (version 2) for the processes of the job, below our own, by which all of
 * them are killed at once: who forks faster than anybody can look does not escape.
 *
 * Only where that is ours to do: our own group's directory is writable, as with systemd's Delegate=
 * or for root, and the kernel has cgroup.kill (5.14). No controller is enabled in it, so what is
 * accounted and limited stays as it was. Its owner holds the directory locked (flock) for as long
 * as it lives; so one whose lock can be had is a dead one's, and what is in it is what that one
 * would have killed in the end. A struct cgroup is ended by cgroup_end(). Not to have one is no
 * failure: the tree (tree.h) is signalled either way. Main thread. See cgroups(7).
 */
#ifndef PCHRUN_OS_CGROUP_H
#define PCHRUN_OS_CGROUP_H

#include "base/err.h"

#include <limits.h>
#include <stddef.h>
#include <sys/types.h>

struct cgroup {
    char path[PATH_MAX];
    int dir;  /* for spawn_request; 0: there is none */
    int kill; /* its cgroup.kill */
};

/* False: there is none, *err says why, and *ret is all zero but for the path. */
MUST_CHECK bool cgroup_begin(struct cgroup *ret, struct err *err);
/* Nobody must be in it any more; else the directory stays, for a later one's cgroup_sweep(). */
void cgroup_end(struct cgroup *cgroup);
/* SIGKILL to all that are in it. False: there is none, or it was refused. */
bool cgroup_kill(const struct cgroup *cgroup);
/* Calls fn for each process in it and below; those of other PID namespaces have the number 0.
 * False: there is none. */
MUST_CHECK bool cgroup_list(const struct cgroup *cgroup, void (*fn)(void *ctx, pid_t pid),
                            void *ctx);
/* Nothing runs in it or below. False, too, if there is none. */
bool cgroup_is_empty(const struct cgroup *cgroup);

/* What dead owners have left running beside our group. */
struct cgroup_left {
    int groups;     /* that are not empty yet */
    char text[256]; /* what this call has killed: "3 processes of pchrun 4711", or "" */
};
/* Removes the groups that dead owners have left beside ours. What still runs in one gets SIGKILL:
 * call it again until there is none. */
void cgroup_sweep(const struct cgroup *cgroup, struct cgroup_left *ret);

/* Where a group of version 2 is, as /proc/self/cgroup and /proc/self/mountinfo (their whole text)
 * tell: false if they do not, or it is not mounted where we could see it. */
MUST_CHECK bool cgroup_find(const char *groups, const char *mounts, char *ret, size_t size);

#endif
