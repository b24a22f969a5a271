/* SPDX-License-Identifier: Apache-2.0
 * See handover.h.
 */
#include "run/handover.h"

#include "os/program.h"
#include "os/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

/* From where pchrun is installed, and from where it was built. */
static const char *const places[] = {PCHRUN_TO_CLUSTER, PCHRUN_TO_BUILT_CLUSTER, NULL};

void handover(char **argv, char **env, unsigned closed, struct err *err)
{
    char path[PATH_MAX];
    if (!program_near(places, path, sizeof path)) {
        err_set(err, ERR_SYSTEM, 0,
                "several nodes need %.300s; it is not there, no program, or another user's than "
                "pchrun is; install pchrun as a whole",
                path[0] ? path : places[0]);
        return;
    }
    for (int fd = 0; fd <= 2; fd++)
        if (closed & 1U << fd)
            fcntl(fd, F_SETFD, FD_CLOEXEC);
    signals_restore();
    execve(path, argv, env);
    err_set(err, ERR_SYSTEM, errno, "several nodes need %.300s, which cannot be executed", path);
}
