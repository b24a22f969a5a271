/* SPDX-License-Identifier: Apache-2.0
 *
 * cgroup: a control group (version 2) for the processes of the job, below our own. cgroup_kill()
 * kills all of them at once, even a fork bomb.
 *
 * Needs write access to our own group's directory (systemd's Delegate=, or root) and cgroup.kill
 * (Linux 5.14). No controller is enabled in it, so accounting and limits do not change. The
 * supervisor keeps the directory locked (flock) until it ends. So a group without a lock belongs to
 * a dead supervisor, and its processes may be killed. cgroup_end() ends a struct cgroup. Without a
 * group nothing fails, because pchrun also signals the tree (tree.h). Main thread. See cgroups(7).
 */
#pragma once

#include "base/err.h"

#include <limits.h>
#include <sys/types.h>

struct cgroup {
    char path[PATH_MAX];
    int dir;  /* for spawn_request; 0: no group */
    int kill; /* its cgroup.kill */
};

/* False: no group; *err says why, and *ret is zero except its path. */
MUST_CHECK bool cgroup_begin(struct cgroup *ret, struct err *err);
/* Removes the group. While processes run in it the directory stays, for a later cgroup_sweep(). */
void cgroup_end(struct cgroup *cgroup);
/* Sends SIGKILL to all processes in the group. False: no group, or the kernel refused. */
bool cgroup_kill(const struct cgroup *cgroup);
/* Calls fn for each process in the group and below; processes of other PID namespaces have pid 0.
 * False: no group. */
MUST_CHECK bool cgroup_list(const struct cgroup *cgroup, void (*fn)(void *ctx, pid_t pid),
                            void *ctx);
/* True if no process runs in the group or below. Without a group: false. */
bool cgroup_is_empty(const struct cgroup *cgroup);

/* Leftovers of dead supervisors beside our group. */
struct cgroup_left {
    int groups;     /* not empty yet */
    char text[256]; /* killed by this call: "3 processes of pchrun 4711", or "" */
};
/* Removes groups of dead supervisors beside ours and kills their processes. Call again until
 * ret->groups is 0. */
void cgroup_sweep(const struct cgroup *cgroup, struct cgroup_left *ret);

/* True for a name that cgroup_begin() made. Other names, as systemd's "pchrun.service", begin the
 * same but must not be removed. */
bool cgroup_is_name(const char *name);

/* Where the control group of a process is. */
struct cgroup_place {
    bool is_v2;          /* set first: version 2, or the memory controller of version 1 */
    char name[PATH_MAX]; /* as /proc/<pid>/cgroup has it */
    char dir[PATH_MAX];
};
/* Finds name and dir; pid 0: our own group. `root` is a prefix of /proc and /sys, but not of
 * place->dir, for tests; normally "". False: /proc names no group, or no mount shows it.
 */
MUST_CHECK bool cgroup_find(const char *root, pid_t pid, struct cgroup_place *place);
/* Finds only the name. */
bool cgroup_name(const char *root, pid_t pid, struct cgroup_place *place);
/* The part of a group's name below the name `above`: "" or "/..."; NULL: the group is not below. */
const char *cgroup_below(const char *name, const char *above);
