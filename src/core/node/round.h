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

#include "core/common/out.h"
#include "core/common/ranks.h"

struct round {
    struct ranks *ranks;
    struct out *out;
    uint32_t id, ballot;
    enum peer_phase phase; /* from the newest order */
    uint64_t save_step;
    bool ends_run;
    uint64_t word;       /* the gate word */
    uint64_t bell, rung; /* the step that the chief wants to hear of; the last bell that rang */
    enum peer_vote vote;
    bool is_closed, leaves; /* the round is over; waiting processes leave, or go on */
    bool is_ending;         /* the job ends: all processes leave */
    bool is_writing;        /* a record of this step, saved in this round; 0: an own save */
    uint64_t writing_step;
    uint32_t writing_round;
    uint32_t prepared_round; /* the last round whose record is on this node's disk */
    uint64_t prepared_own, failed_own;
    uint64_t own_closed, commit_step;
    bool is_return_told; /* the log has named a rank that saves a step below the commit */
    char save_error[128];
    int64_t opened_at, decided_at, saved_at, closed_at; /* 0: not yet */
};

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

/* Fills in the fields of a STATUS about the round and its processes. */
void round_status(const struct round *round, struct peer_status *status);
