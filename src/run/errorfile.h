/* SPDX-License-Identifier: Apache-2.0
 *
 * errorfile: why a program failed, as torchrun has its workers write it down.
 *
 *   {"message": {"message": "RuntimeError: …", "extraInfo": {"timestamp": "1700000000",
 *                "py_callstack": "…"}}}                                       or {"message": "…"}
 *
 * PyTorch's `record` writes this file, named by TORCHELASTIC_ERROR_FILE, when an exception ends the
 * program. What is in it is the program's, and nothing of it is trusted. Owns nothing. Reading
 * blocks as its file system does: a FIFO or a device does not. Main thread, or a child of it.
 */
#ifndef PCHRUN_RUN_ERRORFILE_H
#define PCHRUN_RUN_ERRORFILE_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

#define ERRORFILE_MAX (1024 * 1024)

struct errorfile {
    char text[512]; /* the message in one line, fit to be shown */
    int64_t wall;   /* CLOCK_REALTIME: when it failed, 0: not known */
};

/* Within which its time must lie, or it is not this program's, or no time of a failure. All of it
 * is CLOCK_REALTIME. */
struct errorfile_span {
    int64_t from, to;
    int64_t changed; /* when the file was changed last; errorfile_read() finds that out */
};

/* False: there is none, or it is older than `span` (err->code ERR_NOT_FOUND, nothing to be said),
 * or it is not what it should be. `is_ours`: a symbolic link is none of that, either. */
MUST_CHECK bool errorfile_read(const char *path, bool is_ours, const struct errorfile_span *span,
                               struct errorfile *ret, struct err *err);
/* What was read of it. */
MUST_CHECK bool errorfile_parse(const void *data, size_t len, const struct errorfile_span *span,
                                struct errorfile *ret, struct err *err);

#endif
