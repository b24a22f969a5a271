/* SPDX-License-Identifier: Apache-2.0
 *
 * action: the output of the core. The shell performs each action in the call that passes it, or
 * queues it in order. That call must not call the core.
 */
#pragma once

#include "base/markkind.h"
#include "core/common/params.h"
#include "wire/peermsg.h"
#include "wire/procmsg.h"

#include <stdint.h>

enum action_type {
    ACT_PORT,       /* at once: store a free port of this machine in *port, 0: none */
    ACT_START,      /* start every child; EV_CHILD_STARTED or EV_CHILD_FAILED for each */
    ACT_SIGNAL,     /* send a signal */
    ACT_GATE,       /* store this word in the page of every process, also of later ones */
    ACT_READ_STEPS, /* load the step of every process, after any ACT_GATE: EV_STEPS */
    ACT_EXAMINE,    /* collect evidence of what the processes do, for people: EV_EXAMINED */
    ACT_PROC_SEND,  /* a message to a process */
    ACT_PROC_CLOSE, /* let a process go (after REFUSED) */
    ACT_PREPARE,    /* write this node's record of the save at `step`: EV_PREPARED */
    ACT_COMMIT,     /* write the job's record: EV_COMMITTED */
    ACT_UNCOUNT,    /* record that this attempt does not count as an attempt without a commit */
    ACT_NOTE_END,   /* record how long the processes took to end */
    ACT_STRIKE,     /* on node 0: a health check has found a host not healthy; record that */
    ACT_SEEK_DIR,   /* is the state directory here that of node 0? EV_DIR_SEEN */
    ACT_CHECK,      /* check the health of this node: EV_CHECKED */
    ACT_MEASURE,    /* take part in a measurement of the network, or end that: EV_MEASURED */
    ACT_CONNECT,    /* connect to the chief: EV_CHIEF_UP or EV_PEER_DOWN */
    ACT_SEND,       /* a message to a peer */
    ACT_CLOSE,      /* send the queued messages, then close; no EV_PEER_DOWN follows */
    ACT_TAKE,       /* of a spare: begin as node `place`; no action of the spare follows */
    ACT_NOTICE,     /* publish the live notice to the processes */
    ACT_COMMITTED,  /* all nodes committed `step`: forget scratch directories, keep the record */
    ACT_MARK,       /* on node 0: the job does something else from now on, or has committed */
    ACT_LOG,
    ACT_STATE, /* core_report() may have changed */
    ACT_EXIT,  /* the end: no action follows */
    ACT__COUNT
};

enum signal_target {
    TARGET_CHILDREN, /* the commands that pchrun started, by pid */
    TARGET_RANKS,    /* the rank processes, by pid: attached ones, else those with RANK in their
                      * environment, else the children, else what these left behind */
    TARGET_TREE,     /* every process of the job on this node; SIGCONT follows */
};

struct action {
    enum action_type type;
    union {
        struct {
            uint32_t attempt, generation;
            uint64_t resume_step;
            uint16_t port; /* on node 0: where the commands of all nodes meet; 0: none */
        } start;
        uint16_t *port;
        struct {
            int number;
            enum signal_target target;
        } signal;
        uint64_t gate;
        uint32_t examine; /* its number */
        struct {
            int slot;
            const struct procmsg *msg;
        } proc;
        struct {
            uint64_t step;
            /* with ACT_PREPARE: the number of ranks here that saved the step; and an earlier
             * prepared step that may still commit, 0: none */
            int ranks;
            uint64_t own;
            /* with these and ACT_COMMITTED: 1 + the rank whose save is the whole checkpoint; 0:
             * each rank's save is its part */
            uint32_t whole;
            int64_t save_ns;  /* with ACT_COMMIT: how long a save takes, 0: unknown */
            int64_t start_ns; /* with ACT_COMMIT: how long a start takes, 0: unknown */
            /* the same: how long the job has run, and how often it failed, in all attempts; this
             * attempt counts as one more, unless it ends with this commit */
            int64_t ran_ns;
            int failures;
        };
        int place;
        const struct peer_measure *measure; /* number 0: it has ended */
        uint64_t chief;                     /* with ACT_SEEK_DIR: node 0's incarnation */
        int64_t end_ns;                     /* with ACT_NOTE_END */
        struct {
            const char *host, *text; /* text: "gpu3: Xid 79" */
        } strike;
        bool has_no_step; /* with ACT_UNCOUNT: a preemption before the first step ended it */
        struct {
            int conn;
            const struct peermsg *msg;
        } peer;
        struct {
            const char *text;    /* "": no notice is live */
            int64_t deadline_ns; /* CLOCK_MONOTONIC, CLOCK_NEVER: none */
        } notice;
        struct {
            enum mark_kind kind;
            uint32_t generation;
            /* The highest step. With MARK_STARTING and MARK_TRAINING: the step that it begins at.
             * With MARK_SAVING and MARK_COMMIT: the saved step. */
            uint64_t step;
            int64_t at; /* CLOCK_MONOTONIC; before now with MARK_HUNG */
        } mark;
        struct {
            int level; /* enum log_level */
            const char *topic, *text;
        } log;
        struct {
            enum outcome outcome;
            int code;
            const char *text;
        } exit;
    };
};

/* Performs one action. It is called while core_handle() runs and must not call core_handle(). */
typedef void core_act_fn(void *shell, const struct action *action);
