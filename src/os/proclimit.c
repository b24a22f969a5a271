/* SPDX-License-Identifier: Apache-2.0
 * See proclimit.h.
 */
#include "os/proclimit.h"

#include "base/fd.h"
#include "base/str.h"
#include "os/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* The processes and threads of our user that this PID namespace shows. The folder "task" of a
 * process has a link for each thread, and two of its own. */
static int64_t count_ours(void)
{
    int64_t n = 0;
    struct dirent *entry;
    DIR *proc = opendir("/proc");
    while (proc && (entry = readdir(proc))) {
        char path[sizeof entry->d_name + 8];
        struct stat st;
        snprintf(path, sizeof path, "%s/task", entry->d_name);
        if (strchr(STR_DIGITS, entry->d_name[0]) && fstatat(dirfd(proc), path, &st, 0) == 0 &&
            st.st_uid == getuid())
            n += (int64_t)st.st_nlink - 2;
    }
    if (proc)
        closedir(proc);
    return n;
}

static void add_user(char *text, size_t size)
{
    struct rlimit limit;
    int64_t n = count_ours();
    if (getrlimit(RLIMIT_NPROC, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return;
    str_addf(text, size, "; ulimit -u (RLIMIT_NPROC) is %llu", (unsigned long long)limit.rlim_cur);
    if (n > 0)
        str_addf(text, size, ", and user %u has %" PRId64 " processes and threads here",
                 (unsigned)getuid(), n);
}

/* False: the group has no such number; "max" is none. */
static bool read_pids(const char *dir, const char *file, int64_t *ret)
{
    char path[PATH_MAX], line[32];
    return snprintf(path, sizeof path, "%s/%s", dir, file) < (int)sizeof path &&
           fd_read_line(path, line, sizeof line) && str_to_i64(line, 0, INT64_MAX, ret);
}

/* Finds the group with the least room, among our group and the groups above it. */
static void add_group(char *text, size_t size)
{
    struct cgroup_place place = {.is_v2 = true};
    int64_t max, now, least = INT64_MAX;
    char found[160] = "";
    if (!cgroup_find("", 0, &place))
        return;
    if (str_is(place.name, "/"))
        place.name[0] = '\0';
    for (char *end = place.name + strlen(place.name); end; end = strrchr(place.name, '/')) {
        size_t len = strlen(place.dir), cut = strlen(end);
        if (cut > len || !str_is(place.dir + len - cut, end)) /* above the part that is mounted */
            break;
        place.dir[len - cut] = '\0';
        *end = '\0';
        if (!read_pids(place.dir, "pids.max", &max) ||
            !read_pids(place.dir, "pids.current", &now) || max - now >= least)
            continue;
        least = max - now;
        snprintf(found, sizeof found,
                 "; pids.max of %.80s is %" PRId64 ", and pids.current %" PRId64, place.dir, max,
                 now);
    }
    str_addf(text, size, "%s", found);
}

bool proclimit_explain(struct err *err)
{
    if (err->sys_errno != EAGAIN)
        return false;
    add_user(err->text, sizeof err->text);
    add_group(err->text, sizeof err->text);
    str_addf(err->text, sizeof err->text,
             "; raise the limit that is reached, or start fewer processes and threads");
    return false;
}
