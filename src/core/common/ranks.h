/* SPDX-License-Identifier: Apache-2.0
 *
 * ranks: the attached processes of this node, with rank and step. Pure; fixed size.
 *
 * A member is a rank of this node in this generation. It keeps its place when its process has
 * ended, because a round counts ended ranks, too. A new process may take that place.
 *
 * A counter is a process that only reports its steps (PROCMSG_FLAG_COUNTS). For the agreement and
 * the end of the job it is not attached. Only the watchdog and the reports use it.
 */
#pragma once

#include "base/err.h"
#include "core/common/event.h"
#include "core/common/params.h"
#include "core/common/stride.h"
#include "wire/gate.h"
#include "wire/page.h"
#include "wire/procmsg.h"

#include <stdbool.h>
#include <stdint.h>

enum { OWN_KEPT = 64, RANKS_UNKNOWN = -1 };

/* No training reaches this step; there is room above it for the next proposals. */
#define RANKS_STEP_MAX (GATE_STEP_MAX - STRIDE_MAX * 2)

/* Why a process waits with its socket open. */
enum member_wait {
    WAIT_NONE,
    WAIT_GATE, /* at a tentative gate */
    WAIT_SAVE, /* in pch_saved */
    WAIT_HELD, /* in pch_step; its background save belongs to a round that ends the run */
};

struct member {
    int slot; /* -1: not connected */
    int pid, rank, local_rank;
    bool is_counter;
    bool is_ended;     /* it is done, or its process is gone */
    bool is_done;      /* it called pch_done */
    bool is_closed;    /* it closed its connection, without a failure */
    bool has_returned; /* is_closed at its declared last step, without a request to leave or save */
    bool is_shielded;  /* libpch's handler catches a SIGTERM that is a notice */
    enum save_needs needs; /* as its program declares */
    int status;            /* the exit code that it told; 0: no failure */
    char reason[512];      /* the reason that the process gave for its failure; "": none */
    int reason_code;
    int64_t reason_at;
    bool gave_up;       /* its reason: it gave up its wait for other ranks */
    int64_t timeout_ns; /* after which its collectives give up, as it told; 0: unknown */
    int64_t gone_at;    /* when its connection ended without success; 0: it did not */
    uint64_t step, first_step, last_step;
    /* the agreed rounds, by number, 0: none */
    uint32_t served_round; /* the rank has begun its save in it */
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
    struct page_own pace; /* as last read */
    uint64_t loaded_ns;   /* in which earlier processes of the rank have waited for data */
    bool is_slow;
    uint64_t over_ns; /* its own part when it came over the limit for slow ranks; 0: it is not */
    struct {          /* from the watchdog's last reading */
        uint64_t step;
        enum page_phase phase;
        int64_t since; /* since when it is at this step and phase */
        bool is_dead;  /* its command has ended; another process holds the connection */
    } stand;
};

struct ranks {
    struct member members[CORE_SLOTS_MAX];
    int n, nconnected; /* members, connected and ended ones; nconnected of them are connected */
    struct member counters[CORE_SLOTS_MAX];
    int ncounters, ncounting; /* ncounting of them are connected */
    bool have_stepped;        /* a rank whose process is gone had finished a step */
    int expected;             /* RANKS_UNKNOWN: not known yet */
    int world_size;           /* 0: not known yet */
    struct stride stride;     /* common to all ranks */
};

/* The finished steps of all members, ended ones, too. */
struct ranks_steps {
    uint64_t lowest, highest; /* 0: there is no member */
    uint64_t last;            /* the smallest declared last step, 0: none was declared */
    bool have_stepped;        /* a rank of this generation has finished a step */
};

/* `ranks` is all zero. Clearing it here would touch memory that a node with few ranks never uses.
 */
void ranks_init(struct ranks *ranks, int expected);

/* A process attaches (EV_PROC_ATTACHED) in a free slot: finds its rank, and checks it against all
 * others. NULL if it does not fit; the text in *err names both sides. */
MUST_CHECK struct member *ranks_attach(struct ranks *ranks, const struct core_params *params,
                                       const struct event *event, struct err *err);
/* A process attaches as a counter. NULL, with a text, if its numbers are impossible. */
MUST_CHECK struct member *ranks_count(struct ranks *ranks, const struct core_params *params,
                                      const struct event *event, struct err *err);
/* Member or counter number i: the members come first, then the counters; NULL: there are no more.
 */
struct member *ranks_at(const struct ranks *ranks, int number);
/* The member or counter of a slot; NULL: the slot is free. */
struct member *ranks_of_slot(const struct ranks *ranks, int slot);
/* The member of a rank; NULL: it has not attached. */
struct member *ranks_of_rank(const struct ranks *ranks, int rank);
/* The member with the next rank, NULL: there is none. After NULL comes the first one. It looks at
 * all members: only for texts, which list ranks in their order. */
struct member *ranks_after(const struct ranks *ranks, const struct member *member);
/* The member or the counter of a process; NULL: there is none, or the pid is 0, for unknown. */
struct member *ranks_of_pid(const struct ranks *ranks, int pid, bool is_counter);
/* In which the rank has waited for data in this generation, as last read. */
uint64_t ranks_loading(const struct member *member);
/* The longest such time of a member. */
uint64_t ranks_longest_loading(const struct ranks *ranks);
/* The connection is closed, and the page last showed `step`; the rank counts as ended. */
void ranks_gone(struct ranks *ranks, struct member *member, uint64_t step);
/* The process is gone, and did not report success by pch_done or pch_close. */
bool ranks_is_silent(const struct member *member);

/* All ranks of this node have attached; some may have ended since. */
bool ranks_are_complete(const struct ranks *ranks);
/* Takes the steps that were read. False if a page shows a step that no training reaches; *err names
 * its process. */
MUST_CHECK bool ranks_read_steps(struct ranks *ranks, const uint64_t *by_slot, struct err *err);
struct ranks_steps ranks_steps_of(const struct ranks *ranks);
/* The oldest step above `above` of which every rank of this node has an own save; 0: none. */
uint64_t ranks_own_step(const struct ranks *ranks, uint64_t above);
/* The rank made an own save of `step`. Saves up to `over` are forgotten; beyond OWN_KEPT saves the
 * oldest is forgotten, too. */
void ranks_add_own(struct member *member, uint64_t step, uint64_t over);
bool ranks_has_own(const struct member *member, uint64_t step);
/* How many ranks and counters have given up their wait for other ranks. */
int ranks_count_gave_up(const struct ranks *ranks);
/* Adds the rank to a list such as "3, 5"; without room for it, ", ..." once. */
void ranks_add_name(const struct member *member, char *text, size_t size);
/* "0-3,8". False if it does not fit. */
bool ranks_roster(const struct ranks *ranks, char *text, size_t size);

/* The remedy for a save that a program has made and not reported. */
#define RANKS_HOW_TO_REPORT                                                                 \
    "every rank has to call pch_saved (in Python: job.saved), without a path if it writes " \
    "nothing; if rank 0 writes all, all can attach with PCH_NEEDS_RANK0 (needs='rank0')"
