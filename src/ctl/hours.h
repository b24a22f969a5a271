/* SPDX-License-Identifier: Apache-2.0
 *
 * hours: what the files of a job say of its time: its ledger, and the moments in its journals. For
 * this room alone. Main thread.
 */
#pragma once

#include "ctl/ctl.h"
#include "goodput/goodput.h"
#include "timeline/timeline.h"

#include <limits.h>

/* --- hours.c --- */

struct hours {
    const struct ctl_options *options;
    char path[PATH_MAX]; /* of the ledger */
    struct goodput of;   /* without what --since leaves out */
};

/* Reads the ledger that the options name. False: there is none, or it cannot be read. Call
 * hours_free() in either case. */
MUST_CHECK bool hours_read(const struct ctl_options *options, struct hours *ret, struct err *err);
void hours_free(struct hours *hours);

/* --- moments.c --- */

struct moments {
    struct timeline_moment *list; /* in the order of time */
    size_t n;
    char notes[TIMELINE_NOTES_MAX][TIMELINE_NOTE]; /* what the list lacks */
    int nnotes;
};

/* Reads the notices, the first failures and the ends of a job from the journals beside its ledger.
 * False: out of memory. Call moments_free() in either case. */
MUST_CHECK bool moments_read(const struct hours *hours, struct moments *ret, struct err *err);
void moments_free(struct moments *moments);
