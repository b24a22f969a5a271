/* SPDX-License-Identifier: Apache-2.0
 *
 * node_state: what a node keeps: its commands, ranks, round, notice and end. Only node*.c change
 * it; core.c gives it its room, and reads what it reports.
 */
#ifndef PCHRUN_CORE_NODE_STATE_H
#define PCHRUN_CORE_NODE_STATE_H

#include "core/grace.h"
#include "core/ladder.h"
#include "core/out.h"
#include "core/ranks.h"
#include "core/round.h"
#include "core/uplink.h"
#include "core/watchdog.h"

/* A save that a notice asks for is not asked for again within it. */
#define NODE_ADVICE_NS (60 * NS_PER_S)

enum node_state {
    NODE_WAITING,  /* for the join */
    NODE_RUNNING,  /* its processes were started; it stays here when they have ended */
    NODE_STOPPING, /* the job ends: the ladder */
    NODE_LEAVING,  /* nothing is left here; waits for the others */
    NODE_DONE,
    NODE__COUNT
};

enum child_state { CHILD_NONE, CHILD_RUNNING, CHILD_ENDED };

struct child {
    enum child_state state;
    int pid, status;
    int64_t died_at; /* before we ended anything, as EV_CHILD_DYING told; 0: not so */
    /* It has died of what may be a notice to all, and counts as running for as long as ranks are
     * there that it has left; 0: not so. */
    int64_t left_at;
};

struct node_fault {
    enum peer_fault_kind kind;
    int rank, pid, code;
    int64_t at;   /* 0: as it is recorded */
    int64_t wall; /* the same, for people */
    bool is_told; /* the process itself has said why, and when */
    int told_code;
    bool was_dead; /* at `at`, before we ended anything, though how it died was heard later */
    bool is_early; /* its process has died, and its end will tell more of it */
    char text[512], tail[1024];
};

struct node {
    const struct core_params *params;
    struct out *out;
    enum node_state state;
    struct child children[CORE_CHILDREN_MAX];
    int nstarting; /* asked for, and neither started nor failed yet */
    int nrunning, nended;
    bool is_tree_empty;
    bool has_signalled_tree;
    bool has_killed;   /* SIGKILL: whoever dies of one before that dies of another's */
    bool has_given_up; /* the ladder ended and something is left */
    int64_t settle_at; /* the word of whoever is still attached is waited for until then; 0: not */
    bool fault_wants_steps; /* it is told with the steps as they are now */
    bool end_wants_steps;   /* somebody still is; the end is told with the steps as they are now */
    struct ranks ranks;
    struct round round;
    struct grace grace;
    struct ladder ladder;
    struct uplink uplink;
    struct watchdog watchdog;
    bool is_dirty;           /* STATUS is to be sent */
    bool has_roster;         /* the chief knows our ranks */
    bool notice_wants_steps; /* the notice is told with the steps as they are now */
    uint32_t checkpoint_asked;
    int64_t advised_at;       /* when a notice asked for it last, 0: never */
    unsigned advised_again;   /* so many have asked since, too soon */
    int64_t forwarded_at[65]; /* by signal number, 0: never */
    uint64_t to_forward;      /* to those who are being started; bit n - 1: signal n */
    struct node_fault fault;
    struct peer_cause cause; /* the job's, as the chief has told it */
    char stopped_by[256];    /* somebody has asked for the end; "": nobody has */
    char replaced_by[256];   /* why a record was refused: a later attempt has the job; "": not so */
    struct node_fault doubt; /* a second process for a rank: a fault only before the training */
    struct {                 /* the job's notice, as the chief told it */
        bool is_live;
        int node_rank;
        int64_t deadline;
        char source[32], id[64], text[96];
    } notice;
    uint64_t commit_step, resumed_step;
    int64_t commit_at;
    uint32_t generation;
    int64_t interrupted_at; /* by a signal that ends programs, 0: never */
    /* the end */
    bool restarts; /* of this generation; another follows, unless the chief changes its mind */
    int64_t stopped_at;
    enum outcome outcome;
    int exit_code;
    int64_t end_deadline;
    char why[PEERMSG_WHY_SIZE];
    bool is_ordered;  /* by the chief */
    bool is_alone;    /* the chief is lost: nobody says LEAVE */
    bool may_leave;   /* it has been said */
    int64_t leave_at; /* leaves by itself then, CLOCK_NEVER: not */
};

#endif
