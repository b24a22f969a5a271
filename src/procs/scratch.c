/* SPDX-License-Identifier: Apache-2.0
 * See scratch.h.
 */
#include "procs/scratch.h"

#include "base/fd.h"
#include "base/str.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH_MAX = 64 };

static void remove_entry(int dir, const char *name, dev_t dev, int depth);

/* Empties the directory behind `fd`, and closes it. */
static void remove_content(int fd, dev_t dev, int depth)
{
    DIR *stream = fdopendir(fd);
    if (!stream) {
        close(fd);
        return;
    }
    struct dirent *entry;
    while ((entry = readdir(stream)))
        if (!str_is(entry->d_name, ".") && !str_is(entry->d_name, ".."))
            remove_entry(dirfd(stream), entry->d_name, dev, depth);
    closedir(stream);
}

static void remove_entry(int dir, const char *name, dev_t dev, int depth)
{
    if (unlinkat(dir, name, 0) == 0 || depth == 0)
        return;
    struct stat st;
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && st.st_dev == dev)
        remove_content(fd, dev, depth - 1);
    else
        close(fd);
    unlinkat(dir, name, AT_REMOVEDIR);
}

static bool is_meant(const struct scratch_sweep *what, const char *name)
{
    if (what->name)
        return str_is(name, what->name);
    return str_starts(name, what->prefix) && !(what->except && str_starts(name, what->except));
}

void scratch_sweep(const struct scratch_sweep *what)
{
    struct stat st;
    DIR *stream = opendir(what->dir);
    if (!stream)
        return;
    struct dirent *entry;
    while (fstat(dirfd(stream), &st) == 0 && (entry = readdir(stream)))
        if (is_meant(what, entry->d_name))
            remove_entry(dirfd(stream), entry->d_name, st.st_dev, DEPTH_MAX);
    closedir(stream);
}
