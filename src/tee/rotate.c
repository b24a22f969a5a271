/* SPDX-License-Identifier: Apache-2.0
 * See rotate.h.
 */
#include "tee/rotate.h"

#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Makes all missing parts of the directory. Another sink may make them at the same time. */
static bool make_folder(const char *path)
{
    char dir[PATH_MAX];
    if (!str_copy(dir, sizeof dir, path)) {
        errno = ENAMETOOLONG;
        return false;
    }
    for (char *p = strchr(dir + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = '\0';
        if (mkdir(dir, 0777) != 0 && errno != EEXIST)
            return false;
        *p = '/';
    }
    return true;
}

static int open_at(const char *path, int flags)
{
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC | flags,
                0666);
}

/* O_NONBLOCK: if the path is a pipe without a reader, open() must not wait for one. */
static bool rotate_open_file(struct rotate *file, int flags)
{
    struct stat st;
    FD_CLEANUP int fd = open_at(file->path, flags | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT && make_folder(file->path))
        fd = open_at(file->path, flags | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) != 0)
        return false;
    if (!S_ISREG(st.st_mode)) {
        errno = EEXIST;
        return false;
    }
    file->size = (uint64_t)st.st_size;
    file->fd = fd_take(&fd);
    return true;
}

static bool move_on(const char *path, int from, int to)
{
    char old[PATH_MAX], new[PATH_MAX];
    int n = from == 0 ? snprintf(old, sizeof old, "%s", path)
                      : snprintf(old, sizeof old, "%s.%d", path, from);
    int m = snprintf(new, sizeof new, "%s.%d", path, to);
    if (n >= (int)sizeof old || m >= (int)sizeof new) {
        errno = ENAMETOOLONG;
        return false;
    }
    return rename(old, new) == 0 || errno == ENOENT;
}

static bool rotate_turn(struct rotate *file)
{
    fd_close(&file->fd);
    for (int i = file->keep; i > 0; i--)
        if (!move_on(file->path, i - 1, i))
            return false;
    return rotate_open_file(file, file->keep == 0 ? O_TRUNC : 0);
}

size_t rotate_write(struct rotate *file, const char *bytes, size_t n)
{
    size_t done = 0;
    if (file->fd < 0 && !rotate_open_file(file, 0))
        return 0;
    while (done < n) {
        size_t len = n - done;
        if (file->max_size > 0 && file->size >= file->max_size && !rotate_turn(file))
            break;
        if (file->max_size > 0 && len > file->max_size - file->size)
            len = (size_t)(file->max_size - file->size);
        ssize_t k = write(file->fd, bytes + done, len);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            break;
        done += (size_t)k;
        file->size += (uint64_t)k;
    }
    return done;
}
