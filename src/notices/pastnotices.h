/* SPDX-License-Identifier: Apache-2.0
 *
 * pastnotices: which notices have ended attempts of this job, and how many.
 *
 *   notices.<node>.json in the state directory
 *
 * A platform may repeat a notice after the job was started again on the same machine. Without this
 * list each attempt would save and end at once, for ever. So a notice that has ended enough
 * attempts ends no further attempt: the job saves before its deadline and goes on. Every node
 * counts the notice that ended an attempt, also if another node got it. Only a notice with an id
 * can be recognised. A notice that was not received for 30 days is forgotten; a full list drops the
 * oldest. Owns nothing. Main thread; reading may block, as everything at start.
 */
#pragma once

#include "wire/notice.h"
#include "json/writer.h"

#define HANDLED_MAX    64
#define HANDLED_OLD_NS (INT64_C(30) * 24 * 3600 * 1000000000)

struct pastnotices_notice {
    char source[32], id[64];
    int count;         /* attempts that it has ended, on any node */
    int64_t at_ns;     /* when it was last received, real time */
    bool is_live;      /* given in this attempt, and not withdrawn */
    bool is_cancelled; /* withdrawn in this attempt */
    bool is_refused;   /* refused and logged in this attempt */
};

struct pastnotices {
    const char *job;
    int limit; /* the most attempts that one notice may end; 0: any number */
    struct pastnotices_notice list[HANDLED_MAX];
    int n;
};

/* A missing file counts as empty. False: the file is damaged or belongs to another job;
 * *pastnotices is then empty. */
MUST_CHECK bool pastnotices_read(struct pastnotices *pastnotices, const char *path,
                                 int64_t real_now_ns, struct err *err);

enum pastnotices_result {
    HANDLED_NEW,       /* act upon it */
    HANDLED_ENOUGH,    /* do not end the job: the notice has ended *ret_count attempts already */
    HANDLED_SAID_THAT, /* the same, and it is logged already */
};
/* A notice has arrived. */
enum pastnotices_result pastnotices_take(struct pastnotices *pastnotices,
                                         const struct notice *notice, int64_t real_now_ns,
                                         int *ret_count);
/* The attempt has ended; `by`: the notice that ended it, or NULL. False: nothing to write. */
bool pastnotices_end(struct pastnotices *pastnotices, const struct notice *by, int64_t real_now_ns);
/* Writes the whole file. */
void pastnotices_write(const struct pastnotices *pastnotices, struct writer *w);
