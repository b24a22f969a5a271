/* SPDX-License-Identifier: Apache-2.0
 *
 * errorfile: reads why a program failed, from the file that torchrun's workers write.
 *
 *   {"message": {"message": "RuntimeError: …", "extraInfo": {"timestamp": "1700000000",
 *                "py_callstack": "…"}}}                                       or {"message": "…"}
 *
 * PyTorch's `record` writes this file, named by TORCHELASTIC_ERROR_FILE, when an exception ends the
 * program. The program controls its contents, so nothing in it is trusted. Owns nothing. Reading
 * may block on the file system, but not on a FIFO or a device. Main thread, or a child of it.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

#define ERRORFILE_MAX (1024 * 1024)

struct errorfile {
    char text[512]; /* the message in one line of printable characters */
    int64_t wall;   /* CLOCK_REALTIME: when the program failed; 0: unknown */
};

/* The time from the program's start to its end. A failure at another time is not this program's.
 * All times are CLOCK_REALTIME. */
struct errorfile_span {
    int64_t from, to;
    int64_t changed; /* when the file was last changed; errorfile_read() sets it */
};

/* False: the file is missing or older than `span` (err->code ERR_NOT_FOUND: log nothing), or it is
 * malformed. `is_ours`: a symbolic link counts as malformed, too. */
MUST_CHECK bool errorfile_read(const char *path, bool is_ours, const struct errorfile_span *span,
                               struct errorfile *ret, struct err *err);
/* Parses the contents of the file. */
MUST_CHECK bool errorfile_parse(const void *data, size_t len, const struct errorfile_span *span,
                                struct errorfile *ret, struct err *err);
