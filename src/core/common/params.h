/* SPDX-License-Identifier: Apache-2.0
 *
 * params: the settings of the core. Copied at start, then constant. Times are nanoseconds.
 */
#pragma once

#include "base/policy.h"
#include "wire/page.h"

#include <stdbool.h>
#include <stdint.h>

#define CORE_CHILDREN_MAX 256 /* training commands started by one node (-n) */
#define CORE_SLOTS_MAX    256 /* attached processes of one node */
#define CORE_NODES_MAX    16384
#define CORE_WORLD_MAX    65536 /* ranks in the job */

/* How a job can end. struct exit_codes (policy.h) has the exit codes that the user may set. */
enum outcome {
    OUTCOME_UNKNOWN, /* not decided: never reported as success */
    OUTCOME_COMPLETED,
    OUTCOME_PREEMPTED,         /* committed, or nothing to save */
    OUTCOME_PREEMPTED_UNSAVED, /* not committed in time */
    OUTCOME_PREEMPTED_UNKNOWN, /* the program does not attach: cannot know whether it saved */
    OUTCOME_FAILED,            /* a process failed, here or elsewhere */
    OUTCOME_NODE_LOST,
    OUTCOME_HANG,
    OUTCOME_NO_PROGRESS,
    OUTCOME_NOT_STARTED, /* nodes missing at the join, cannot execute, not found, our own error */
    OUTCOME_STOPPED,     /* a user asked for the end: the job must not start again */
    OUTCOME_INTERRUPTED, /* a forwarded signal, such as of Ctrl-C, ended the processes */
    OUTCOME_UNHEALTHY,   /* the health check of a node says that it must not train */
    OUTCOME__COUNT
};

struct watchdog_plan {
    enum watchdog_mode mode;
    /* How long a rank may stay in a phase; 0: any time. Except in PAGE_START, the limit is at least
     * `factor` times the longest pause that a rank came out of. */
    int64_t limit_ns[PAGE_PHASES];
    int factor;
    bool follows_timeout; /* a step's limit ends before the ranks' collectives give up */
    int64_t end_ns;       /* how long the ranks may take to end when all are done, 0: for ever */
    int64_t silence_ns;   /* how long commands that do not attach may be silent, 0: for ever */
    bool reads_steps;     /* from the output of commands that do not attach */
    int64_t evidence_ns;  /* how long an examination may take */
};

struct signal_plan {
    enum signal_rule rule;
    int64_t grace_ns; /* with SIGNAL_PREEMPT */
    bool is_guess;    /* nothing says that the signal leaves this time */
};

struct core_params {
    int node_rank, nnodes;
    int spares;   /* supervisors beyond the nnodes, each of which may take a lost node's place */
    int children; /* commands to start on this node, 0 is legal */
    int expected_procs;   /* processes that will attach to this node; -1: as the first process
                           * tells, else 1 */
    uint32_t attempt;     /* known to the chief; members learn it at the join */
    uint32_t epoch;       /* of node 0, see struct peer_stamp; always 0 */
    uint64_t resume_step; /* last commit in the state directory, 0: none */
    uint64_t saved_step;  /* the newest save of this node's ranks, if its disk has no commits */
    int saved_world;      /* how many ranks saved it, 0: unknown */
    int least_world;      /* this many ranks are needed to load all its parts; 0: any number */
    bool has_record;      /* there is a state directory */
    char shared_dir[320]; /* that all nodes are to have: "checkpoint directory, /a"; "": none */
    uint64_t incarnation; /* random */
    char host[64];        /* for people */
    int pid;              /* of pchrun; for people */
    char job[64];         /* for people */
    char *const *names;   /* of the nodes, as configured; for people. NULL: unknown */
    char identity[64];    /* what all nodes of the job must say, see config_job_identity() */
    char settings[1024];  /* the settings that must be equal on all nodes, "name=value\n"… */

    struct signal_plan signals[65]; /* by signal number */
    int64_t grace_ns;               /* of a notice that does not say how much time is left */
    bool is_guess;                  /* nothing says that such a notice leaves this time */
    enum train_on train_on;
    int64_t save_ns;  /* how long a save took in earlier attempts, 0: unknown */
    int64_t start_ns; /* how long it took from the start of the commands to a step on every node */
    int64_t end_ns;   /* how long the processes took to end after the last save */
    enum save_mode save_mode;
    enum save_needs needs; /* equal on every node */
    bool shares_saves;     /* checkpoint.dir is to be one directory of all nodes */
    int save_signal;       /* with SAVE_SIGNAL */
    bool is_instrumented;  /* --instrument is given; for people */
    bool is_drill;         /* the drill tells how it went, so the job's end gives no advice */
    bool signals_group;    /* a signal for a command goes to its whole process group */
    /* a save without a notice after this many steps, or time, since the last commit; 0: off */
    uint64_t every_steps;
    int64_t every_ns;
    int64_t every_most_ns; /* the chief chooses a time from every_ns to this; 0: it is every_ns */
    int64_t known_least_ns, known_most_ns; /* the same when several failures were seen */
    int64_t ran_ns;                        /* how long earlier attempts ran */
    int failures;                          /* how many of them failed after a commit */

    int64_t join_timeout_ns;
    int64_t heartbeat_interval_ns, heartbeat_timeout_ns;
    int64_t tell_ns;      /* how long late nodes are told that another node cannot start */
    int64_t reconnect_ns; /* how long a closed connection may stay closed */
    /* How long the job waits for the replacement of a lost node, 0: it ends at once; and how often
     * in an hour it waits. Equal on every node. */
    int64_t replace_wait_ns;
    int replace_max;
    int64_t exit_wait_ns, term_wait_ns, kill_wait_ns;
    int64_t commit_wait_ns; /* how long a saved rank waits for the saves of other ranks */
    enum leftovers leftovers;

    struct watchdog_plan watchdog;

    struct exit_codes exit;
    bool checks_health;    /* this node has a health check */
    bool checks_net;       /* on node 0: the nodes measure the network before each generation */
    int no_progress_limit; /* attempts in a row without a new commit, 0: no limit */
    int attempts_without_commit;   /* earlier attempts in a row without a commit; without a record,
                                    * all earlier attempts that the scheduler has counted */
    int attempts_without_step;     /* earlier attempts that were preempted before a step */
    struct restart_policy restart; /* equal on every node; the chief acts upon it */
};
