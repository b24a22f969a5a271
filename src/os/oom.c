/* SPDX-License-Identifier: Apache-2.0
 * See oom.h.
 */
#include "os/oom.h"

#include "base/fd.h"
#include "base/str.h"
#include "os/cgroup.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads the line "oom_kill 3" of the file; -1: no such line. */
static int64_t read_kills(const struct oom *oom, const struct oom_group *group)
{
    static const char key[] = "\noom_kill ";
    char full[PATH_MAX], text[1024] = "\n";
    snprintf(full, sizeof full, "%s%s", oom->root, group->path);
    if (fd_read_text(full, text + 1, sizeof text - 1) <= 0)
        return -1;
    const char *line = strstr(text, key);
    return line ? strtoll(line + strlen(key), NULL, 10) : -1;
}

static bool find_counter(const struct oom *oom, pid_t pid, bool is_v2, struct oom_group *ret)
{
    struct cgroup_place place = {.is_v2 = is_v2};
    *ret = (struct oom_group){.is_v2 = is_v2};
    if (!cgroup_find(oom->root, pid, &place) ||
        !str_copy(ret->name, sizeof ret->name, place.name) ||
        !str_addf(ret->path, sizeof ret->path, "%s/%s", place.dir,
                  is_v2 ? "memory.events" : "memory.oom_control"))
        return false;
    ret->kills = read_kills(oom, ret);
    return ret->kills >= 0;
}

void oom_watch(struct oom *oom, pid_t pid)
{
    struct oom_group found;
    if (!find_counter(oom, pid, true, &found) && !find_counter(oom, pid, false, &found))
        return;
    for (int i = 0; i < oom->n; i++)
        if (str_is(oom->groups[i].path, found.path))
            return;
    if (oom->n < OOM_GROUPS_MAX)
        oom->groups[oom->n++] = found;
}

/* Version 2 still lists a dead process in its group, and a group's counter includes the groups
 * below it. Version 1 lists no dead process and does not count the groups below. So the counter of
 * any group may include the death. */
enum oom_answer oom_ask(struct oom *oom, pid_t pid, bool takes, const char **ret_group)
{
    struct cgroup_place place = {.is_v2 = true};
    enum oom_answer answer = OOM_UNKNOWN;
    cgroup_name(oom->root, pid, &place);
    for (int i = 0; i < oom->n; i++) {
        struct oom_group *group = &oom->groups[i];
        bool may_count = !group->is_v2 || cgroup_below(place.name, group->name);
        int64_t kills = may_count ? read_kills(oom, group) : -1;
        if (kills < 0)
            continue;
        answer = answer == OOM_UNKNOWN ? OOM_NO : answer;
        if (kills <= group->kills)
            continue;
        if (answer != OOM_YES)
            *ret_group = group->name;
        answer = OOM_YES;
        group->kills += takes;
    }
    return answer;
}

void oom_settle(struct oom *oom)
{
    for (int i = 0; i < oom->n; i++) {
        int64_t kills = read_kills(oom, &oom->groups[i]);
        if (kills > oom->groups[i].kills)
            oom->groups[i].kills = kills;
    }
}
