/* SPDX-License-Identifier: Apache-2.0
 *
 * node: the life of one supervisor: it waits for the job to come together, runs its processes, ends
 * them in the manner that the chief orders, and leaves when the chief says so. What it knows goes
 * to the chief as STATUS; what it does comes from the chief's ORDER, on one node as on a thousand.
 * Alone it decides only when there is no chief (any more). Owned by core; pure.
 */
#ifndef PCHRUN_CORE_NODE_H
#define PCHRUN_CORE_NODE_H

#include "core/grace.h"
#include "core/ladder.h"
#include "core/out.h"
#include "core/ranks.h"
#include "core/round.h"
#include "core/uplink.h"

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
};

struct node_fault {
    enum peer_fault_kind kind;
    int rank, pid, code;
    int64_t at;
    char text[256];
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
    bool has_given_up; /* the ladder ended and something is left */
    int64_t settle_at; /* the word of whoever is still attached is waited for until then */
    struct ranks ranks;
    struct round round;
    struct grace grace;
    struct ladder ladder;
    struct uplink uplink;
    bool is_dirty;           /* STATUS is to be sent */
    bool has_roster;         /* the chief knows our ranks */
    bool notice_wants_steps; /* the notice is told with the steps as they are now */
    uint32_t checkpoint_asked;
    int64_t forwarded_at[65]; /* by signal number, 0: never */
    struct node_fault fault;
    struct node_fault doubt; /* a second process for a rank: a fault only before the training */
    struct {                 /* the job's notice, as the chief told it */
        bool is_live;
        int node_rank;
        int64_t deadline;
    } notice;
    uint64_t commit_step, resumed_step;
    int64_t commit_at;
    /* the end */
    enum outcome outcome;
    int exit_code;
    int64_t end_deadline;
    char why[320];
    bool is_alone;    /* the chief is lost: nobody says LEAVE */
    bool may_leave;   /* it has been said */
    int64_t leave_at; /* leaves by itself then, CLOCK_NEVER: not */
};

/* `node` is all zero. */
void node_init(struct node *node, const struct core_params *params, struct out *out);
void node_event(struct node *node, const struct event *event);
/* A message of the chief. */
void node_message(struct node *node, const struct peermsg *msg);
void node_timers(struct node *node);
int64_t node_wake_at(const struct node *node);
void node_forgive(struct node *node, int64_t away);
/* Sends STATUS if anything in it has changed. */
void node_flush(struct node *node);
const char *node_state_name(const struct node *node);

/* --- between the files of the node --- */

/* The first failure counts, and none of those that our own stopping brings about. */
void node_record_fault(struct node *node, const struct node_fault *fault);
void node_take_notice(struct node *node, enum grace_change change);
/* Leaves NODE_STOPPING if nothing is left here, or what is left was given up. */
void node_check_gone(struct node *node);

/* node_children.c */
void node_on_child_started(struct node *node, const struct event *event);
void node_on_child_failed(struct node *node, const struct event *event);
void node_on_child_exited(struct node *node, const struct event *event);
void node_on_tree_empty(struct node *node, const struct event *event);
bool node_commands_have_ended(const struct node *node);
/* Until when the end is not told since somebody is still attached; CLOCK_NEVER: it may be told. */
int64_t node_settles_at(const struct node *node);
/* Is there anything on this node that the job's end waits for? */
bool node_has_work(const struct node *node);
/* Ends what commands that have ended left behind, unless that is under way. */
void node_sweep_if_last(struct node *node);
void node_climb(struct node *node);
int64_t node_climb_at(const struct node *node);
struct ladder_times node_times(const struct node *node);

/* node_procs.c */
void node_on_proc_attached(struct node *node, const struct event *event);
void node_on_proc_message(struct node *node, const struct event *event);
void node_on_proc_gone(struct node *node, const struct event *event);
/* A success is not believed of who was attached and went without a word: a fault. What ends with
 * another code tells of itself. */
void node_judge_silence(struct node *node);
void node_on_steps(struct node *node, const struct event *event);
void node_on_prepared(struct node *node, const struct event *event);

#endif
