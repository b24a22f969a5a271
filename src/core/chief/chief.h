/* SPDX-License-Identifier: Apache-2.0
 *
 * chief: what node 0 decides for the job: which nodes join, when the job starts, the agreement on a
 * save step, the commit, which nodes are lost, and how and when all nodes leave.
 *
 * It keeps the newest STATUS of every node as a set of facts (bits), with a count for each fact. So
 * one message costs the same for two nodes as for thousands. It keeps one ORDER. The order goes to
 * all nodes whenever it changes, and it answers each heartbeat. chief_decide() takes all decisions,
 * from the present facts, so a repeated or late message cannot change them. The state is in
 * chief_state.h; chief_parts.h lists the chief's files. core owns it, on node 0 only. It is pure.
 */
#pragma once

#include "core/chief/chief_state.h"
#include "core/common/peerreport.h"

/* `chief` is all zero, but for chief->spares: NULL, or zeros for params->nnodes + params->spares of
 * them, borrowed. `peers`: room for params->nnodes of them, borrowed. */
void chief_init(struct chief *chief, const struct core_params *params, struct peer *peers,
                struct out *out);
void chief_event(struct chief *chief, const struct event *event);
/* A message that came over `conn`; `from`: the node's address, may be NULL. */
void chief_message(struct chief *chief, int conn, const struct peermsg *msg, const char *from);
/* Takes every decision that the facts allow, and sends the order if it has changed. */
void chief_decide(struct chief *chief);
int64_t chief_wake_at(const struct chief *chief);
/* How long the ranks took to leave after the last save, on the node where they took longest; 0: not
 * measured. *ret_cut: some would have taken longer. */
int64_t chief_took_to_end(const struct chief *chief, bool *ret_cut);
/* The time between two saves without a notice, as it is now; 0: they are not by time. */
int64_t chief_saves_every(const struct chief *chief);
/* The hang that ends this generation. */
const struct core_hang *chief_hang(const struct chief *chief);
/* A step above the last commit whose save failed, or could not be recorded; 0: there is none. */
uint64_t chief_uncommitted(const struct chief *chief);
/* The highest step that any node has reported. */
uint64_t chief_last_step(const struct chief *chief);
/* The training ends after this step, as its ranks declare; 0: none has. */
uint64_t chief_final_step(const struct chief *chief);
/* The longest time in which a rank has waited for data in this generation. */
uint64_t chief_longest_loading(const struct chief *chief);
/* A process has attached on some node. */
bool chief_has_ranks(const struct chief *chief);
void chief_report_peer(const struct chief *chief, int node_rank, struct core_peer_report *ret);
/* Adds to node 0's own wait for replacements what the ORDER does not have: all vacant places, and
 * the wait before the first start. */
void chief_report_wait(const struct chief *chief, struct core_wait *ret);
/* Returns how many spares it has reported, at most `max`. */
int chief_report_spares(const struct chief *chief, struct core_spare_report *ret, int max);
/* This machine stood still for `away`: no node is lost because it sent nothing in that time, and a
 * deadline that has passed is acted upon only when the nodes have had time to report. */
void chief_forgive(struct chief *chief, int64_t away);
