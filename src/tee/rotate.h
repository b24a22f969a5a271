/* SPDX-License-Identifier: Apache-2.0
 *
 * rotate: a file that grows up to a limit. When it is full it becomes PATH.1, PATH.1 becomes
 * PATH.2, and so on. A file may end inside a line: joined, the files hold all that was written.
 *
 * The first write makes the directory and opens the file. Each call may block as long as the file
 * system does. A failed call may be repeated. Opens `fd`, which the caller closes. One thread at a
 * time.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct rotate {
    const char *path;  /* absolute; borrowed */
    uint64_t max_size; /* of one file; 0: no limit */
    int keep;          /* how many older files to keep */
    int fd;            /* -1 */
    uint64_t size;
};

/* Returns how many bytes were written; if not all, errno says why. With n 0: only opens the file.
 */
size_t rotate_write(struct rotate *file, const char *bytes, size_t n);
