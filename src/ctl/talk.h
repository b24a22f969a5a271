/* SPDX-License-Identifier: Apache-2.0
 *
 * talk: one connection to a supervisor: a request out, lines in. Every wait has a deadline. A
 * struct talk owns its descriptor and memory: talk_close(). Main thread.
 */
#ifndef PCHRUN_CTL_TALK_H
#define PCHRUN_CTL_TALK_H

#include "base/lines.h"

struct talk {
    int fd;
    struct lines in;
};
#define TALK_NONE \
    {             \
        .fd = -1  \
    }

enum talk_result {
    TALK_LINE,
    TALK_END,    /* the supervisor has closed it */
    TALK_LATE,   /* nothing came in time; *err */
    TALK_FAILED, /* *err */
};

/* Sets *err: no permission to enter `dir`, its owner, and which users may. */
void talk_denied(const char *dir, struct err *err);
/* `dir` is the supervisor's private directory; False: no listener there, or another user's. */
MUST_CHECK bool talk_open(const char *dir, struct talk *ret, struct err *err);
void talk_close(struct talk *talk);
/* Sends the request, one line with its newline. */
MUST_CHECK bool talk_say(struct talk *talk, const char *line, size_t len, struct err *err);
/* `until` is of CLOCK_MONOTONIC. *ret_line ends with a NUL instead of the newline, and is valid
 * until the next call. */
enum talk_result talk_read(struct talk *talk, int64_t until, char **ret_line, size_t *ret_len,
                           struct err *err);

#endif
