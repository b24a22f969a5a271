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
#define PREFIX  "pchrun."
#define RANDOM  "XXXXXX" /* mkdtemp() makes letters and digits of it */
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS  "0123456789"

enum { RANDOM_LETTERS = sizeof RANDOM - 1 };
enum { MOUNTS_MAX = 256 * 1024, TRIES = 20, GROUPS_MAX = 4096 };

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
    fd_take(&fd); /* the stream closes it */
    int pid;
    while (fscanf(list, "%d", &pid) == 1)
        fn(ctx, pid);
    fclose(list);
}

/* --- where we are --- */

/* Copies up to the next blank or line end. False: no word, or it does not fit. */
static bool take_word(const char **text, char *word, size_t size)
{
    size_t len = strcspn(*text, " \n");
    bool fits = len > 0 && len < size;
    if (fits)
        snprintf(word, size, "%.*s", (int)len, *text);
    *text += len + ((*text)[len] == ' ');
    return fits;
}

/* "36 25 0:30 ROOT POINT options [more] - cgroup2 ..." */
static bool read_mount(const char *line, char *root, char *point)
{
    char word[64];
    size_t len = strcspn(line, "\n");
    const char *kind = strstr(line, " - cgroup2 ");
    if (!kind || kind > line + len)
        return false;
    for (int i = 0; i < 3; i++)
        if (!take_word(&line, word, sizeof word))
            return false;
    return take_word(&line, root, PATH_MAX) && take_word(&line, point, PATH_MAX);
}

/* The part of the path below the root of the mount; NULL: the path is not below it. */
static const char *cgroup_below(const char *path, const char *root)
{
    size_t len = str_is(root, "/") ? 0 : strlen(root);
    if (strncmp(path, root, len) != 0 || (path[len] != '/' && path[len]))
        return NULL;
    return str_is(path + len, "/") ? "" : path + len;
}

static const char *next_line(const char *text)
{
    text += strcspn(text, "\n");
    return *text ? text + 1 : text;
}

/* Reads "0::/path" (version 2). A path out of our namespace ("/../x") is useless. */
static bool read_group(const char *groups, char *path)
{
    for (const char *line = groups; *line; line = next_line(line))
        if (str_starts(line, "0::/")) {
            line += strlen("0::");
            return take_word(&line, path, PATH_MAX) && !str_starts(path, "/..");
        }
    return false;
}

bool cgroup_find(const char *groups, const char *mounts, char *ret, size_t size)
{
    char path[PATH_MAX], root[PATH_MAX], point[PATH_MAX];
    if (!read_group(groups, path))
        return false;
    for (const char *line = mounts; *line; line = next_line(line)) {
        const char *rest = read_mount(line, root, point) ? cgroup_below(path, root) : NULL;
        if (rest)
            return str_copy(ret, size, point) && str_addf(ret, size, "%s", rest);
    }
    return false;
}

static bool cgroup_read_file(const char *path, char *text, size_t size)
{
    ssize_t n = fd_read_text(path, text, size);
    return n >= 0 && (size_t)n < size - 1;
}

static const char *const points[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};

static bool is_mount(const char *point)
{
    struct statfs fs;
    return statfs(point, &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC;
}

/* Tries the usual mount points. False: not found; a mount that shows only a part of all groups
 * shows ours at another path. */
static bool find_usual(const char *groups, char *ret, size_t size)
{
    char path[PATH_MAX];
    if (!read_group(groups, path))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(points); i++)
        if (is_mount(points[i]))
            return str_copy(ret, size, points[i]) &&
                   str_addf(ret, size, "%s", cgroup_below(path, "/")) && access(ret, F_OK) == 0;
    return false;
}

/* Tried second: the kernel may take long to list all mounts. */
static bool find_mounted(const char *groups, char *ret, size_t size)
{
    char *mounts = malloc(MOUNTS_MAX);
    bool ok = mounts && cgroup_read_file("/proc/self/mountinfo", mounts, MOUNTS_MAX) &&
              cgroup_find(groups, mounts, ret, size);
    free(mounts);
    return ok;
}

static void look_for_us(void *ctx, pid_t pid)
{
    bool *is_here = ctx;
    *is_here = *is_here || pid == getpid();
}

/* False: we are not in the group `path` or below; the path is unchanged. `left` limits the search.
 */
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
    char groups[8192];
    bool is_told = cgroup_read_file("/proc/self/cgroup", groups, sizeof groups);
    return (is_told ? find_usual(groups, ret, size) || find_mounted(groups, ret, size)
                    : find_listed(ret, size)) ||
           err_set(err, ERR_SYSTEM, 0, "no control groups of version 2 are visible");
}

/* --- our own --- */

/* Calls fn for all processes of a group and of the groups that the job has made below it.
 * `removes`: removes empty ones of the latter. */
static void each_below(int dir, bool removes, found_fn *fn, void *ctx)
{
    each_in(dir, fn, ctx);
    FD_CLEANUP int again = openat_dir(dir, ".");
    DIR *list = again < 0 ? NULL : fdopendir(again);
    if (!list)
        return;
    fd_take(&again); /* the stream closes it */
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

/* Another supervisor's sweep may remove the directory before it is locked. Then a second attempt
 * most likely succeeds. */
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
    size_t digits = str_starts(name, PREFIX) ? strspn(name + strlen(PREFIX), DIGITS) : 0;
    const char *rest = name + strlen(PREFIX) + digits;
    return digits > 0 && rest[0] == '.' && strspn(rest + 1, LETTERS DIGITS) == RANDOM_LETTERS &&
           !rest[1 + RANDOM_LETTERS];
}

static void tell_left(struct cgroup_left *left, const char *name, int n)
{
    const char *owner = name + strlen(PREFIX);
    str_addf(left->text, sizeof left->text, "%s%d process%s of pchrun %.*s",
             left->text[0] ? ", " : "", n, n == 1 ? "" : "es", (int)strcspn(owner, "."), owner);
}

/* A shared lock: several supervisors may sweep at once and wait for the same processes. An unlocked
 * group may also be brand new. Then it is empty, and its owner makes another one.
 */
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
    fd_take(&above); /* the stream closes it */
    for (struct dirent *entry; (entry = readdir(parent));)
        if (cgroup_is_name(entry->d_name))
            sweep_one(dirfd(parent), entry->d_name, ret);
    closedir(parent);
}
