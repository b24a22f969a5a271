/* SPDX-License-Identifier: Apache-2.0
 *
 * round: one node's part in the agreed saves: the gate, the vote, who has saved, who waits for
 * which answer; and the saves that the program does by itself.
 *
 * The chief's ORDER says where the round stands; round_order() makes this node stand there. What it
 * emits: the gate word, messages to processes, ACT_READ_STEPS and ACT_PREPARE. It never lifts a
 * tentative gate by itself, and keeps a decided one until every process has served it, so that no
 * process passes a step at which another one saved. Owned by node; pure.
 */
#ifndef PCHRUN_CORE_ROUND_H
#define PCHRUN_CORE_ROUND_H

#include "core/out.h"
#include "core/ranks.h"

enum round_writing { WRITING_NOTHING, WRITING_ROUND, WRITING_OWN };

struct round {
    struct ranks *ranks;
    struct out *out;
    uint32_t id, ballot;
    enum peer_phase phase; /* as the newest order said */
    uint64_t save_step;
    bool ends_run;
    uint64_t word;       /* the gate's */
    uint64_t bell, rung; /* a step that is to be told of, and the last one that was; 0: none */
    enum peer_vote vote;
    bool is_closed, leaves; /* the round's end has been seen; who waits leaves or goes on */
    bool is_ending;         /* the job ends: everybody leaves */
    enum round_writing writing;
    uint64_t writing_step;
    uint32_t writing_round;
    uint32_t prepared_round; /* the last one whose record is on this node's disk */
    uint64_t prepared_own, failed_own;
    uint64_t own_closed, commit_step;
    bool is_return_told; /* that somebody saves what lies below the commit */
    char save_error[128];
    int64_t opened_at, decided_at, saved_at, closed_at; /* 0: not yet */
};

void round_init(struct round *round, struct ranks *ranks, struct out *out);
/* Makes this node stand where the order says. */
void round_order(struct round *round, const struct peer_stamp *stamp,
                 const struct peer_order *order);
/* The job ends: every process is let go and told to leave. */
void round_end(struct round *round);
/* The steps that ACT_READ_STEPS asked for have been taken into `ranks`; `bad` if they made no
 * sense. */
void round_steps_read(struct round *round, const struct err *bad);
/* The vote on the ballot is still to be cast, and waits for the steps. */
bool round_wants_steps(const struct round *round);

/* What a process said. */
void round_attached(struct round *round, struct member *member);
void round_message(struct round *round, struct member *member, const struct procmsg *msg);
void round_ended(struct round *round);
/* Does a rank that ends now leave undone what was asked of it? It was told to leave, or a round is
 * open and it has not saved yet, or is to leave behind its save. */
bool round_asks(const struct round *round, const struct member *member);
void round_prepared(struct round *round, const struct err *bad);
/* Answers the program's own saves that have waited for `commit_wait`, and tells of those that wait
 * for long. */
void round_timers(struct round *round, int64_t commit_wait);
/* When round_timers() has something to do; CLOCK_NEVER: never. */
int64_t round_wake_at(const struct round *round, int64_t commit_wait);

/* Fills in what a STATUS says of the round and its processes. */
void round_status(const struct round *round, struct peer_status *status);

#endif
