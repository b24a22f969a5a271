/* SPDX-License-Identifier: Apache-2.0
 *
 * shim_stuck: a file system that has died. While SHIM_DIR/stuck is there, a write to a file below
 * SHIM_STUCK does not return.
 */
#include "shim.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int is_stuck(int fd)
{
    const char *dir = getenv("SHIM_DIR"), *below = getenv("SHIM_STUCK");
    char name[32], path[PATH_MAX], stuck[PATH_MAX];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(name, path, sizeof path - 1);
    if (!shim_is_on() || !dir || !below || n < 0)
        return 0;
    path[n] = '\0';
    snprintf(stuck, sizeof stuck, "%s/stuck", dir);
    return strncmp(path, below, strlen(below)) == 0 && access(stuck, F_OK) == 0;
}

SHIM_API ssize_t write(int fd, const void *bytes, size_t n)
{
    while (is_stuck(fd))
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    return SHIM_NEXT(write)(fd, bytes, n);
}
