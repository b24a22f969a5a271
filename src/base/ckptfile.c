/* SPDX-License-Identifier: Apache-2.0
 * See ckptfile.h.
 */
#include "base/ckptfile.h"

#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

/* True if the error means that the file is absent. Other errors prove nothing. */
static bool is_absence(int number)
{
    return number == ENOENT || number == ENOTDIR || number == ELOOP || number == ENAMETOOLONG;
}

/* TensorFlow names a checkpoint "ckpt-7" by the prefix of its files: ckpt-7.index and
 * ckpt-7.data-00000-of-00001. It writes the index last and removes it first, and takes the
 * checkpoint for complete if the index is there. */
static bool is_named(const char *entry, const char *name, bool may_be_prefix)
{
    size_t size = strlen(name);
    return strncmp(entry, name, size) == 0 &&
           (!entry[size] || (may_be_prefix && str_is(entry + size, ".index")));
}

static bool is_broken_link(int folder, const char *name)
{
    char first;
    return readlinkat(folder, name, &first, 1) >= 0 && faccessat(folder, name, F_OK, 0) != 0 &&
           is_absence(errno);
}

/* Takes over `folder`. */
static enum ckptfile ckptfile_search(DIR *folder, const char *name, bool may_be_prefix)
{
    const struct dirent *entry;
    enum ckptfile found = CKPTFILE_ABSENT;
    while (found == CKPTFILE_ABSENT && (errno = 0, entry = readdir(folder)))
        if (is_named(entry->d_name, name, may_be_prefix) &&
            !is_broken_link(dirfd(folder), entry->d_name))
            found = CKPTFILE_THERE;
    if (found == CKPTFILE_ABSENT && errno != 0)
        found = CKPTFILE_UNKNOWN;
    closedir(folder);
    return found;
}

static char *cut_last_part(char *path)
{
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
        path[n - 1] = '\0';
    char *slash = strrchr(path, '/');
    *slash = '\0';
    return slash + 1;
}

/* Reads the directory if the path does not exist, for two reasons. The path may be a prefix. And a
 * network file system may report for seconds that a file or directory is missing, although another
 * node has just made it. Opening its parent directory makes NFS ask the server. */
static enum ckptfile look_in_folder(const char *path)
{
    char folder[PATH_MAX];
    if (!str_copy(folder, sizeof folder, path))
        return CKPTFILE_ABSENT;
    for (bool is_last = true; folder[0]; is_last = false) {
        const char *name = cut_last_part(folder);
        DIR *entries = opendir(folder[0] ? folder : "/");
        if (entries)
            return ckptfile_search(entries, name, is_last);
        if (errno != ENOENT)
            return is_absence(errno) ? CKPTFILE_ABSENT : CKPTFILE_UNKNOWN;
    }
    return CKPTFILE_ABSENT;
}

/* Not stat(): it would bind libpch to the build machine's C library or a newer one, and libpch must
 * run with older ones. */
enum ckptfile ckptfile_look(const char *path)
{
    if (access(path, F_OK) == 0)
        return CKPTFILE_THERE;
    return is_absence(errno) ? look_in_folder(path) : CKPTFILE_UNKNOWN;
}
