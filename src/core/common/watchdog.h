/* SPDX-License-Identifier: Apache-2.0
 *
 * watchdog: finds out whether the ranks of this node make progress. It sees the step and phase of
 * each rank whenever they are read, most often for a heartbeat. A rank may stand at one step and
 * phase only up to a limit. The limit grows with the pauses that ranks came out of before. One node
 * without progress is no proof of a hang, because ranks wait for each other. The chief finds the
 * hang of the whole job (chief_hang.c). Pure.
 */
#pragma once

#include "core/common/out.h"
#include "core/common/ranks.h"

enum { WATCHDOG_TERMS = 2 };

/* How long node 0's order of an examination, and the answers, may take. */
#define WATCHDOG_WORD_NS (5 * NS_PER_S)

struct watchdog {
    struct out *out;
    struct ranks *ranks;
    int64_t began_at;  /* when the commands were started */
    int64_t moved_at;  /* when a rank last attached, moved, sent a message or ended well */
    int64_t output_at; /* when the commands last printed something; 0: unknown */
    int64_t look_at;   /* when the steps are read next */
    int64_t looked_at; /* when they were asked for, or read, last */
    /* For each phase, the longest pause after which a rank moved again: in this term, and in the
     * term before. */
    int64_t longest[PAGE_PHASES][WATCHDOG_TERMS];
    int64_t term_at;
    uint32_t examine;        /* the newest examination that was asked for */
    int64_t examined_at;     /* when that examination was asked for */
    uint32_t examined;       /* the newest examination that is over */
    uint32_t examined_steps; /* the newest examination that is over but for its steps */
    int stopped_pid;         /* a process that a signal, not a debugger, has stopped, 0: none */
    bool has_told_stopped;
    enum peer_motion told; /* in the last STATUS */
};

/* The parts of the node's state that the watchdog needs. */
struct watchdog_node {
    bool is_running; /* it has commands that have not ended */
    bool is_quiet;   /* a notice is near, and has its own deadline */
    uint32_t round;  /* the open round, 0: none */
};

void watchdog_init(struct watchdog *dog, struct ranks *ranks, struct out *out);
/* The commands of a generation are being started. */
void watchdog_begin(struct watchdog *dog);
/* A process has attached or sent a message, so it moves. */
void watchdog_heard(struct watchdog *dog, struct member *m);
/* The rank's collectives give up after this time; 0: never. */
void watchdog_take_timeout(struct watchdog *dog, struct member *m, int64_t timeout_ns);
/* The rank has stood for so long that its collectives may have given up. */
bool watchdog_waited_out(const struct watchdog *dog, const struct member *m);
/* A command has ended. If it has failed, that is no move. */
void watchdog_ended(struct watchdog *dog, int pid, bool has_failed);
/* Takes the steps that were read. Must run before ranks_read_steps(). */
void watchdog_read(struct watchdog *dog, const struct event *event,
                   const struct watchdog_node *node);
/* Until when a rank may attach; CLOCK_NEVER: no limit. */
int64_t watchdog_start_until(const struct watchdog *dog);
/* The watchdog's part of a STATUS. */
struct peer_watch watchdog_view(const struct watchdog *dog, const struct watchdog_node *node);
/* The chief wants the processes examined. */
void watchdog_order(struct watchdog *dog, uint32_t examine);
/* The examination is over. A process that a debugger holds is not stuck: all limits begin anew. */
void watchdog_examined(struct watchdog *dog, const struct event *event);
/* This machine stood still for `away`: that time counts against no rank. */
void watchdog_forgive(struct watchdog *dog, int64_t away);

/* When a single node reads the steps, which has no heartbeats. */
int64_t watchdog_wake_at(const struct watchdog *dog, const struct watchdog_node *node);
void watchdog_look(struct watchdog *dog);
