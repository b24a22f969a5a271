/* SPDX-License-Identifier: Apache-2.0
 *
 * handled: which notices have ended an attempt of this job, and how often.
 *
 *   notices.<node>.json in the state directory
 *
 * A platform may go on giving a notice after the job was started again on the same machine. Without
 * a memory each attempt would save and leave at once, for ever. So a notice that has ended enough
 * attempts ends none any more: the job saves before its deadline, and goes on. Every node counts
 * the notice that has ended the job's attempt, also if it came to another node. Only what has an id
 * can be known again. What was not heard of for 30 days is forgotten, and of more than fit the
 * oldest. Owns nothing. Main thread; reading may block, as everything at start.
 */
#ifndef PCHRUN_RUN_HANDLED_H
#define PCHRUN_RUN_HANDLED_H

#include "wire/notice.h"
#include "json/writer.h"

#define HANDLED_MAX    64
#define HANDLED_OLD_NS (INT64_C(30) * 24 * 3600 * 1000000000)

struct handled_notice {
    char source[32], id[64];
    int count;         /* attempts of the job that it has ended, on whichever node it came */
    int64_t at_ns;     /* when it was heard of last, real time */
    bool is_live;      /* given in this attempt, and not taken back */
    bool is_cancelled; /* taken back in this attempt */
    bool is_refused;   /* in this attempt, and that was said */
};

struct handled {
    const char *job;
    int limit; /* so many attempts a notice may end */
    struct handled_notice list[HANDLED_MAX];
    int n;
};

/* A file that is missing is empty. False: it is damaged, or another job's; *handled is empty then.
 */
MUST_CHECK bool handled_read(struct handled *handled, const char *path, int64_t real_now_ns,
                             struct err *err);

enum handled_result {
    HANDLED_NEW,       /* act upon it */
    HANDLED_ENOUGH,    /* do not end the job for it: *ret_count attempts are enough */
    HANDLED_SAID_THAT, /* the same, once more */
};
/* A notice has come. */
enum handled_result handled_take(struct handled *handled, const struct notice *notice,
                                 int64_t real_now_ns, int *ret_count);
/* The attempt has ended; by the notice of this source and id, if it is not NULL. False: nothing is
 * to be written. */
bool handled_end(struct handled *handled, const struct notice *by, int64_t real_now_ns);
/* The whole file. */
void handled_write(const struct handled *handled, struct writer *w);

#endif
