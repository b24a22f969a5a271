/* SPDX-License-Identifier: Apache-2.0
 *
 * shim_fds: lists the descriptors that the program named in FDS_OF leaves open. The shim writes the
 * list when the program ends through its exit handlers, to the file FDS_LOG/fds.PID. Each
 * descriptor is a line "NUMBER TARGET", so an empty file says that there is none. The standard
 * streams do not count, nor do descriptors that were open at the program's start.
 *
 * In that program the shim removes itself from the environment, so the program's children run
 * without it.
 */
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FDS_MAX = 256, TARGET_MAX = 256 };

struct open_fd {
    int fd;
    char target[TARGET_MAX];
};

static struct {
    pid_t pid; /* 0: not for this program */
    char path[512];
    struct open_fd inherited[FDS_MAX];
    size_t n;
} us;

/* Lists the open descriptors above the standard streams, without its own. */
static size_t look(struct open_fd *found)
{
    size_t n = 0;
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    while (dir && n < FDS_MAX && (entry = readdir(dir))) {
        int fd = atoi(entry->d_name);
        ssize_t len = fd > STDERR_FILENO && fd != dirfd(dir)
                          ? readlinkat(dirfd(dir), entry->d_name, found[n].target, TARGET_MAX - 1)
                          : -1;
        if (len < 0)
            continue;
        found[n].target[len] = '\0';
        found[n++].fd = fd;
    }
    if (dir)
        closedir(dir);
    return n;
}

/* Removes this shim. The other preloaded libraries stay: FDS_OTHERS names them. */
static void leave_environment(void)
{
    const char *others = getenv("FDS_OTHERS");
    if (others)
        setenv("LD_PRELOAD", others, 1);
    else
        unsetenv("LD_PRELOAD");
    unsetenv("FDS_OTHERS");
    unsetenv("FDS_OF");
    unsetenv("FDS_LOG");
}

__attribute__((constructor)) static void at_start(void)
{
    const char *program = getenv("FDS_OF"), *folder = getenv("FDS_LOG");
    if (!program || !folder || strcmp(program, program_invocation_short_name) != 0)
        return;
    us.pid = getpid();
    snprintf(us.path, sizeof us.path, "%s/fds.%d", folder, (int)us.pid);
    us.n = look(us.inherited);
    leave_environment();
}

static bool is_inherited(const struct open_fd *open)
{
    for (size_t i = 0; i < us.n; i++)
        if (us.inherited[i].fd == open->fd && strcmp(us.inherited[i].target, open->target) == 0)
            return true;
    return false;
}

/* A fork that ends through exit handlers is not the program. */
__attribute__((destructor)) static void at_exit(void)
{
    static struct open_fd left[FDS_MAX];
    if (us.pid != getpid())
        return;
    size_t n = look(left);
    FILE *file = fopen(us.path, "we");
    if (!file)
        return;
    for (size_t i = 0; i < n; i++)
        if (!is_inherited(&left[i]))
            fprintf(file, "%d %s\n", left[i].fd, left[i].target);
    fclose(file);
}
