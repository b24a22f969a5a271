/* SPDX-License-Identifier: Apache-2.0
 * See program.h.
 */

#include "os/program.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The C library uses faccessat2(2). An old libseccomp refuses calls that it does not know with
 * EPERM, not ENOSYS, so that the library does not go the old way. The old way checks the
 * permissions of the real user.
 */
static int try_access(const char *path, int mode)
{
    if (faccessat(AT_FDCWD, path, mode, AT_EACCESS) == 0 ||
        (errno == EPERM && access(path, mode) == 0))
        return 0;
    return errno;
}

/* Returns 0, or an errno why the file cannot be used as `mode` (R_OK, X_OK) says. */
static int try(const char *path, int mode)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return errno;
    if (S_ISDIR(st.st_mode))
        return EISDIR;
    if (!S_ISREG(st.st_mode))
        return EACCES;
    return try_access(path, mode);
}

static bool program_refuse(const char *path, int why, struct err *err)
{
    err_set(err, why == ENOENT ? ERR_NOT_FOUND : ERR_NOT_EXEC, 0, "cannot execute '%s': %s%s", path,
            strerror(why),
            why == EACCES ? "; is it a file with permission to execute (chmod +x)?" : "");
    err->sys_errno = why;
    return false;
}

const char *program_next(const char *path, const char *name, char *ret, size_t size)
{
    size_t len = strcspn(path, ":");
    ret[0] = '\0';
    if (!str_addf(ret, size, "%.*s/%s", len ? (int)len : 1, len ? path : ".", name))
        ret[0] = '\0';
    return path[len] ? path + len + 1 : NULL;
}

static bool program_make_absolute(const char *path, char *ret, size_t size, struct err *err)
{
    if (path[0] == '/')
        return str_copy(ret, size, path) || program_refuse(path, ENAMETOOLONG, err);
    char here[PATH_MAX];
    ret[0] = '\0';
    if (!getcwd(here, sizeof here))
        return err_set(err, ERR_SYSTEM, errno,
                       "cannot find '%s': the working directory is gone; give an absolute path",
                       path);
    return str_addf(ret, size, "%s/%s", here, path) || program_refuse(path, ENAMETOOLONG, err);
}

bool program_is_python(const char *name)
{
    size_t len = strlen(name);
    return len > 3 && str_is(name + len - 3, ".py");
}

const char *program_advice(const char *name)
{
    if (!*name || try(name, F_OK) != 0)
        return "";
    return program_is_python(name)
               ? "; it is a file in the current directory: write python before its name"
               : "; it is a file in the current directory: write ./ before its name";
}

bool program_find(const char *name, const char *path, char *ret, size_t size, struct err *err)
{
    char candidate[PATH_MAX], kept[PATH_MAX] = "";
    int why = *name ? try(name, X_OK) : ENOENT;
    if (strchr(name, '/'))
        return why == 0 ? program_make_absolute(name, ret, size, err)
                        : program_refuse(name, why, err);
    if (!path)
        path = PROGRAM_PATH;
    for (const char *at = path; at && *name;) {
        at = program_next(at, name, candidate, sizeof candidate);
        why = try(candidate, X_OK);
        if (why == 0)
            return program_make_absolute(candidate, ret, size, err);
        if (why == EACCES)
            str_copy(kept, sizeof kept, candidate);
    }
    if (kept[0])
        return program_refuse(kept, EACCES, err);
    return err_set(err, ERR_NOT_FOUND, 0,
                   "cannot execute '%s': it is in no directory of PATH (%.200s)%s", name, path,
                   program_advice(name));
}

char **program_args(char *const *args, const char *path, struct err *err)
{
    char found[PATH_MAX];
    size_t n = str_count(args);
    if (!program_find(args[0], path, found, sizeof found, err))
        return NULL;
    char **ret = calloc(n + 1, sizeof *ret);
    if (ret) {
        memcpy(ret, args, n * sizeof *args);
        ret[0] = strdup(found);
    }
    if (ret && ret[0])
        return ret;
    free(ret);
    err_set(err, ERR_SYSTEM, ENOMEM, "cannot start");
    return NULL;
}

void program_args_free(char **args)
{
    if (args)
        free(args[0]);
    free(args);
}

/* `place` is absolute, or relative to our executable's folder. "" if unknown or too long. */
static void path_of(const char *place, char *ret, size_t size)
{
    char ours[PATH_MAX] = "";
    bool is_known = place[0] == '/' || readlink("/proc/self/exe", ours, sizeof ours - 1) > 0;
    const char *slash = strrchr(ours, '/');
    int folder = slash ? (int)(slash + 1 - ours) : 0;
    ret[0] = '\0';
    if (!is_known || !str_addf(ret, size, "%.*s%s", folder, ours, place))
        ret[0] = '\0';
}

/* Programs installed with pchrun belong to its owner or to root. So a pchrun copied to /tmp runs no
 * file that another user put there. */
static bool is_of_our_owner(const char *path)
{
    struct stat ours, its;
    return stat("/proc/self/exe", &ours) == 0 && stat(path, &its) == 0 &&
           (its.st_uid == ours.st_uid || its.st_uid == 0);
}

bool program_beside(const char *name, char *ret, size_t size)
{
    path_of(name, ret, size);
    return try(ret, X_OK) == 0 && is_of_our_owner(ret);
}

bool program_file_near(const char *const *places, char *ret, size_t size)
{
    const char *const *place = places;
    do {
        path_of(*place, ret, size);
        if (try(ret, R_OK) == 0 && is_of_our_owner(ret))
            return true;
    } while (*++place);
    path_of(places[0], ret, size);
    return false;
}
