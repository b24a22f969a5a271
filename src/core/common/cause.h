/* SPDX-License-Identifier: Apache-2.0
 *
 * cause: finds the first of the failures that the nodes report.
 *
 * Nodes report their failures repeatedly, in any order, and at any time. Only the CAUSES_MAX
 * earliest crashes and as many other failures are kept, because a later one cannot become the
 * first. So a thousand nodes that fail at once cost no more than a few. Owned by chief; pure.
 */
#pragma once

#include "wire/peermsg.h"

enum { CAUSES_MAX = 8 };

struct causes {
    struct peer_cause list[2 * CAUSES_MAX]; /* one per node; at_ns: the best known time */
    int n;
};

/* The fault is the end of a process, so another failure may have caused it. */
static inline bool cause_is_process(unsigned fault)
{
    return fault == FAULT_EXIT || fault == FAULT_SIGNAL || fault == FAULT_SILENT ||
           fault == FAULT_GAVE_UP;
}

/* The job must not begin again in place: a later attempt has it, a user has ended it, or a node
 * must not train. */
static inline bool cause_is_final(unsigned fault)
{
    return fault == FAULT_REPLACED || fault == FAULT_STOPPED || fault == FAULT_UNFIT;
}

enum { CAUSE_ILLNESS_MAX = 301 };

/* The text of FAULT_UNFIT: "n7 is not healthy: gpu3: Xid 79; start the job without this host, …".
 */
void cause_say_unfit(char *text, size_t size, const char *host, const char *illness);
/* The illness in that text: "gpu3: Xid 79". Returns `ret`. */
char *cause_illness(const struct peer_cause *cause, char ret[CAUSE_ILLNESS_MAX]);
/* "exit", "signal", ...: of an enum peer_fault_kind, for the journal. */
const char *cause_kind(unsigned fault);
/* From when a failure counts in the order of failures, if it was seen `at`. A crash counts as a
 * little earlier, because its consequences may be seen first. Fault and code as in a peer_cause. */
int64_t cause_counts_from(unsigned fault, int code, int64_t at);
/* A node has reported its first failure; `now` is node 0's clock. */
void causes_take(struct causes *causes, int64_t now, const struct peer_cause *told);
/* The earliest. But a node that must not train comes after the causes that no new start may follow.
 * A crash comes before the exits of processes if the errors of the clocks allow that it was before
 * the earliest: most such exits follow from a crash. NULL: nothing has failed. */
const struct peer_cause *causes_first(const struct causes *causes);
/* The same failure with the same text. Times are not compared: each message makes them more exact.
 */
bool cause_is_same(const struct peer_cause *a, const struct peer_cause *b);
