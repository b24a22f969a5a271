/* SPDX-License-Identifier: Apache-2.0
 *
 * core: one supervisor's decisions, as a machine: events in, actions out.
 *
 * It does no I/O, reads no clock, starts no thread, and allocates only in core_new(). The same code
 * runs in pchrun (src/run drives it) and in the simulator (tests/sim). Inside it: node (the life of
 * this supervisor), round (this node's part in an agreed save), chief (on node 0: the join, the
 * agreement, the end), uplink (the line to it), grace (notices and deadlines), ranks (who has
 * attached), stride (where they all can stop), ladder (how to stop processes), verdict (outcome and
 * exit code). One thread.
 */
#ifndef PCHRUN_CORE_CORE_H
#define PCHRUN_CORE_CORE_H

#include "core/action.h"
#include "core/event.h"
#include "core/params.h"
#include "core/peerreport.h"

struct core;

/* NULL only when memory is short. The caller ends it with core_free(). */
struct core *core_new(const struct core_params *params, core_act_fn *act, void *shell);
void core_free(struct core *core);

/* Takes one event, emits what follows from it, and from every deadline that has passed by then. */
void core_handle(struct core *core, const struct event *event);

/* When the core wants EV_TIMER next (CLOCK_NEVER: not at all). */
int64_t core_wake_at(const struct core *core);

/* A snapshot for the report and the status: see report fields in pchrun(1). */
struct core_rank_report {
    int slot, rank, local_rank, pid;
    bool is_attached, is_done;
    bool is_counting;    /* it only tells its steps */
    bool is_victim;      /* it ended badly, and only after something else had failed */
    int64_t start_until; /* it has this time to attach first, 0: it has been, or is not to */
    uint64_t saved_step;
    /* as they were read last: it has stood at this step and in this phase since then */
    uint64_t step;
    enum page_phase phase;
    int64_t since; /* CLOCK_MONOTONIC */
};
struct core_report {
    /* "waiting", "running", "saving", "stopping", "leaving", "restarting", "done" */
    const char *state;
    enum outcome outcome; /* of the job: unknown where another generation is to follow */
    int exit_code;
    uint32_t attempt, generation;
    struct {
        bool is_live;
        char source[32], id[64], text[96];
        int node_rank;
        int64_t at, deadline; /* CLOCK_MONOTONIC */
    } notice;
    struct {
        uint32_t id;
        const char *phase; /* "idle", "proposed", "decided", "committed", "failed", "aborted" */
        uint64_t save_step;
        int64_t opened_at, decided_at, saved_at, committed_at; /* CLOCK_MONOTONIC, 0: not yet */
    } round;
    uint64_t commit_step;
    uint64_t uncommitted_step; /* on node 0: above it, and its save came to nothing; 0: none */
    int64_t commit_at;         /* CLOCK_MONOTONIC, 0: not in this attempt */
    uint64_t resumed_step, last_step; /* last: the highest known on this node */
    int ranks_expected;               /* on this node; -1: nobody has said */
    struct {                          /* on node 0, of all nodes */
        uint64_t last_step;
        bool has_ranks; /* some have attached */
    } job;
    struct {
        bool is_known, is_signal;
        bool is_loss; /* of that node, no failure */
        bool is_here; /* on this node */
        int node_rank, rank, pid, code;
        int64_t wall; /* CLOCK_REALTIME, as its node has it */
        char host[64], text[512], tail[1024];
    } first_cause; /* of the job; of this node before the job's is known */
    char why[PEERMSG_WHY_SIZE];
};
void core_report(const struct core *core, struct core_report *ret);
/* The attached processes, and with -n the commands that have not attached; returns how many there
 * are. */
int core_ranks(const struct core *core, struct core_rank_report *ret, int max);

/* On node 0: every node's; returns how many there are. Elsewhere 0. */
int core_peers(const struct core *core, struct core_peer_report *ret, int max);

#endif
