/* SPDX-License-Identifier: Apache-2.0
 * See cgroup.h.
 */
#include "os/cgroup.h"

#include "base/fd.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* A group is named "pchrun.PID.XXXXXX". */
#define PREFIX "pchrun."
#define RANDOM "XXXXXX" /* mkdtemp() replaces each X */

enum { RANDOM_LETTERS = sizeof RANDOM - 1 };
enum { TRIES = 20, GROUPS_MAX = 4096 };

static int openat_dir(int parent, const char *name)
{
    return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

typedef void found_fn(void *ctx, pid_t pid);

static void each_in(int dir, found_fn *fn, void *ctx)
{
    FD_CLEANUP int fd = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    FILE *list = fd < 0 ? NULL : fdopen(fd, "r");
    if (!list)
        return;
    fd_take(&fd); /* the stream closes the descriptor */
    int pid;
    while (fscanf(list, "%d", &pid) == 1)
        fn(ctx, pid);
    fclose(list);
}

/* --- where we are --- */

typedef bool line_fn(char *line, struct cgroup_place *place);

/* Calls fn for each line of the file until it returns true. */
static bool find_line(const char *root, const char *path, line_fn *fn, struct cgroup_place *place)
{
    char full[PATH_MAX], *line = NULL;
    size_t size = 0;
    bool found = false;
    snprintf(full, sizeof full, "%s%s", root, path);
    FILE *file = fopen(full, "re");
    while (file && !found && getline(&line, &size, file) > 0)
        found = fn(line, place);
    free(line);
    if (file)
        fclose(file);
    return found;
}

/* True if a list such as "rw,memory" names the memory controller. */
static bool has_memory(const char *list)
{
    char text[1026];
    snprintf(text, sizeof text, ",%s,", list);
    return strstr(text, ",memory,");
}

/* "0::/name", "4:memory:/name" */
static bool cgroup_take_name(char *line, struct cgroup_place *place)
{
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path)
        return false;
    *path++ = '\0';
    path[strcspn(path, "\n")] = '\0';
    bool is_it = place->is_v2 ? str_is(line, "0:") : has_memory(controllers + 1);
    return is_it && str_copy(place->name, sizeof place->name, path);
}

bool cgroup_name(const char *root, pid_t pid, struct cgroup_place *place)
{
    char path[64] = "/proc/self/cgroup";
    if (pid)
        snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
    return find_line(root, path, cgroup_take_name, place);
}

const char *cgroup_below(const char *name, const char *above)
{
    size_t len = str_is(above, "/") ? 0 : strlen(above);
    if (strncmp(name, above, len) != 0 || (name[len] != '/' && name[len]))
        return NULL;
    return str_is(name + len, "/") ? "" : name + len;
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

/* "36 35 98:0 /top /point rw,noatime master:1 - cgroup name rw,memory": `top` is the part of the
 * groups that the mount shows. */
static bool cgroup_take_mount(char *line, struct cgroup_place *place)
{
    char top[PATH_MAX], point[PATH_MAX], type[64], options[1024];
    const char *behind = strstr(line, " - ");
    if (!behind || sscanf(line, "%*d %*d %*s %4095s %4095s", top, point) != 2 ||
        sscanf(behind, " - %63s %*s %1023s", type, options) != 2 ||
        !str_is(type, place->is_v2 ? "cgroup2" : "cgroup") ||
        (!place->is_v2 && !has_memory(options)))
        return false;
    unescape(top);
    unescape(point);
    const char *rest = cgroup_below(place->name, top);
    return rest && str_copy(place->dir, sizeof place->dir, point) &&
           str_addf(place->dir, sizeof place->dir, "%s", rest);
}

static const char *const points[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};

static bool is_mount(const char *point)
{
    struct statfs fs;
    return statfs(point, &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC;
}

/* Tries the usual mount points. False: our group is not there. A mount may show only a part of all
 * groups; then our group has another path there. */
static bool find_usual(const char *root, struct cgroup_place *place)
{
    char full[PATH_MAX];
    for (size_t i = 0; place->is_v2 && i < ARRAY_LEN(points); i++) {
        snprintf(full, sizeof full, "%s%s", root, points[i]);
        if (is_mount(full))
            return str_copy(place->dir, sizeof place->dir, points[i]) &&
                   str_addf(place->dir, sizeof place->dir, "%s", cgroup_below(place->name, "/")) &&
                   str_addf(full, sizeof full, "%s", place->dir + strlen(points[i])) &&
                   access(full, F_OK) == 0;
    }
    return false;
}

/* Reads the mounts last, because the kernel may take long to list them. A group outside of our
 * namespace ("/../x") is not visible. */
bool cgroup_find(const char *root, pid_t pid, struct cgroup_place *place)
{
    return cgroup_name(root, pid, place) && !str_starts(place->name, "/..") &&
           (find_usual(root, place) ||
            find_line(root, "/proc/self/mountinfo", cgroup_take_mount, place));
}

static void look_for_us(void *ctx, pid_t pid)
{
    bool *is_here = ctx;
    *is_here = *is_here || pid == getpid();
}

/* Extends `path` to our group. False: our group is not there or below. `left` limits the search. */
static bool search(char *path, size_t size, int *left)
{
    size_t length = strlen(path);
    bool is_here = false;
    DIR *list = --*left < 0 ? NULL : opendir(path);
    if (!list)
        return false;
    each_in(dirfd(list), look_for_us, &is_here);
    for (struct dirent *entry; !is_here && (entry = readdir(list));) {
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
            continue;
        is_here = str_addf(path, size, "/%s", entry->d_name) && search(path, size, left);
        if (!is_here)
            path[length] = '\0';
    }
    closedir(list);
    return is_here;
}

/* Without /proc: searches the groups' process lists for us. */
static bool find_listed(char *ret, size_t size)
{
    int left = GROUPS_MAX;
    for (size_t i = 0; i < ARRAY_LEN(points); i++)
        if (is_mount(points[i]) && str_copy(ret, size, points[i]) && search(ret, size, &left))
            return true;
    return false;
}

static bool find_ours(char *ret, size_t size, struct err *err)
{
    struct cgroup_place place = {.is_v2 = true};
    bool is_found = access("/proc/self/cgroup", R_OK) == 0
                        ? cgroup_find("", 0, &place) && str_copy(ret, size, place.dir)
                        : find_listed(ret, size);
    return is_found || err_set(err, ERR_SYSTEM, 0, "no control groups of version 2 are visible");
}

/* --- our own --- */

/* Calls fn for all processes of a group and of the groups that the job has made below it.
 * `removes`: also removes the empty groups below it. */
static void each_below(int dir, bool removes, found_fn *fn, void *ctx)
{
    each_in(dir, fn, ctx);
    FD_CLEANUP int again = openat_dir(dir, ".");
    DIR *list = again < 0 ? NULL : fdopendir(again);
    if (!list)
        return;
    fd_take(&again); /* the stream closes the descriptor */
    for (struct dirent *entry; (entry = readdir(list));) {
        FD_CLEANUP int inner = entry->d_type == DT_DIR && entry->d_name[0] != '.'
                                   ? openat_dir(dir, entry->d_name)
                                   : -1;
        if (inner < 0)
            continue;
        each_below(inner, removes, fn, ctx);
        if (removes)
            unlinkat(dir, entry->d_name, AT_REMOVEDIR);
    }
    closedir(list);
}

static void count_one(void *ctx, pid_t pid)
{
    (void)pid;
    ++*(int *)ctx;
}

/* Removes the empty groups below; returns how many processes run in the group and below. */
static int clear_below(int dir)
{
    int n = 0;
    each_below(dir, true, count_one, &n);
    return n;
}

/* World-readable, so that a program that changes its user can read its own group. */
static bool cgroup_hold(struct cgroup *cgroup)
{
    FD_CLEANUP int dir = open(cgroup->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    FD_CLEANUP int killer = -1;
    if (dir >= 0 && fchmod(dir, 0755) == 0 && flock(dir, LOCK_EX | LOCK_NB) == 0)
        killer = openat(dir, "cgroup.kill", O_WRONLY | O_CLOEXEC);
    if (killer < 0)
        return false;
    cgroup->dir = fd_take(&dir);
    cgroup->kill = fd_take(&killer);
    return true;
}

/* Another supervisor's sweep may remove the directory before we lock it. So it tries several times.
 */
static bool cgroup_make(struct cgroup *cgroup, struct err *err)
{
    size_t length = strlen(cgroup->path);
    if (access(cgroup->path, W_OK) != 0)
        return err_set(err, ERR_SYSTEM, errno,
                       "no permission to make groups in our control group %s", cgroup->path);
    for (int tries = 0; tries < TRIES; tries++) {
        cgroup->path[length] = '\0';
        if (!str_addf(cgroup->path, PATH_MAX, "/" PREFIX "%d." RANDOM, (int)getpid()) ||
            !mkdtemp(cgroup->path))
            return err_set(err, ERR_SYSTEM, errno, "cannot make the control group %s",
                           cgroup->path);
        if (cgroup_hold(cgroup))
            return true;
        int why = errno;
        bool is_taken = rmdir(cgroup->path) != 0 || why == EWOULDBLOCK;
        errno = why;
        if (!is_taken)
            break;
    }
    return err_set(err, ERR_SYSTEM, errno, "the control group %s cannot be killed", cgroup->path);
}

bool cgroup_begin(struct cgroup *ret, struct err *err)
{
    *ret = (struct cgroup){.dir = 0};
    return find_ours(ret->path, sizeof ret->path, err) && cgroup_make(ret, err);
}

void cgroup_end(struct cgroup *cgroup)
{
    if (!cgroup->dir)
        return;
    if (rmdir(cgroup->path) != 0 && errno == EBUSY) {
        clear_below(cgroup->dir);
        rmdir(cgroup->path);
    }
    close(cgroup->kill);
    close(cgroup->dir);
    *cgroup = (struct cgroup){.dir = 0};
}

bool cgroup_kill(const struct cgroup *cgroup)
{
    return cgroup->kill && write(cgroup->kill, "1", 1) == 1;
}

bool cgroup_list(const struct cgroup *cgroup, void (*fn)(void *ctx, pid_t pid), void *ctx)
{
    if (!cgroup || !cgroup->dir)
        return false;
    each_below(cgroup->dir, false, fn, ctx);
    return true;
}

bool cgroup_is_empty(const struct cgroup *cgroup)
{
    FD_CLEANUP int fd =
        cgroup->dir ? openat(cgroup->dir, "cgroup.events", O_RDONLY | O_CLOEXEC) : -1;
    char text[256];
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (len <= 0)
        return false;
    text[len] = '\0';
    return strstr(text, "populated 0\n");
}

/* --- those of others --- */

bool cgroup_is_name(const char *name)
{
    size_t digits = str_starts(name, PREFIX) ? strspn(name + strlen(PREFIX), STR_DIGITS) : 0;
    const char *rest = name + strlen(PREFIX) + digits;
    return digits > 0 && rest[0] == '.' &&
           strspn(rest + 1, STR_LETTERS STR_DIGITS) == RANDOM_LETTERS && !rest[1 + RANDOM_LETTERS];
}

static void tell_left(struct cgroup_left *left, const char *name, int n)
{
    const char *owner = name + strlen(PREFIX);
    str_addf(left->text, sizeof left->text, "%s%d process%s of pchrun %.*s",
             left->text[0] ? ", " : "", n, n == 1 ? "" : "es", (int)strcspn(owner, "."), owner);
}

/* The lock is shared, because several supervisors may sweep and wait for the same processes. A
 * group without a lock may also be new. Then it is empty, and its owner makes another one if this
 * one is removed. */
static void sweep_one(int parent, const char *name, struct cgroup_left *left)
{
    FD_CLEANUP int dir = openat_dir(parent, name);
    if (dir < 0 || flock(dir, LOCK_SH | LOCK_NB) != 0 ||
        unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno != EBUSY)
        return;
    FD_CLEANUP int killer = openat(dir, "cgroup.kill", O_WRONLY | O_CLOEXEC);
    int n = clear_below(dir);
    if (killer < 0 || write(killer, "1", 1) != 1)
        return;
    if (n > 0)
        tell_left(left, name, n);
    left->groups += unlinkat(parent, name, AT_REMOVEDIR) != 0;
}

void cgroup_sweep(const struct cgroup *cgroup, struct cgroup_left *ret)
{
    *ret = (struct cgroup_left){0};
    FD_CLEANUP int above = cgroup->dir ? openat_dir(cgroup->dir, "..") : -1;
    DIR *parent = above < 0 ? NULL : fdopendir(above);
    if (!parent)
        return;
    fd_take(&above); /* the stream closes the descriptor */
    for (struct dirent *entry; (entry = readdir(parent));)
        if (cgroup_is_name(entry->d_name))
            sweep_one(dirfd(parent), entry->d_name, ret);
    closedir(parent);
}
