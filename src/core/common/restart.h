/* SPDX-License-Identifier: Apache-2.0
 *
 * restart: decides whether a failed job restarts in place, and when. There is one budget for
 * failures in the training, in a sliding window, and one for failures at the start. The pause grows
 * with each restart. Generations without a commit are limited, too. No restart follows a failure
 * that comes twice at one step. Owned by chief; pure.
 */
#pragma once

#include "core/common/params.h"
#include "wire/peermsg.h"

#include <stddef.h>

/* All fields but the first two begin at 0. */
struct restart {
    const struct restart_policy *policy;
    uint64_t random;             /* varies the pauses */
    int64_t times[RESTARTS_MAX]; /* the restarts within the window, oldest first */
    int n;
    int starts; /* failures at the start, in a row */
    int stale;  /* generations in a row without a commit */
    /* the program's last failure in the training, and where the job stood */
    struct peer_cause last; /* FAULT_NONE: there was none */
    uint64_t last_step, last_commit;
};

/* A generation that has failed. */
struct restart_failure {
    int64_t now;
    int code;       /* the exit code that the job would end with */
    bool is_start;  /* it failed before it trained */
    bool has_ranks; /* processes had attached, so a commit was possible */
    bool has_commit;
    const char *repeats; /* a failure that will come back at each start; "": none is known */
    const struct peer_cause *cause;
    uint64_t step, commit_step; /* the highest step of the job, and its last commit */
};

/* True if the failure forbids a restart whatever budget remains; `text` then says why. Ask when it
 * is sure that no other failure came first. */
bool restart_is_final(const struct restart *restart, const struct restart_failure *failure,
                      char *text, size_t size);
/* The next generation begins: the same failure must not end it, too. */
void restart_note(struct restart *restart, const struct restart_failure *failure);
/* Generations in a row without a commit, with the one that ends now. */
int restart_stale(const struct restart *restart, bool has_commit);

/* Counts the failure. True: there is a budget, and the next generation may begin after
 * `*ret_pause` if the failure is not final; `text` gives its number. False: `text` says what
 * forbids it; "" if restarts are off. */
bool restart_allows(struct restart *restart, const struct restart_failure *failure,
                    int64_t *ret_pause, char *text, size_t size);
