/* SPDX-License-Identifier: Apache-2.0
 *
 * watchdog: do the ranks of this node make progress? Each one's step and phase are looked at now
 * and then, most often because somebody else has read them. A rank that stands at one step and in
 * one phase has a limit for that, which follows from how long ranks have stood before they went on.
 * That nobody moves says nothing yet: ranks wait for each other, so only the whole job can hang.
 * That is for the chief to find (chief_hang.c). Pure.
 */
#ifndef PCHRUN_CORE_WATCHDOG_H
#define PCHRUN_CORE_WATCHDOG_H

#include "core/out.h"
#include "core/ranks.h"

enum { WATCHDOG_TERMS = 2 };

struct watchdog {
    struct out *out;
    int64_t began_at;  /* the commands were started */
    int64_t moved_at;  /* a rank came, went on, said something or ended */
    int64_t output_at; /* they printed something last, as far as it is known; 0: not */
    int64_t look_at;   /* the steps are to be read then */
    /* the longest pauses that ranks came out of, in this term and in the one before it */
    int64_t longest[PAGE_PHASES][WATCHDOG_TERMS];
    int64_t term_at;
    uint32_t examine;        /* the newest examination that was asked for */
    int64_t examined_at;     /* it was asked for */
    uint32_t examined;       /* the newest that is over */
    uint32_t examined_steps; /* the newest that is over, but for the steps that are being read */
    int stopped_pid; /* a process that no debugger has stopped, as it was examined, 0: none */
    bool has_told_stopped;
    enum peer_motion told; /* in the last STATUS */
};

/* Where the node stands, for it. */
struct watchdog_node {
    bool is_running; /* it has commands that have not ended */
    bool is_quiet;   /* a notice is live, which has a deadline of its own */
    uint32_t round;  /* that is open, 0: none */
};

struct watchdog_view {
    enum peer_motion motion;
    const struct member *behind; /* with MOTION_STANDS */
    enum page_phase phase;       /* as it counts: who has not trained yet is starting */
    bool is_stopped;             /* by a signal, as the last examination has found */
    int count;                   /* so many stand there */
    int absent;                  /* so many have not attached in the time for that */
    int64_t since;               /* it stands there; or nothing was printed */
    int64_t still_since;         /* nobody of this node has done anything */
    int64_t limit;               /* the longest that one of those who stand may stand */
};

/* "train": for people, and for the report. */
const char *watchdog_phase_name(unsigned phase);

void watchdog_init(struct watchdog *dog, struct out *out);
/* The commands of a generation are being started. */
void watchdog_begin(struct watchdog *dog);
/* A process is there, or has said something: it moves. */
void watchdog_heard(struct watchdog *dog, struct member *m);
/* A command has ended. */
void watchdog_ended(struct watchdog *dog, struct ranks *ranks, int pid);
/* Takes in what was read; before ranks_read_steps(). */
void watchdog_read(struct watchdog *dog, struct ranks *ranks, const struct event *event,
                   const struct watchdog_node *node);
/* How do they stand now? */
/* Until then a rank may take to attach; CLOCK_NEVER: for ever. */
int64_t watchdog_start_until(const struct watchdog *dog);
struct watchdog_view watchdog_view(const struct watchdog *dog, const struct ranks *ranks,
                                   const struct watchdog_node *node);
/* The chief wants the processes examined. */
void watchdog_order(struct watchdog *dog, uint32_t examine);
/* They were. Who is stopped by somebody is not stuck: the time begins anew. */
void watchdog_examined(struct watchdog *dog, struct ranks *ranks, const struct event *event);
/* Nobody's standing still counts for so long. */
void watchdog_forgive(struct watchdog *dog, struct ranks *ranks, int64_t away);

/* Reads the steps where nobody else does it: on a single node. */
int64_t watchdog_wake_at(const struct watchdog *dog, const struct ranks *ranks,
                         const struct watchdog_node *node);
void watchdog_timers(struct watchdog *dog, const struct ranks *ranks,
                     const struct watchdog_node *node);

#endif
