/* SPDX-License-Identifier: Apache-2.0
 * See fd.h.
 */
#include "base/fd.h"

#include "base/clock.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif

void fd_close(int *fd)
{
    if (*fd < 0)
        return;
    int saved = errno;
    close(*fd);
    errno = saved;
    *fd = -1;
}

int fd_take(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}

bool fd_fill_standard(unsigned *ret_opened, struct err *err)
{
    unsigned opened = 0;
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) >= 0)
            continue;
        /* open() returns the lowest free number, and all below `fd` are in use. */
        int got = open("/dev/null", O_RDWR);
        if (got != fd)
            return err_set(err, ERR_SYSTEM, errno, "cannot open /dev/null as descriptor %d", fd);
        opened |= 1U << fd;
    }
    *ret_opened = opened;
    return true;
}

bool fd_silence(unsigned which)
{
    FD_CLEANUP int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; null >= 0 && fd <= 2; fd++)
        if (which & 1U << fd)
            dup2(null, fd);
    return null >= 0;
}

bool fd_probe(int n, struct err *err)
{
    FD_CLEANUP int fd = n > 0 ? eventfd(0, EFD_CLOEXEC) : -1; /* eventfd() needs no file */
    if (n > 0 && fd < 0)
        return err_set(err, ERR_SYSTEM, errno, "no descriptor is left");
    return n <= 1 || fd_probe(n - 1, err);
}

static struct rlimit inherited_limit;
static bool is_limit_raised;

static int64_t limit_number(rlim_t value)
{
    return value < INT32_MAX ? (int64_t)value : INT32_MAX;
}

int64_t fd_limit(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit_number(limit.rlim_cur) : INT32_MAX;
}

int64_t fd_limit_hard(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit_number(limit.rlim_max) : INT32_MAX;
}

void fd_limit_raise(int64_t files)
{
    if (is_limit_raised || getrlimit(RLIMIT_NOFILE, &inherited_limit) != 0 ||
        limit_number(inherited_limit.rlim_cur) >= files)
        return;
    struct rlimit wanted = inherited_limit;
    wanted.rlim_cur =
        limit_number(inherited_limit.rlim_max) < files ? inherited_limit.rlim_max : (rlim_t)files;
    is_limit_raised = setrlimit(RLIMIT_NOFILE, &wanted) == 0;
}

void fd_limit_restore(void)
{
    if (is_limit_raised)
        setrlimit(RLIMIT_NOFILE, &inherited_limit);
}

static void range_one(int fd, enum fd_range_what what)
{
    if (what == FD_RANGE_CLOEXEC)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    else if (what == FD_RANGE_CLOSE || fcntl(fd, F_GETFD) == 0)
        close(fd);
}

static bool is_kept(int fd, const int *keep, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (keep[i] == fd)
            return true;
    return false;
}

/* For kernels without close_range(2): lists the open descriptors. */
static bool range_by_proc(int first, enum fd_range_what what, const int *keep, size_t n)
{
    DIR *dir = opendir("/proc/self/fd");
    if (!dir)
        return false;
    struct dirent *entry;
    while ((entry = readdir(dir))) {
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] != '.' && fd >= first && fd != dirfd(dir) && !is_kept(fd, keep, n))
            range_one(fd, what);
    }
    closedir(dir);
    return true;
}

/* Makes one system call for each gap between the kept descriptors. */
static bool range_by_syscall(int first, enum fd_range_what what, const int *keep, size_t n)
{
    unsigned flags = what == FD_RANGE_CLOEXEC ? CLOSE_RANGE_CLOEXEC : 0;
    unsigned from = (unsigned)first;
    if (what == FD_RANGE_CLOSE_INHERITED)
        return false;
    for (;;) {
        unsigned next = UINT_MAX;
        for (size_t i = 0; i < n; i++)
            if (keep[i] >= 0 && (unsigned)keep[i] >= from && (unsigned)keep[i] < next)
                next = (unsigned)keep[i];
        unsigned to = next == UINT_MAX ? UINT_MAX : next - 1;
        if (next != from && syscall(SYS_close_range, from, to, flags) != 0)
            return false;
        if (next == UINT_MAX)
            return true;
        from = next + 1;
    }
}

void fd_range(int first, enum fd_range_what what, const int *keep, size_t n)
{
    if (range_by_syscall(first, what, keep, n) || range_by_proc(first, what, keep, n))
        return;
    long max = sysconf(_SC_OPEN_MAX);
    for (int fd = first; fd < (max > 0 && max < 65536 ? max : 65536); fd++)
        if (!is_kept(fd, keep, n))
            range_one(fd, what);
}

bool fd_set_nonblock(int fd, struct err *err)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return err_set(err, ERR_SYSTEM, errno, "cannot make descriptor %d non-blocking", fd);
    return true;
}

bool fd_pipe(int ends[2], int ours, struct err *err)
{
    if (pipe2(ends, O_CLOEXEC) != 0)
        return err_set(err, ERR_SYSTEM, errno, "cannot make a pipe");
    if (fd_set_nonblock(ends[ours], err))
        return true;
    fd_close(&ends[0]);
    fd_close(&ends[1]);
    return false;
}

ssize_t fd_read_all(int fd, void *data, size_t size)
{
    size_t len = 0;
    ssize_t n = 1;
    while (len < size && n != 0) {
        n = read(fd, (char *)data + len, size - len);
        if (n < 0 && errno != EINTR)
            return -1;
        len += n > 0 ? (size_t)n : 0;
    }
    return (ssize_t)len;
}

ssize_t fd_read_text(const char *path, char *text, size_t size)
{
    FD_CLEANUP int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : fd_read_all(fd, text, size - 1);
    text[n < 0 ? 0 : n] = '\0';
    return n;
}

bool fd_write_all(int fd, const void *data, size_t len)
{
    const char *p = data;
    while (len > 0) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        len -= (size_t)n;
    }
    return true;
}

bool fd_read_line(const char *path, char *line, size_t size)
{
    (void)fd_read_text(path, line, size);
    line[strcspn(line, "\n")] = '\0';
    return *str_printable(line);
}

int fd_wait(int fd, int other, int64_t until)
{
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = other, .events = POLLIN}};
    for (;;) {
        int64_t left = until - clock_now_ns();
        int n = poll(fds, 2, left > 0 ? (int)clock_min(left / NS_PER_MS + 1, INT32_MAX) : 0);
        if (n > 0)
            return fds[0].revents ? fd : other;
        if (n == 0 ? clock_now_ns() >= until : errno != EINTR)
            return -1;
    }
}

bool fd_is_local_dir(const char *dir)
{
    /* ext2 to ext4, XFS, Btrfs, F2FS, ZFS, tmpfs, ramfs, overlayfs */
    static const unsigned local[] = {0xef53,     0x58465342, 0x9123683e, 0xf2f52010,
                                     0x2fc12fc1, 0x01021994, 0x858458f6, 0x794c7630};
    struct statfs fs;
    if (statfs(dir, &fs) != 0)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(local); i++)
        if ((unsigned)fs.f_type == local[i])
            return true;
    return false;
}
