/* SPDX-License-Identifier: Apache-2.0
 *
 * node: the life of one supervisor: it waits for the job to come together, runs its processes, ends
 * them in the manner that the chief orders, and leaves when the chief says so. What it knows goes
 * to the chief as STATUS; what it does comes from the chief's ORDER, on one node as on a thousand.
 * Alone it decides only when there is no chief (any more). What it keeps is in node_state.h, what
 * its files do for each other in node_parts.h. Owned by core; pure.
 */
#ifndef PCHRUN_CORE_NODE_H
#define PCHRUN_CORE_NODE_H

#include "core/node_state.h"

/* `node` is all zero. */
void node_init(struct node *node, const struct core_params *params, struct out *out);
void node_event(struct node *node, const struct event *event);
/* A message of the chief. */
void node_message(struct node *node, const struct peermsg *msg);
void node_timers(struct node *node);
int64_t node_wake_at(const struct node *node);
void node_forgive(struct node *node, int64_t away);
/* Sends STATUS if anything in it has changed. */
void node_flush(struct node *node);
const char *node_state_name(const struct node *node);
/* What failed first: in the job, or on this node before the job's is known. Its wall_ns tells when,
 * the other times do not. */
void node_cause(const struct node *node, struct peer_cause *ret);
/* Has the process ended badly, and something else had failed before? */
bool node_is_victim(const struct node *node, const struct member *member,
                    const struct peer_cause *cause);

#endif
