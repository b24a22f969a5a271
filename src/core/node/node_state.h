/* SPDX-License-Identifier: Apache-2.0
 *
 * node_state: the life of one supervisor: its state, and the functions that core.c calls. A node
 * waits until all nodes have joined, runs its processes, ends them as the chief orders, and leaves
 * when the chief says so. It tells the chief its state as STATUS, and acts on the chief's ORDER, on
 * one node as on a thousand. It decides by itself only without a chief. Only node*.c change the
 * state; core.c allocates it, and reads it for reports. node_parts.h lists the files. Owned by
 * core; pure.
 */
#pragma once

#include "core/common/grace.h"
#include "core/common/out.h"
#include "core/common/peerreport.h"
#include "core/common/ranks.h"
#include "core/common/watchdog.h"
#include "core/node/ladder.h"
#include "core/node/round.h"
#include "core/node/uplink.h"

/* Within this time a second notice that only advises a save causes no further save. */
#define NODE_ADVICE_NS (60 * NS_PER_S)

enum child_state {
    CHILD_NONE,
    CHILD_RUNNING,
    CHILD_LEFT, /* has exited by a signal that may be a notice, and counts as running for a while */
    CHILD_ENDED
};

struct child {
    enum child_state state;
    int pid, status;
    int64_t died_at;     /* its death was seen before we ended any process; 0: not so */
    bool may_be_noticed; /* it died of a signal that may be a notice; whether that is a failure is
                          * still open */
};

struct node_fault {
    enum peer_fault_kind kind;
    int rank, pid, code;
    int64_t at;   /* 0: the moment of recording */
    int64_t wall; /* the same moment, for people */
    bool is_told; /* the process itself gave the reason and the time */
    int told_code;
    bool was_dead;   /* it was dead at `at`, before we ended any process; the status came later */
    bool is_early;   /* its process has died, and its exit will tell more */
    bool waited_out; /* it gave no reason, but had stood for as long as its collectives wait */
    char text[512], tail[1024];
};

/* How the processes of a node end. */
struct node_ending {
    enum outcome outcome;
    int exit_code;
    char why[PEERMSG_WHY_SIZE];
    enum peer_manner manner;
    int64_t deadline;
    bool restarts; /* another generation follows, unless the chief cancels it */
};

/* A generation of this node. All fields begin at 0; node_begin_generation() sets the others. */
struct node_generation {
    struct child children[CORE_CHILDREN_MAX];
    int nstarting; /* after ACT_START: commands that have neither started nor failed yet */
    int nrunning;
    struct death left_death; /* more about the end of the first command in CHILD_LEFT */
    int left_pid;            /* the pid of that command; 0: no command is in CHILD_LEFT */
    int asked_with;          /* the signal that asks the commands to save and end, 0: none does */
    bool died_asked;         /* a command died of that signal, or of the notice's */
    bool has_handed_on;      /* what such a command left behind got the signal, too */
    bool has_signalled_tree;
    bool has_killed;   /* we sent SIGKILL; an earlier SIGKILL came from outside */
    bool has_given_up; /* the ladder ended, and processes are left */
    int64_t settle_at; /* the end of the wait for processes that are still attached; 0: no wait */
    bool fault_wants_steps;  /* the fault is reported after the steps are read again */
    bool end_wants_steps;    /* the end is reported after the steps are read again */
    bool notice_wants_steps; /* the notice is reported after freshly read steps */
    bool has_roster;         /* the chief knows our ranks */
    struct ranks ranks;
    struct round round;
    enum peer_paths paths; /* of the save that was recorded last */
    struct ladder ladder;
    uint64_t own_ns;         /* the median of the job's ranks, as the chief told it; slowness.h */
    struct peer_own own;     /* in the last STATUS */
    uint64_t to_forward;     /* for commands that are being started; bit n - 1: signal n */
    struct node_fault fault; /* as the chief is told it */
    int64_t failed_at;       /* from when the first failure counts; `fault` may be a later one */
    int failed_pid;          /* of that failure; 0: it was no process */
    struct node_fault doubt; /* a second process for a rank: a fault only before the training */
    struct peer_cause cause; /* the job's cause, as the chief told it */
    /* the end */
    struct node_ending end;
    int64_t stopped_at;
    int64_t swept_at;  /* since when only leftover processes are ended; 0: not so */
    bool began_before; /* at stopped_at a rank was done, so its process had begun to end earlier */
    int64_t end_ns;    /* how long its processes took to leave; 0: not measured */
    bool end_cut;      /* they would have taken longer */
    struct core_wait wait;
    struct reminder reminder; /* the log says again that the job waits */
    bool is_ordered;          /* the chief ordered the end */
    int64_t leave_at;         /* when the node leaves by itself, CLOCK_NEVER: never */
};

struct node {
    const struct core_params *params;
    struct out *out;
    enum node_state state;
    bool is_tree_empty;
    struct grace grace;
    struct uplink uplink;
    struct watchdog watchdog;
    enum node_state told_state; /* that of the last ACT_STATE */
    bool is_dirty;              /* a STATUS must be sent */
    uint32_t checkpoint_asked;
    int64_t advised_at;       /* when a notice last asked for a save, 0: never */
    unsigned advised_again;   /* notices that asked again too soon */
    int64_t forwarded_at[65]; /* by signal number, 0: never */
    char stopped_by[256];     /* a request to end the job; "": none came */
    uint32_t stop_asked;      /* requests to save and then end the job */
    uint32_t stops_given_up;  /* of them */
    char why_given_up[256];   /* the newest of these */
    char replaced_by[256]; /* why a record was refused: a later attempt has the job; "": not so */
    struct core_notice notice; /* the job's notice, as the chief has sent it */
    bool is_notice_near;       /* the chief says that the job's notice is near */
    bool is_checking;          /* a health check of this node is under way */
    uint32_t measure;          /* the measurement of the network that goes on; 0: none does */
    bool has_sent;             /* in that it sends, or has sent, to the next node */
    struct peer_link link;     /* how far it is in that; zeroed until it listens */
    bool is_unfit;             /* a check says that the node must not train */
    int64_t tell_until; /* is_unfit: how long it tries to tell node 0, before it has joined */
    bool has_sought_dir;
    enum peer_dir dir; /* our state directory */
    uint64_t commit_step, resumed_step;
    int64_t commit_at, save_ns; /* how long a save takes, 0: unknown */
    int64_t interrupted_at;     /* when a signal that ends programs (SIGINT) came; 0: never */
    uint8_t interrupted_by;     /* that signal */
    bool is_alone;              /* the chief is lost, so no LEAVE will come */
    bool may_leave;             /* the chief has ordered LEAVE */
    uint32_t generation;
    struct node_generation gen;
};

/* `node` is all zero. */
void node_init(struct node *node, const struct core_params *params, struct out *out);
void node_event(struct node *node, const struct event *event);
/* A message from the chief. */
void node_message(struct node *node, const struct peermsg *msg);
void node_timers(struct node *node);
int64_t node_wake_at(const struct node *node);
/* This machine stood still for `away`: no process and no node is blamed for that time. */
void node_forgive(struct node *node, int64_t away);
/* Sends STATUS if anything in it has changed. */
void node_flush(struct node *node);
/* The state for reports. */
enum node_state node_stands(const struct node *node);
/* A promise of the design was found broken: the job fails. */
void node_break(struct node *node, int promise);
/* The first failure of the job; until that is known, the first failure of this node. Only its
 * wall_ns is a valid time. */
void node_cause(const struct node *node, struct peer_cause *ret);
/* The process ended badly, and another failure is the cause. */
bool node_is_victim(const struct node *node, const struct member *member,
                    const struct peer_cause *cause);
