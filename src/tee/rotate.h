/* SPDX-License-Identifier: Apache-2.0
 *
 * rotate: a file that is added to, and that is bounded: when it is full it becomes PATH.1, what was
 * PATH.1 becomes PATH.2, and so on. Bytes are cut anywhere: joined, the files are what was written.
 *
 * It is opened, and its directory made, with the first write. Each call may block for as long as
 * the file system likes. One that fails may be tried again. Owns its descriptor: rotate_close().
 * One thread at a time.
 */
#ifndef PCHRUN_TEE_ROTATE_H
#define PCHRUN_TEE_ROTATE_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct rotate {
    const char *path;  /* absolute; borrowed */
    uint64_t max_size; /* of one file; 0: no limit */
    int keep;          /* how many others */
    int fd;            /* -1 */
    uint64_t size;
};

/* Returns how many bytes were written; if not all, errno says why. n may be 0: it is opened only.
 */
size_t rotate_write(struct rotate *file, const char *bytes, size_t n);
void rotate_close(struct rotate *file);

#endif
