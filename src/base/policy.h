/* SPDX-License-Identifier: Apache-2.0
 *
 * policy: the user's choices for the run of a job. The configuration reads them, the core obeys
 * them, and os says where a signal came from. Constant. Times are nanoseconds.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* How the nodes and the record know a job that its user has not named. */
#define JOB_UNNAMED      "pchrun"
#define JOB_UNNAMED_NOTE "\"" JOB_UNNAMED "\": none was given"
/* Advice if two nodes know their job by different names. */
#define JOB_ADVICE "give every node the same --job (" JOB_UNNAMED_NOTE ")"

/* How pchrun treats a signal that it gets. */
enum signal_rule {
    SIGNAL_FORWARD,    /* send it on to the training commands */
    SIGNAL_PREEMPT,    /* a notice: save and leave */
    SIGNAL_CHECKPOINT, /* save and go on training */
    SIGNAL_IGNORE,
};

/* The origin of a signal. */
enum signal_from {
    SIGNAL_FROM_OUTSIDE,
    SIGNAL_FROM_TERMINAL, /* a key or a change of size: the kernel signals the whole foreground
                           * group, so the commands have the signal already */
    SIGNAL_FROM_JOB,      /* a process of the job: not forwarded back */
};

enum save_mode {
    SAVE_ATTACH,  /* processes attach through libpch; others get the signal of the notice */
    SAVE_SIGNAL,  /* a signal asks the ranks to save and end */
    SAVE_FORWARD, /* the training commands get the signal of the notice */
};

/* Whether a job trains after the first save of a notice, until the last safe moment. */
enum train_on {
    TRAIN_ON_NEVER,
    TRAIN_ON_ALWAYS,
    TRAIN_ON_AUTO, /* only if the deadline is known: a guess may be later than the end */
};

/* Whose saves make a step a checkpoint. */
enum save_needs {
    NEEDS_ALL,   /* every rank's */
    NEEDS_RANK0, /* rank 0's is the whole checkpoint */
    NEEDS_ANY,   /* each rank's is a whole checkpoint */
    NEEDS_AUTO,  /* as the attached programs declare; only as a setting */
};

/* The reaction to a job that hangs. */
enum watchdog_mode { WATCHDOG_OFF, WATCHDOG_LOG, WATCHDOG_ON };

/* The processes that the commands leave behind. */
enum leftovers { LEFTOVERS_KILL, LEFTOVERS_LEAVE };

/* The exit codes that the user may set; enum outcome has all the ways in which a job can end. */
struct exit_codes {
    int preempted, preempted_unsaved, node_lost, hang, no_progress, stopped;
    int unhealthy;   /* of the node itself; the other nodes end with node_lost */
    int done_killed; /* the only code that may be 0 */
};

/* How long the processes of a node that node 0 has given up may still run, from the last answer to
 * the node: its lease ends, and SIGKILL ends them. The tenth is for clocks that differ. */
static inline int64_t policy_fence_ns(int64_t heartbeat_timeout_ns, int64_t kill_wait_ns)
{
    return (heartbeat_timeout_ns + kill_wait_ns) / 10 * 11;
}

#define RESTARTS_MAX 1000 /* the largest restart.max */
#define REPLACES_MAX 1000 /* the largest cluster.replace_max */
#define SPARES_MAX   256  /* the largest cluster.spares */

/* When a failed job restarts in place. */
struct restart_policy {
    int max;           /* within the window; 0: never */
    int64_t window_ns; /* 0: the whole attempt */
    int start_max;     /* failures in a row before the first step */
    int64_t
        startup_ns; /* a generation without a finished step that ends sooner fails at its start */
    int64_t backoff_ns, backoff_max_ns;
    int no_progress;    /* generations in a row without a commit, 0: no limit */
    bool is_fatal[256]; /* by exit code */
    bool after_notice;  /* the job waits for the end of the notice, and goes on */
};
