/* SPDX-License-Identifier: Apache-2.0
 *
 * shim_nolocks: a file system without locks: flock(2) fails with ENOSYS in the directory
 * SHIM_NO_LOCKS.
 */
#include "shim.h"

#include <sys/file.h>

SHIM_API int flock(int fd, int operation)
{
    const char *dir = getenv("SHIM_NO_LOCKS");
    char link[32], path[512] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (dir && shim_is_on() && readlink(link, path, sizeof path - 1) > 0 &&
        strncmp(path, dir, strlen(dir)) == 0) {
        errno = ENOSYS;
        return -1;
    }
    return SHIM_NEXT(flock)(fd, operation);
}
