/* SPDX-License-Identifier: Apache-2.0
 *
 * ranks: who of this node has attached, as which rank, and where each one stands. Pure; fixed size.
 *
 * A member is a rank of this node in this generation. It keeps its place when its process has
 * ended, since a round counts the ended, too; a new process may take the place of an ended one.
 *
 * A counter is a process that only tells its steps (PROCMSG_FLAG_COUNTS). To the agreement, and to
 * the end of the job, it is as if it had not attached; only the watchdog, and people, look at it.
 */
#ifndef PCHRUN_CORE_RANKS_H
#define PCHRUN_CORE_RANKS_H

#include "base/err.h"
#include "core/event.h"
#include "core/params.h"
#include "core/stride.h"
#include "wire/gate.h"
#include "wire/page.h"
#include "wire/procmsg.h"

#include <stdbool.h>
#include <stdint.h>

enum { OWN_KEPT = 64, RANKS_UNKNOWN = -1 };

/* No training comes so far; there is room above it for the next proposals. */
#define RANKS_STEP_MAX (GATE_STEP_MAX - STRIDE_MAX * 2)

/* What a process waits for with its socket open. */
enum member_wait {
    WAIT_NONE,
    WAIT_GATE, /* stands at a tentative gate */
    WAIT_SAVE, /* in pch_saved */
    WAIT_HELD, /* in pch_step, its background save belongs to a round that ends the run */
};

struct member {
    int slot; /* -1: not connected */
    int pid, rank, local_rank;
    bool is_ended;     /* trained to the end, or its process is gone */
    bool is_done;      /* it said so itself */
    bool is_closed;    /* it took its leave, and not with a failure */
    bool has_returned; /* the same, at its last step as far as it said one, and asked by nothing */
    bool is_shielded;  /* it does not see a SIGTERM that is a notice: libpch's handler takes that */
    int status;        /* that it has exited with, as it said itself; 0: no failure */
    char reason[512];  /* why it will fail, as it said itself; "": it did not */
    int reason_code;
    int64_t reason_at;
    int64_t gone_at; /* its connection ended without a word of success; 0: it did not */
    uint64_t step, first_step, last_step;
    /* the agreed rounds, by number, 0: none */
    uint32_t served_round; /* has begun its save in it */
    uint32_t saved_round, failed_round;
    uint64_t saved_step;
    bool has_waited; /* its save was reported by pch_saved, so it waits for the answer */
    /* its own saves, newest last */
    uint64_t own[OWN_KEPT];
    int nown;
    enum member_wait wait;
    uint32_t wait_round; /* with WAIT_SAVE and WAIT_HELD, 0: its own save */
    uint64_t wait_step;
    int64_t wait_since;
    bool is_wait_told;
    struct { /* as the watchdog saw it last */
        uint64_t step;
        enum page_phase phase;
        int64_t since; /* it stands there */
        bool is_dead;  /* its command has ended; the connection is held by somebody else */
    } stand;
};

struct ranks {
    struct member members[CORE_SLOTS_MAX];
    int n; /* members, connected and ended ones */
    int nconnected, nended;
    struct member counters[CORE_SLOTS_MAX];
    int ncounters, ncounting;    /* of which are connected */
    bool have_stepped;           /* one whose process is gone had finished a step */
    int expected;                /* RANKS_UNKNOWN: nobody has said */
    int world_size;              /* 0: nobody has said */
    int of_slot[CORE_SLOTS_MAX]; /* member of a slot, -1: free */
    struct stride stride;        /* common to all */
};

/* `ranks` is all zero: on a node with few of them most of it is never touched. */
void ranks_init(struct ranks *ranks, int expected);

/* A process attaches (EV_PROC_ATTACHED): finds its rank, and checks it against all others. NULL
 * with a text that names both sides if it does not fit. */
MUST_CHECK struct member *ranks_attach(struct ranks *ranks, const struct core_params *params,
                                       const struct event *event, struct err *err);
/* The member of a slot, NULL if that is free, or a counter's. */
struct member *ranks_of_slot(struct ranks *ranks, int slot);
/* Its connection is closed, its page showed `step` last; it counts as ended from now on. */
void ranks_gone(struct ranks *ranks, int slot, uint64_t step);
/* Has it gone without a word of success: neither done nor closed, or with a failure? */
bool ranks_is_silent(const struct member *member);
void ranks_end(struct ranks *ranks, struct member *member);

/* A process attaches as a counter. NULL, with a text, if it says what cannot be. */
MUST_CHECK struct member *ranks_count(struct ranks *ranks, const struct core_params *params,
                                      const struct event *event, struct err *err);
/* The counter of a slot, NULL if that is free, or a member's. */
struct member *ranks_counter_of_slot(struct ranks *ranks, int slot);
/* Its connection is closed, its page showed `step` last. */
void ranks_counter_gone(struct ranks *ranks, struct member *counter, uint64_t step);

/* Are all that belong to this node there (or have been)? */
bool ranks_are_complete(const struct ranks *ranks);
/* Takes in the steps that were read. False if a process shows a number that no training reaches; it
 * is named in *err. */
MUST_CHECK bool ranks_read_steps(struct ranks *ranks, const uint64_t *by_slot, struct err *err);
uint64_t ranks_highest(const struct ranks *ranks);
uint64_t ranks_lowest(const struct ranks *ranks);
bool ranks_have_stepped(const struct ranks *ranks);
/* The oldest step above `above` that every rank of this node has saved by itself, 0 if none. */
uint64_t ranks_own_step(const struct ranks *ranks, uint64_t above);
/* It has saved that step by itself. What is not above `over` is forgotten, and the oldest where
 * more than OWN_KEPT are there. */
void ranks_add_own(struct member *member, uint64_t step, uint64_t over);
bool ranks_has_own(const struct member *member, uint64_t step);
/* The smallest declared last step, 0 if none was declared. */
uint64_t ranks_last_step(const struct ranks *ranks);
/* "0-3,8". False if it does not fit. */
bool ranks_roster(const struct ranks *ranks, char *text, size_t size);

#endif
