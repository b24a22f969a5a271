/* SPDX-License-Identifier: Apache-2.0
 * See handover.h.
 */
#include "run/handover.h"

#include "os/program.h"
#include "os/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Relative to an installed pchrun, to a built one, and to a wheel's folder of programs. An
 * installer may keep the wheel's files in its cache and link to them. */
static const char *const places[] = {PCHRUN_TO_CLUSTER, PCHRUN_TO_BUILT_CLUSTER,
                                     PCHRUN_TO_CACHED_CLUSTER, NULL};

/* "PID:MASK", for the program that this process executes; no other process sees it. */
#define VARIABLE "_PCHRUN_MASK"

/* `env` plus our variable, which must live until the execve(). NULL: no memory. */
static char **with_ours(char **env, char *ours)
{
    size_t n = 0;
    while (env[n])
        n++;
    char **ret = calloc(n + 2, sizeof *ret);
    if (!ret)
        return NULL;
    ret[0] = ours;
    memcpy(ret + 1, env, n * sizeof *env);
    return ret;
}

void handover_take(void)
{
    const char *text = getenv(VARIABLE);
    char pid[16];
    size_t len = (size_t)snprintf(pid, sizeof pid, "%d:", (int)getpid());
    if (text && strncmp(text, pid, len) == 0 && signals_inherit(text + len))
        unsetenv(VARIABLE);
}

void handover(char **argv, char **env, unsigned closed, struct err *err)
{
    char path[PATH_MAX];
    if (!program_near(places, path, sizeof path)) {
        err_set(err, ERR_SYSTEM, 0,
                "several nodes need %.300s; it is not there, is no program, or belongs to another "
                "user; install pchrun as a whole",
                path[0] ? path : places[0]);
        return;
    }
    for (int fd = 0; fd <= 2; fd++)
        if (closed & 1U << fd)
            fcntl(fd, F_SETFD, FD_CLOEXEC);
    char mask[SIGNALS_MASK_TEXT], ours[64];
    signals_hand_over(mask);
    snprintf(ours, sizeof ours, VARIABLE "=%d:%s", (int)getpid(), mask);
    char **all = with_ours(env, ours);
    execve(path, argv, all ? all : env);
    free(all);
    err_set(err, ERR_SYSTEM, errno, "several nodes need %.300s, which cannot be executed", path);
}
