/* SPDX-License-Identifier: Apache-2.0
 *
 * chief: what node 0 decides for the job: who belongs to it, when it starts, the agreement on a
 * save step, the commit, who is lost, and how and when all leave.
 *
 * It keeps the newest STATUS of every node as a set of facts (bits) with a count for each, so that
 * one message costs the same for two nodes as for thousands; and it keeps one ORDER, which goes to
 * everybody whenever it changes, and to whoever sends a heartbeat. All decisions are taken in one
 * place, from the facts as they stand (chief_decide()), so a message that is repeated or late
 * cannot change them. What it keeps is in chief_state.h, what its files do for each other in
 * chief_parts.h. Owned by core, on node 0 alone; pure; its table of peers is made at start.
 */
#ifndef PCHRUN_CORE_CHIEF_H
#define PCHRUN_CORE_CHIEF_H

#include "core/chief_state.h"
#include "core/peerreport.h"

/* Of one that is all zero. `peers`: room for params->nnodes of them, borrowed. */
void chief_init(struct chief *chief, const struct core_params *params, struct peer *peers,
                struct out *out);
void chief_event(struct chief *chief, const struct event *event);
/* A message of a node, over `conn`; `from`: its address, may be NULL. */
void chief_message(struct chief *chief, int conn, const struct peermsg *msg, const char *from);
/* Takes every decision that the facts allow by now, and sends the order if it has changed. */
void chief_decide(struct chief *chief);
int64_t chief_wake_at(const struct chief *chief);
/* A step above the last commit whose save failed, or could not be recorded; 0: there is none. */
uint64_t chief_uncommitted(const struct chief *chief);
/* The highest step that any node has told; and whether a process has attached anywhere. */
uint64_t chief_last_step(const struct chief *chief);
bool chief_has_ranks(const struct chief *chief);
/* What is known of a node. */
void chief_report_peer(const struct chief *chief, int node_rank, struct core_peer_report *ret);
void chief_forgive(struct chief *chief);

#endif
