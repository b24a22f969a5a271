/* SPDX-License-Identifier: Apache-2.0
 *
 * oom: was it the kernel's OOM killer?
 *
 * A process that it kills dies of SIGKILL like one that anybody has killed. What tells them apart
 * is a counter of the control group: oom_kill in memory.events (cgroup v2) or memory.oom_control
 * (v1). It is read while all is well, and again when a process has died. All of it are files that
 * the kernel makes up, so reading does not block. A struct oom owns nothing. Main thread. What
 * cannot be read is not known, and that is an answer. See cgroups(7), proc(5).
 */
#ifndef PCHRUN_OS_OOM_H
#define PCHRUN_OS_OOM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { OOM_GROUPS_MAX = 16, OOM_NAME_SIZE = 256, OOM_PATH_SIZE = 512 };

struct oom {
    const char *root; /* "", or where a test has its /proc and /sys */
    struct oom_group {
        char name[OOM_NAME_SIZE]; /* as /proc/<pid>/cgroup has it */
        char path[OOM_PATH_SIZE]; /* the file with its counter */
        bool is_v2;
        int64_t kills; /* that are accounted for */
    } groups[OOM_GROUPS_MAX];
    int n;
};

/* Notes the control group of a process that lives; ours is 0's. Groups that do not fit, or have no
 * counter, are not watched. */
void oom_watch(struct oom *oom, pid_t pid);

enum oom_answer {
    OOM_UNKNOWN, /* its group is not watched */
    OOM_NO,      /* nothing was killed in it */
    OOM_YES,     /* something was, and no death that may be it was asked about before */
};
/* A process has died, and has not been reaped. `takes`: it may be the one that was killed, so one
 * kill is accounted for; a death by another cause leaves the count to the others. *ret_group: which
 * group; valid until the next call. */
enum oom_answer oom_ask(struct oom *oom, pid_t pid, bool takes, const char **ret_group);
/* All processes that were killed so far have ended: no later death is one of them. */
void oom_settle(struct oom *oom);

#endif
