/* SPDX-License-Identifier: Apache-2.0
 *
 * round: one node's part in the agreed saves: the gate, the vote, the ranks that have saved, and
 * the answers that ranks wait for. It also handles the program's own saves.
 *
 * The chief's ORDER gives the state of the round; round_order() brings this node to that state. It
 * emits the gate word, messages to processes, ACT_READ_STEPS and ACT_PREPARE. It never lifts a
 * tentative gate by itself. A decided gate stays until every process has served it. So no process
 * passes a step at which another process saved. Owned by node; pure.
 */
#pragma once

#include "core/node/round_state.h"

void round_init(struct round *round, struct ranks *ranks, struct out *out);
/* Brings this node to the state that the order gives. */
void round_order(struct round *round, const struct peer_stamp *stamp,
                 const struct peer_order *order);
/* The job ends: every waiting process gets the answer to leave. */
void round_end(struct round *round);
/* `ranks` has the steps that ACT_READ_STEPS asked for; `bad`: a step was impossible. */
void round_steps_read(struct round *round, const struct err *bad);
/* The vote on the ballot waits for the steps. */
bool round_wants_steps(const struct round *round);

/* A process attached, sent a message, or ended. */
void round_attached(struct round *round, struct member *member);
void round_message(struct round *round, struct member *member, const struct procmsg *msg);
void round_ended(struct round *round);
/* The job wants something of this rank: to leave, or to save in the open round. A rank that ends
 * now has not returned by itself. */
bool round_asks(const struct round *round, const struct member *member);
void round_prepared(struct round *round, const struct err *bad);
/* A process that waits long for the commit of its own save is logged; later it gets its answer.
 * CLOCK_NEVER: no process waits. */
int64_t round_wait_due_at(const struct round *round);
void round_act_on_waits(struct round *round);

/* Fills in the fields of a STATUS about the round and its processes. can_save: as needed_fill(). */
void round_status(const struct round *round, bool can_save, struct peer_status *status);
