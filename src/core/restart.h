/* SPDX-License-Identifier: Apache-2.0
 *
 * restart: may a job that failed be started again in place, and when: budgets for failures while it
 * trained (in a sliding window) and at its start, a pause that grows from one to the next, and an
 * end to generations that bring no commit. Pure; the job's, so it is the chief's.
 */
#ifndef PCHRUN_CORE_RESTART_H
#define PCHRUN_CORE_RESTART_H

#include "core/params.h"

#include <stddef.h>

struct restart {
    const struct restart_policy *policy;
    uint64_t random;             /* of the pauses */
    int64_t times[RESTARTS_MAX]; /* of the restarts within the window, oldest first */
    int n;
    int starts; /* in a row, of generations that did not come to train */
    int stale;  /* generations in a row that brought no commit */
    int total;  /* restarts so far */
};

/* A generation that has failed. */
struct restart_failure {
    int64_t now;
    int code;       /* of the process, as it would be the job's */
    bool is_start;  /* it had not come to train */
    bool has_ranks; /* it had attached, so that it could have committed */
    bool has_commit;
};

void restart_init(struct restart *restart, const struct restart_policy *policy, uint64_t random);
/* Counts it, and returns true if there may be another generation, `*ret_pause` from now on; `text`
 * says which of how many it is. Else `text` says what forbids it, "" where none was ever wanted. */
bool restart_allows(struct restart *restart, const struct restart_failure *failure,
                    int64_t *ret_pause, char *text, size_t size);

#endif
