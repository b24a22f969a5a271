/* SPDX-License-Identifier: Apache-2.0
 *
 * round_state: the memory of a node's part in the agreed saves. Only round.c changes it; needed.c
 * reads it. Owned by node.
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
    enum save_needs needs; /* fixed when the round is decided */
    uint64_t word;         /* the gate word */
    uint64_t bell, rung;   /* the step that the chief wants to hear of; the last bell that rang */
    enum peer_vote vote;
    bool is_closed, leaves; /* the round is over; waiting processes leave, or go on */
    bool is_ending;         /* the job ends: all processes leave */
    bool is_writing;        /* a record of this step, saved in this round; 0: an own save */
    uint64_t writing_step;
    uint32_t writing_round;
    int writing_ranks;       /* how many ranks it has */
    uint32_t writing_whole;  /* 1 + the rank in it whose save is enough; 0: none */
    uint32_t prepared_round; /* the last round whose record is on this node's disk */
    int prepared_ranks;      /* in that record */
    uint32_t prepared_whole;
    uint64_t prepared_own, failed_own;
    uint64_t own_closed, commit_step;
    bool is_return_told; /* the log has named a rank that saves a step below the commit */
    char save_error[128];
    int64_t opened_at, decided_at, saved_at, closed_at; /* 0: not yet */
};
