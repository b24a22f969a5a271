/* SPDX-License-Identifier: Apache-2.0
 * See oom.h.
 */
#include "os/oom.h"

#include "base/fd.h"
#include "base/str.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The mount point of a hierarchy, and the part that it shows. */
struct hierarchy {
    char point[OOM_PATH_SIZE], top[OOM_NAME_SIZE];
};

static FILE *open_text(const struct oom *oom, const char *path)
{
    char full[PATH_MAX];
    snprintf(full, sizeof full, "%s%s", oom->root ? oom->root : "", path);
    return fopen(full, "re");
}

/* Undoes mountinfo's escapes, such as \040 for a blank, in place. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from; to++) {
        unsigned code;
        int used = 0;
        if (sscanf(from, "\\%3o%n", &code, &used) == 1 && used == 4) {
            *to = (char)code;
            from += used;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

static bool has_word(const char *list, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += len)
        if ((at == list || at[-1] == ',') && (at[len] == ',' || at[len] == '\0'))
            return true;
    return false;
}

/* "36 35 98:0 /top /point rw,noatime master:1 - cgroup name rw,memory" */
static bool is_hierarchy(char *line, bool is_v2, struct hierarchy *ret)
{
    char top[1024], point[1024], type[64], options[1024];
    char *behind = strstr(line, " - ");
    if (!behind || sscanf(line, "%*d %*d %*s %1023s %1023s", top, point) != 2 ||
        sscanf(behind, " - %63s %*s %1023s", type, options) != 2)
        return false;
    if (!str_is(type, is_v2 ? "cgroup2" : "cgroup") || (!is_v2 && !has_word(options, "memory")))
        return false;
    unescape(top);
    unescape(point);
    return str_copy(ret->top, sizeof ret->top, top) &&
           str_copy(ret->point, sizeof ret->point, point);
}

static bool find_hierarchy(const struct oom *oom, bool is_v2, struct hierarchy *ret)
{
    FILE *file = open_text(oom, "/proc/self/mountinfo");
    char *line = NULL;
    size_t size = 0;
    bool found = false;
    while (file && !found && getline(&line, &size, file) > 0)
        found = is_hierarchy(line, is_v2, ret);
    free(line);
    if (file)
        fclose(file);
    return found;
}

/* "0::/name", "4:memory:/name" */
static bool is_group(char *line, bool is_v2, char name[OOM_NAME_SIZE])
{
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path)
        return false;
    *path++ = '\0';
    path[strcspn(path, "\n")] = '\0';
    bool is_it = is_v2 ? str_starts(line, "0:") && controllers[1] == '\0'
                       : has_word(controllers + 1, "memory");
    return is_it && str_copy(name, OOM_NAME_SIZE, path);
}

/* pid 0: this process. */
static bool oom_find_group(const struct oom *oom, pid_t pid, bool is_v2, char name[OOM_NAME_SIZE])
{
    char path[64] = "/proc/self/cgroup";
    if (pid)
        snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
    FILE *file = open_text(oom, path);
    char *line = NULL;
    size_t size = 0;
    bool found = false;
    while (file && !found && getline(&line, &size, file) > 0)
        found = is_group(line, is_v2, name);
    free(line);
    if (file)
        fclose(file);
    return found;
}

/* Is `name` the group `above`, or in it? */
static bool oom_is_within(const char *name, const char *above)
{
    size_t len = str_is(above, "/") ? 0 : strlen(above);
    return strncmp(name, above, len) == 0 && (name[len] == '/' || name[len] == '\0');
}

static bool place_file(const struct hierarchy *h, struct oom_group *group)
{
    if (!oom_is_within(group->name, h->top) || strstr(group->name, "/.."))
        return false;
    const char *rest = group->name + (str_is(h->top, "/") ? 0 : strlen(h->top));
    int n = snprintf(group->path, sizeof group->path, "%s%s/%s", h->point,
                     str_is(rest, "/") ? "" : rest,
                     group->is_v2 ? "memory.events" : "memory.oom_control");
    return n > 0 && (size_t)n < sizeof group->path;
}

/* Reads the line "oom_kill 3" of the file; -1: no such line. */
static int64_t read_kills(const struct oom *oom, const struct oom_group *group)
{
    char full[PATH_MAX], text[1024];
    snprintf(full, sizeof full, "%s%s", oom->root ? oom->root : "", group->path);
    if (fd_read_text(full, text, sizeof text) <= 0)
        return -1;
    static const char key[] = "oom_kill ";
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (str_starts(line, key))
            return strtoll(line + sizeof key - 1, NULL, 10);
    }
    return -1;
}

static bool find_counter(const struct oom *oom, pid_t pid, bool is_v2, struct oom_group *ret)
{
    struct hierarchy hierarchy;
    *ret = (struct oom_group){.is_v2 = is_v2};
    if (!oom_find_group(oom, pid, is_v2, ret->name) || !find_hierarchy(oom, is_v2, &hierarchy) ||
        !place_file(&hierarchy, ret))
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

/* v2 still lists a dead process in its group, and a group's counter includes the groups below. v1
 * does neither. */
static bool concerns(const struct oom_group *group, const char *name)
{
    return !group->is_v2 || oom_is_within(name, group->name);
}

enum oom_answer oom_ask(struct oom *oom, pid_t pid, bool takes, const char **ret_group)
{
    char name[OOM_NAME_SIZE] = "";
    enum oom_answer answer = OOM_UNKNOWN;
    oom_find_group(oom, pid, true, name);
    for (int i = 0; i < oom->n; i++) {
        struct oom_group *group = &oom->groups[i];
        int64_t kills = concerns(group, name) ? read_kills(oom, group) : -1;
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
