/* SPDX-License-Identifier: Apache-2.0
 *
 * walk: leads the core step by step: events in, and the actions that follow as text. For the tests
 * of one node (test_core_walk) and of two (test_core_nodes). The nodes, the time and the steps that
 * their processes show are global: each test runs in a process of its own.
 */
#pragma once

#include "base/clock.h"
#include "core/core.h"
#include "unit.h"

#include <signal.h>

#define MS NS_PER_MS
#define S  NS_PER_S

enum { WALK_NODES = 2 };

struct walk {
    struct core *core;
    char acts[2048]; /* actions since the last check */
    char log[4096];
    char marks[512];      /* of node 0, as "starting 0; training 0" */
    int quietest;         /* the most important level of a log line */
    struct action commit; /* the last ACT_COMMIT */
    uint64_t gate;        /* the word of the last ACT_GATE */
    int states;           /* how often core_report() may have changed */
    bool may_break;       /* a broken promise does not end the test */
};

extern struct walk walks[WALK_NODES];
extern int64_t now;
extern uint64_t steps[CORE_SLOTS_MAX]; /* by slot; the same on both nodes */
extern struct page_own own[CORE_SLOTS_MAX];

struct core_params params_of(int node, int nnodes, int children);
/* Begins a node anew: a core that it had is freed. */
struct walk *walk_begin(const struct core_params *params);
/* Frees every core. It is the .fini of each suite of walks. */
void walks_end(void);
/* One node, whose commands have started. */
struct walk *begin_started(const struct core_params *params);
struct walk *begin_alone(int children);
/* As begin_started(), and every command has attached as a rank. */
struct walk *begin_ranks(const struct core_params *params);
struct walk *begin_attached(int ranks);
/* Two nodes with a rank each that have not met; and their meeting. */
void begin_apart(bool trains_on);
void meet(void);
/* Two nodes that have not met meet, start, and a rank attaches on each. */
void meet_and_start(void);
/* The same nodes when their ranks have attached, and the chief knows of it. */
void begin_two(void);
/* The nodes agree on a save step: each reads its steps for every ballot. */
void agree(void);
/* As begin_two(), up to a round that is decided for a SIGTERM on node 0: every rank saves step 9.
 */
void begin_two_saving(void);
/* As begin_two(), in a job that is restarted in place. */
void begin_two_with(const struct restart_policy *restart);
/* A message of the other node. */
void hears(struct walk *w, const struct peermsg *msg);
/* Delivers all that is in flight between the two, and what follows from it. */
void deliver(void);
/* Drops all messages that are in flight. */
void lose_letters(void);

struct core_report report_of(const struct walk *w);
/* assert_acts() checks all actions since its last call, assert_did() that the text is in them.
 * assert_said() checks that the text is in the log. */
void assert_acts(struct walk *w, const char *expected);
void assert_did(const struct walk *w, const char *text);
void assert_did_not(const struct walk *w, const char *text);
/* Checks that both nodes did this. */
void assert_both_did(const char *text);
void assert_said(const struct walk *w, const char *text);
void assert_not_said(const struct walk *w, const char *text);

void feed(struct walk *w, struct event event);
void started(struct walk *w, int index);
void exited(struct walk *w, int index, int status);
/* The command has died, and its end comes later. */
void dying(struct walk *w, int index, int status);
void tree_empty(struct walk *w);
/* The node's only command ends, and leaves no process; with exits(), that is seen after the end. */
void ends(struct walk *w, int status);
void exits(struct walk *w, int status);
void signalled(struct walk *w, int number);
/* A SIGTERM, for which the node reads its steps. */
void terminated(struct walk *w);
/* A source's notice that ends the job. */
void noticed(struct walk *w, const char *source, int64_t left);
/* A message of a process; an attaching process states its rank, if it has one. */
void says(struct walk *w, int slot, struct procmsg msg);
void attaches(struct walk *w, int slot, int rank, int world_size);
/* The only rank of the job attaches, with these flags and steps. */
void attaches_alone(struct walk *w, struct procmsg msg);
void closes(struct walk *w, int slot);
void gone(struct walk *w, int slot);
/* The process has made a save of its own, or that of the round `tag`. */
void saves(struct walk *w, int slot, uint64_t step, uint32_t tag);
/* As saves(), and the process waits for the commit. */
void saves_and_waits(struct walk *w, int slot, uint64_t step, uint32_t tag);
/* The process begins the save of the round. */
void serves(struct walk *w, int slot, uint64_t step, uint32_t tag);
void steps_are_read(struct walk *w);
void written(struct walk *w, enum event_type type);
/* A save is recorded, and committed. */
void committed(struct walk *w);
/* The node's connection to node 0, or that of node 0 to node 1, is closed; the other may have
 * ended. */
void line_closes(struct walk *w, bool has_ended);
/* Node 1 has a connection to node 0. */
void line_opens(void);
/* This much time passes. */
void passes(struct walk *w, int64_t time);
/* Time passes until the core wants to be woken. */
void wake(struct walk *w);
/* As wake(), and if the core reads the steps, rank 0 is at `step`. */
void wake_and_read(struct walk *w, uint64_t step);
