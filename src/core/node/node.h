/* SPDX-License-Identifier: Apache-2.0
 *
 * node: the life of one supervisor. It waits until all nodes have joined, runs its processes, ends
 * them as the chief orders, and leaves when the chief says so. It tells the chief its state as
 * STATUS, and acts on the chief's ORDER, on one node as on a thousand. It decides by itself only
 * without a chief. Its state is in node_state.h; node_parts.h lists its files. Owned by core; pure.
 */
#ifndef PCHRUN_CORE_NODE_NODE_H
#define PCHRUN_CORE_NODE_NODE_H

#include "core/node/node_state.h"

/* `node` is all zero. */
void node_init(struct node *node, const struct core_params *params, struct out *out);
void node_event(struct node *node, const struct event *event);
/* A message from the chief. */
void node_message(struct node *node, const struct peermsg *msg);
void node_timers(struct node *node);
int64_t node_wake_at(const struct node *node);
/* This machine stood still for `away`: no process and no node is blamed for that time. */
void node_forgive(struct node *node, int64_t away);
/* Sends STATUS if anything in it has changed. */
void node_flush(struct node *node);
/* The state for reports. */
enum node_state node_stands(const struct node *node);
/* A promise of the design was found broken: the job fails. */
void node_break(struct node *node, int promise);
/* The first failure of the job; until that is known, the first failure of this node. Only its
 * wall_ns is a valid time. */
void node_cause(const struct node *node, struct peer_cause *ret);
/* The process ended badly, and another failure is the cause. */
bool node_is_victim(const struct node *node, const struct member *member,
                    const struct peer_cause *cause);

#endif
