/* SPDX-License-Identifier: Apache-2.0
 * See instrument.h.
 */
#include "commands/instrument.h"

#include "base/str.h"
#include "os/program.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Relative to pchrun: where it is installed, where it was built, and in a wheel's folder of
 * programs. An installer may keep the wheel's files in its cache and link to them. */
static const char *const places[] = {PCHRUN_TO_PYTHON, PCHRUN_TO_BUILT_PYTHON,
                                     PCHRUN_TO_CACHED_PYTHON, NULL};

/* Programs show the path, so it must be without detours. */
static bool find_folder(char ret[PATH_MAX], struct err *err)
{
    char path[PATH_MAX];
    if (!program_file_near(places, path, sizeof path))
        return err_set(err, ERR_SYSTEM, 0,
                       "--instrument needs %.300s; it is not there, is not readable, or belongs "
                       "to another user; install pchrun as a whole",
                       path[0] ? path : places[0]);
    if (!realpath(path, ret))
        return err_set(err, ERR_SYSTEM, errno, "--instrument needs %.300s", path);
    *strrchr(ret, '/') = '\0';
    return !strchr(ret, ':') ||
           err_set(err, ERR_SYSTEM, 0,
                   "--instrument cannot name %.300s to Python, since a colon ends a path in "
                   "PYTHONPATH; install pchrun elsewhere",
                   ret);
}

char *instrument_python_path(const char *inherited, struct err *err)
{
    char folder[PATH_MAX];
    char *ret = NULL;
    if (!find_folder(folder, err))
        return NULL;
    bool has_more = inherited && inherited[0];
    /* An empty entry would mean the current directory. */
    if (asprintf(&ret, "%s%s%s", folder, has_more ? ":" : "", has_more ? inherited : "") >= 0)
        return ret;
    err_set(err, ERR_SYSTEM, ENOMEM, "cannot start");
    return NULL;
}
