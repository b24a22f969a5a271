/* SPDX-License-Identifier: Apache-2.0
 *
 * oom: finds out whether the kernel's OOM killer has killed a process.
 *
 * A process that it kills dies of SIGKILL, like any other killed process. Only a counter of the
 * control group tells: oom_kill in memory.events (cgroup v2) or memory.oom_control (v1). The
 * counter is read before and after a death. These are kernel files, so reading does not block. A
 * counter that cannot be read gives OOM_UNKNOWN. A struct oom owns nothing. Main thread. See
 * cgroups(7), proc(5).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { OOM_GROUPS_MAX = 16, OOM_NAME_SIZE = 256, OOM_PATH_SIZE = 512 };

struct oom {
    const char *root; /* set first: "", or where a test has its /proc and /sys */
    struct oom_group {
        char name[OOM_NAME_SIZE]; /* as /proc/<pid>/cgroup has it */
        char path[OOM_PATH_SIZE]; /* the file with its counter */
        bool is_v2;
        int64_t kills; /* OOM kills that earlier deaths explain */
    } groups[OOM_GROUPS_MAX];
    int n;
};

/* Notes the control group of a living process; pid 0: our own. Groups without a counter, or over
 * the limit, are not watched. */
void oom_watch(struct oom *oom, pid_t pid);

enum oom_answer {
    OOM_UNKNOWN, /* the group of the process is not watched */
    OOM_NO,      /* no process of the group was killed */
    OOM_YES,     /* a kill that no earlier death explains */
};
/* For a dead process that is not reaped yet. `takes`: the OOM killer may have killed it, so this
 * death explains one kill. Else the kill may explain another death. *ret_group: the group; valid
 * until the next call. */
enum oom_answer oom_ask(struct oom *oom, pid_t pid, bool takes, const char **ret_group);
/* Call when all processes killed so far have ended: no later death can be one of these kills. */
void oom_settle(struct oom *oom);
