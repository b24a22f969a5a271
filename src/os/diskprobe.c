/* SPDX-License-Identifier: Apache-2.0
 * See diskprobe.h.
 */
#include "os/diskprobe.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PROBE_BYTES = 64 * 1024 };

/* Makes a file without a name, or, if that is impossible, a named one that it removes at once. */
static int open_probe(const char *dir)
{
    char path[PATH_MAX];
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
        return fd;
    if (snprintf(path, sizeof path, "%s/.pchrun-probe.XXXXXX", dir) >= (int)sizeof path)
        return errno = ENAMETOOLONG, -1;
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

/* Without its pages in the cache, the file is read from the disk. */
static bool is_read_back(int fd, const char *wanted)
{
    static char found[PROBE_BYTES];
    size_t len = 0;
    ssize_t n = 1;
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    while (n > 0 && len < sizeof found) {
        n = pread(fd, found + len, sizeof found - len, (off_t)len);
        len += n > 0 ? (size_t)n : 0;
    }
    if (len == sizeof found && memcmp(found, wanted, len) == 0)
        return true;
    if (n >= 0)
        errno = EIO; /* other bytes, or fewer */
    return false;
}

bool diskprobe(const char *dir, int64_t *ret_ns, struct err *err)
{
    static char bytes[PROBE_BYTES];
    int64_t since = clock_now_ns();
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i ^ (size_t)since);
    FD_CLEANUP int fd = open_probe(dir);
    if (fd < 0)
        return err_set(err, ERR_SYSTEM, errno, "no file can be made in %.300s", dir);
    if (!fd_write_all(fd, bytes, sizeof bytes) || fsync(fd) != 0)
        return err_set(err, ERR_SYSTEM, errno, "a file in %.300s cannot be written", dir);
    if (!is_read_back(fd, bytes))
        return err_set(err, ERR_SYSTEM, errno, "a file in %.300s cannot be read back", dir);
    *ret_ns = clock_now_ns() - since;
    return true;
}
