/* SPDX-License-Identifier: Apache-2.0
 * See savepath.h.
 */
#include "libpch/savepath.h"

#include "base/ckptfile.h"
#include "base/str.h"

#include <string.h>
#include <unistd.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS  "0123456789"

/* False: the path is too long, or the working directory was removed. */
static bool savepath_make_absolute(char ret[PROCMSG_PATH_MAX], const char *path, struct err *err)
{
    bool is_absolute = path[0] == '/';
    ret[0] = '\0';
    /* If the directory is unreachable, the path from getcwd does not begin with a slash. */
    if (!is_absolute && (!getcwd(ret, PROCMSG_PATH_MAX) || ret[0] != '/'))
        return err_set(err, ERR_USAGE, 0,
                       "the working directory was removed, so the relative path %.100s cannot be "
                       "found: pass an absolute one",
                       path);
    if (str_addf(ret, PROCMSG_PATH_MAX, "%s%s", is_absolute || !ret[1] ? "" : "/", path))
        return true;
    return err_set(err, ERR_USAGE, 0,
                   "the path of the checkpoint is too long (4095 bytes at most)");
}

bool savepath_take(char ret[PROCMSG_PATH_MAX], const char *path, struct err *err)
{
    ret[0] = '\0';
    if (!path || !path[0])
        return true;
    bool has_scheme =
        str_starts(path + strspn(path, LETTERS DIGITS "+.-"), "://") && path[0] != ':';
    if (has_scheme && str_copy(ret, PROCMSG_PATH_MAX, path))
        return true;
    return savepath_make_absolute(ret, path, err);
}

bool savepath_look(const char *path, struct err *err)
{
    char shown[128];
    if (path[0] != '/' || ckptfile_look(path) != CKPTFILE_ABSENT)
        return true;
    str_fit(shown, sizeof shown, path);
    return err_set(err, ERR_USAGE, 0,
                   "there is nothing at %s; a rank that writes no checkpoint passes NULL (None)",
                   shown);
}
