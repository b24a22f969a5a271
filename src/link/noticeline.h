/* SPDX-License-Identifier: Apache-2.0
 *
 * noticeline: one line of a notice source, read (pchrun-protocol(7)):
 *
 *     {"type": "terminate", "id": "…", "deadline_seconds": 30, "text": "…"}
 *
 * Nothing in it is trusted. Fields that are not known are left alone. What says which notice is
 * meant (type, id) must be right, or the line says nothing; of what only describes it (deadline,
 * text) the wrong is left out, since a notice that was given carelessly is a notice. Pure; any
 * thread.
 */
#ifndef PCHRUN_LINK_NOTICELINE_H
#define PCHRUN_LINK_NOTICELINE_H

#include "base/err.h"
#include "wire/notice.h"

#include <stddef.h>
#include <stdint.h>

#define NOTICELINE_MAX (64 * 1024) /* bytes of a line */
/* Deadlines are held to it, in both directions. */
#define NOTICELINE_LEFT_MAX_NS (INT64_C(366) * 24 * 3600 * 1000000000)

enum noticeline_result {
    NOTICELINE_BAD,  /* it says nothing; *err says why */
    NOTICELINE_PART, /* a notice, but *err says what of it was left out */
    NOTICELINE_OK,
};

/* What the line is read by. */
struct noticeline_reader {
    const char *source;  /* becomes that of the notice; at most 31 bytes */
    int64_t real_now_ns; /* the wall clock, by which a "deadline" is a time that is left */
    bool is_termination; /* a line without a type is one */
};

MUST_CHECK enum noticeline_result noticeline_read(const struct noticeline_reader *reader,
                                                  const char *line, size_t len, struct notice *ret,
                                                  struct err *err);

#endif
