/* SPDX-License-Identifier: Apache-2.0
 *
 * cause: which of the failures that the nodes tell of was the first.
 *
 * Nodes tell of theirs again and again, in any order and however late. The earliest few are kept
 * whole; what comes later than all of them cannot become the first any more, so a thousand nodes
 * that fail at once cost no more than some. Owned by chief; pure.
 */
#ifndef PCHRUN_CORE_CAUSE_H
#define PCHRUN_CORE_CAUSE_H

#include "wire/peermsg.h"

enum { CAUSES_MAX = 8 };

struct causes {
    struct peer_cause list[CAUSES_MAX]; /* one of a node; at_ns: the best that is known */
    int n;
};

/* Is it the end of a process, which may be what another failure has brought about? */
static inline bool cause_is_process(unsigned fault)
{
    return fault == FAULT_EXIT || fault == FAULT_SIGNAL || fault == FAULT_SILENT;
}

/* When it was, for the question of what was first: a crash counts as a little earlier than it was
 * seen, since who misses the process may have ended by then. Fault and code as in a peer_cause. */
int64_t cause_counts_from(unsigned fault, int code, int64_t at);
/* A node has told of its first failure; `now` is node 0's clock. */
void causes_take(struct causes *causes, int64_t now, const struct peer_cause *told);
/* NULL: nothing has failed. */
const struct peer_cause *causes_first(const struct causes *causes);
/* The same failure, told in the same words? When it was does not matter: that is known better each
 * time. */
bool cause_is_same(const struct peer_cause *a, const struct peer_cause *b);

#endif
