/* SPDX-License-Identifier: Apache-2.0
 *
 * restart: decides whether a failed job restarts in place, and when. There is one budget for
 * failures in the training, in a sliding window, and one for failures at the start. The pause grows
 * with each restart. Generations without a commit are limited, too. Owned by chief; pure.
 */
#pragma once

#include "core/common/params.h"

#include <stddef.h>

/* It begins with all zero, but for its first two fields. */
struct restart {
    const struct restart_policy *policy;
    uint64_t random;             /* varies the pauses */
    int64_t times[RESTARTS_MAX]; /* the restarts within the window, oldest first */
    int n;
    int starts; /* failures at the start, in a row */
    int stale;  /* generations in a row without a commit */
};

/* A generation that has failed. */
struct restart_failure {
    int64_t now;
    int code;       /* the exit code that the job would end with */
    bool is_start;  /* it failed before it trained */
    bool has_ranks; /* processes had attached, so it could have committed */
    bool has_commit;
};

/* Counts the failure. True: the next generation may begin after `*ret_pause`; `text` gives its
 * number. False: `text` says what forbids it; "" if restarts are off. */
bool restart_allows(struct restart *restart, const struct restart_failure *failure,
                    int64_t *ret_pause, char *text, size_t size);
