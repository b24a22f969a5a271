/* SPDX-License-Identifier: Apache-2.0
 *
 * noticeline: reads one line of a notice source (pchrun-protocol(7)):
 *
 *     {"type": "terminate", "id": "…", "deadline_seconds": 30, "text": "…"}
 *
 * The line is untrusted. Unknown fields are ignored. A wrong type or id makes the line invalid. A
 * wrong deadline or text is dropped, but the notice counts: it still warns of the end. Pure; any
 * thread.
 */
#pragma once

#include "base/err.h"
#include "wire/notice.h"

#include <stddef.h>
#include <stdint.h>

#define NOTICELINE_MAX (64 * 1024) /* bytes of a line */
/* The longest time to a deadline; a longer one is cut. */
#define NOTICELINE_LEFT_MAX_NS (INT64_C(366) * 24 * 3600 * 1000000000)

enum noticeline_result {
    NOTICELINE_BAD,  /* no notice; *err says why */
    NOTICELINE_PART, /* a notice; *err says which field was dropped */
    NOTICELINE_OK,
};

struct noticeline_reader {
    const char *source;  /* the notice's source; at most 31 bytes */
    int64_t real_now_ns; /* the wall clock, to turn a "deadline" into the time left */
    bool is_termination; /* a line without a type means terminate */
};

MUST_CHECK enum noticeline_result noticeline_read(const struct noticeline_reader *reader,
                                                  const char *line, size_t len, struct notice *ret,
                                                  struct err *err);
