/* SPDX-License-Identifier: Apache-2.0
 *
 * core: one supervisor's decisions, as a state machine: events in, actions out.
 *
 * It does no I/O, reads no clock, starts no thread, and allocates only in core_new(). The same code
 * runs in pchrun (src/run drives it) and in the simulator (tests/sim). One thread.
 *
 * node     the life of this supervisor, with round (its part in an agreed save), uplink (its
 *          connection to the chief) and ladder (how to stop processes)
 * chief    on node 0: the join, the agreement, the end
 * common   grace (notices and deadlines), ranks (the attached processes), stride (the steps at
 * which all ranks can stop), verdict (outcome and exit code)
 */
#pragma once

#include "core/common/action.h"
#include "core/common/event.h"
#include "core/common/params.h"
#include "core/common/peerreport.h"

struct core;

/* NULL only when memory is short. The caller frees it with core_free(). */
struct core *core_new(const struct core_params *params, core_act_fn *act, void *shell);
void core_free(struct core *core);

/* Takes one event. Emits the actions that follow from it, and from all deadlines that have passed.
 */
void core_handle(struct core *core, const struct event *event);

/* When the core wants EV_TIMER next; CLOCK_NEVER: never. */
int64_t core_wake_at(const struct core *core);

/* A snapshot for the report and the status: see REPORT in pchctl(1). */
struct core_rank_report {
    int slot, rank, local_rank, pid;
    bool is_attached, is_done;
    bool is_counting;    /* this process only reports its steps */
    bool is_victim;      /* it ended badly, but another failure is the cause */
    int64_t start_until; /* until when it may attach; 0: it has attached, or need not */
    uint64_t first_step; /* that it had finished when it attached */
    uint64_t saved_step;
    /* as last read: since `since` the rank is at this step and in this phase */
    uint64_t step;
    enum page_phase phase;
    int64_t since; /* CLOCK_MONOTONIC */
    /* own_ns: its own part of a step, 0: unknown; slow: a slow rank's own part in hundredths of the
     * median, 0: it is not slow */
    uint64_t own_ns;
    uint16_t slow;
    uint64_t loaded_ns; /* in which it has waited for data, without that of its page */
};
struct core_report {
    enum node_state state;
    enum outcome outcome;        /* of the job: unknown before a restart in place */
    enum outcome restarts_after; /* so this generation ended, and another follows; else unknown */
    int exit_code;
    uint32_t attempt, generation;
    struct core_notice notice;
    struct {
        uint32_t id;
        const char *phase; /* "idle", "proposed", "decided", "committed", "failed", "aborted" */
        uint64_t save_step;
        int64_t opened_at, decided_at, saved_at, committed_at; /* CLOCK_MONOTONIC, 0: not yet */
    } round;
    uint64_t commit_step;
    uint64_t uncommitted_step; /* on node 0: a save above the commit that failed; 0: none */
    bool tells_next;           /* on node 0: the job has ended, and may be started again */
    int64_t commit_at;         /* CLOCK_MONOTONIC, 0: not in this attempt */
    char without[192]; /* on node 0: the ranks that the last commit did without, with reasons */
    uint64_t resumed_step, last_step; /* last_step: the highest that this node knows */
    uint64_t loading_ns; /* the longest time in which a rank that this node knows of has waited for
                          * data in this generation */
    int ranks_expected;  /* on this node; -1: not known yet */
    struct {             /* on node 0, of all nodes */
        uint64_t last_step, final_step; /* final_step: the training ends there; 0: unknown */
        bool has_ranks;                 /* a process has attached */
        int64_t save_every_ns; /* the time between two saves without a notice; 0: not by time */
        int64_t end_ns; /* how long the processes took to end after the last save; 0: unknown */
        bool end_cut;   /* they would have taken longer, but the deadline came */
        struct core_hang hang;
        struct core_network network;
    } job;
    struct core_wait wait;
    /* The first cause of the job; until that is known, of this node. Only its wall_ns is a valid
     * time. */
    struct peer_cause first_cause;
    bool is_cause_here;      /* the first cause was on this node */
    uint32_t stops_given_up; /* requests to this node to save and end the job */
    char why_given_up[256];  /* the newest of them */
    char why[PEERMSG_WHY_SIZE];
};
void core_report(const struct core *core, struct core_report *ret);
/* The attached processes, and with -n the commands that have not attached; returns their number. */
int core_ranks(const struct core *core, struct core_rank_report *ret, int max);

/* On node 0: a report of every node; returns their number. On other nodes 0. */
int core_peers(const struct core *core, struct core_peer_report *ret, int max);
/* On node 0: a report of every spare, by its number; returns how many there are. On other nodes 0.
 */
int core_spares(const struct core *core, struct core_spare_report *ret, int max);
