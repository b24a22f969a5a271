/* SPDX-License-Identifier: Apache-2.0
 * See savepath.h.
 */
#include "libpch/savepath.h"

#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS  "0123456789"

static bool has_scheme(const char *path)
{
    return str_starts(path + strspn(path, LETTERS DIGITS "+.-"), "://") && path[0] != ':';
}

/* False: it does not fit, or there is no working directory. */
static bool make_absolute(char ret[PROCMSG_PATH_MAX], const char *path, struct err *err)
{
    bool is_absolute = path[0] == '/';
    ret[0] = '\0';
    /* The kernel's answer does not begin with a slash if the folder cannot be reached any more. */
    if (!is_absolute && (!getcwd(ret, PROCMSG_PATH_MAX) || ret[0] != '/'))
        return err_set(err, ERR_USAGE, 0,
                       "the working directory is gone, so the relative path %.100s leads nowhere: "
                       "pass an absolute one",
                       path);
    if (str_addf(ret, PROCMSG_PATH_MAX, "%s%s", is_absolute || !ret[1] ? "" : "/", path))
        return true;
    return err_set(err, ERR_USAGE, 0,
                   "the path of the checkpoint is too long (4095 letters at most)");
}

/* Does this error say that nothing is there? Others say that it cannot be known. */
static bool is_absence(int number)
{
    return number == ENOENT || number == ENOTDIR || number == ELOOP || number == ENAMETOOLONG;
}

/* Takes over `folder`. */
static bool has_entry(DIR *folder, const char *name, bool may_be_prefix)
{
    const struct dirent *entry;
    size_t size = strlen(name);
    bool is_found = false;
    while (!is_found && (entry = readdir(folder))) {
        const char *rest = entry->d_name + size;
        if (strncmp(entry->d_name, name, size) != 0)
            continue;
        if (rest[0])
            is_found = may_be_prefix && !strchr(LETTERS DIGITS, rest[0]);
        else
            is_found = entry->d_type != DT_LNK; /* such a link is broken */
    }
    closedir(folder);
    return is_found;
}

static char *cut_last_part(char *path)
{
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
        path[n - 1] = '\0';
    char *slash = strrchr(path, '/');
    *slash = '\0';
    return slash + 1;
}

/* The folder is read where the path leads nowhere, for two reasons. The path may be the beginning
 * of several files' names, as TensorFlow's are (ckpt-7.index). And the client of a network file
 * system may remember for seconds that there was no such file, which another node has written
 * meanwhile; to open the folder makes NFS ask the server. The same holds for a folder that has come
 * since. */
static bool is_in_folder(const char *path)
{
    char folder[PROCMSG_PATH_MAX];
    str_copy(folder, sizeof folder, path);
    for (bool is_last = true; folder[0]; is_last = false) {
        const char *name = cut_last_part(folder);
        DIR *entries = opendir(folder[0] ? folder : "/");
        if (entries)
            return has_entry(entries, name, is_last);
        if (errno != ENOENT)
            return !is_absence(errno);
    }
    return false;
}

bool savepath_take(char ret[PROCMSG_PATH_MAX], const char *path, struct err *err)
{
    ret[0] = '\0';
    if (!path || !path[0])
        return true;
    if (has_scheme(path) && str_copy(ret, PROCMSG_PATH_MAX, path))
        return true;
    return make_absolute(ret, path, err);
}

bool savepath_look(const char *path, struct err *err)
{
    char shown[128];
    if (!path[0] || has_scheme(path) || access(path, F_OK) == 0 || !is_absence(errno) ||
        is_in_folder(path))
        return true;
    str_fit(shown, sizeof shown, path);
    return err_set(err, ERR_USAGE, 0,
                   "there is nothing at %s; a rank that writes no checkpoint passes NULL (None)",
                   shown);
}
