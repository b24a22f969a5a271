/* SPDX-License-Identifier: Apache-2.0
 *
 * grace: the notices of one node, and the time that they leave. Pure.
 *
 * Signals and notice sources give notices. Each is known by its source and its id, and holds until
 * its source withdraws it. The node acts upon the notice with the earliest deadline. A new notice
 * can make that deadline earlier. A withdrawal makes it later, or ends it. A repeated notice can
 * leave less time than before, not more. A signal is never withdrawn.
 *
 * A signal that comes again within a second is the same signal, because schedulers send it twice.
 * The second signal saves without more training; the third stops the job.
 *
 * The list has GRACE_NOTICES_MAX places. When it is full, the notice that matters least is dropped.
 */
#pragma once

#include "wire/notice.h"

#include <stdbool.h>
#include <stdint.h>

#define GRACE_SAME_NS INT64_C(1000000000) /* a repeat within it is the same signal */

#define GRACE_MAX_NS (INT64_C(366) * 24 * 3600 * 1000000000)

#define GRACE_NOTICES_MAX 16

enum grace_hurry { HURRY_NONE, HURRY_SAVE, HURRY_STOP };

struct grace_notice {
    enum notice_type type; /* all but NOTICE_CANCEL */
    struct notice_label label;
    int signal;       /* the signal that gave it; 0: a notice source gave it */
    int64_t last_at;  /* when its newest repeat came, without repeats within a second; only for
                       * signals */
    int64_t at;       /* when it came first; CLOCK_MONOTONIC, as all times here */
    int64_t deadline; /* CLOCK_NEVER: the notice ends nothing */
    bool is_guess;    /* nothing has named the deadline: it is assumed */
    bool is_served;   /* its deadline has passed, and the job goes on: it no longer counts */
    bool is_repeated; /* it ends nothing, but asks for a save before its deadline */
    bool is_saved;    /* the save was asked for */
    int64_t lead;     /* how long before the deadline a program that does not attach is asked */
};

struct grace {
    struct grace_notice notices[GRACE_NOTICES_MAX];
    int n;
    uint32_t version; /* rises with every change of the fields below */
    bool is_live;     /* a notice ends the run; `first` is the earliest such notice */
    int first;
    int64_t deadline;
    int64_t at; /* since when a notice is live */
    enum grace_hurry hurry;
};

enum grace_change {
    GRACE_SAME,
    GRACE_NEW,
    GRACE_SOONER,
    GRACE_LATER, /* the earliest notice was withdrawn or put off, and a later deadline holds */
    GRACE_OVER,  /* withdrawn, and no notice is left */
    GRACE_HURRIED,
    GRACE_ADVICE, /* a new notice that ends nothing: the last of `notices` */
    GRACE_PLAN,   /* a new repeated notice: grace_save_at() tells when its save is due */
};

/* How much time a notice leaves that does not say so itself. */
struct grace_left {
    int64_t ns;
    bool is_guess;
};

/* A preempting signal has come. */
enum grace_change grace_signal(struct grace *grace, int signal, int64_t now,
                               struct grace_left left);
/* A training process got a preempting signal. It is a notice only if no notice is live. */
enum grace_change grace_shield(struct grace *grace, int signal, int64_t now,
                               struct grace_left left);
/* A source gives a notice. `left` counts if the notice has no deadline, or a past one. */
enum grace_change grace_notice(struct grace *grace, const struct notice *notice, int64_t now,
                               struct grace_left left);
/* The job goes on after a notice: notices whose deadline has passed end nothing any more. Signals
 * are forgotten. A notice of a source stays known, so that its repeat is not new. */
void grace_serve(struct grace *grace, int64_t now);
/* One of the notices is a signal. A process may have caught the signal, too. */
bool grace_has_signal(const struct grace *grace);
/* When to ask for the next save for a repeated notice, if a save takes `save_ns`, 0: unknown;
 * CLOCK_NEVER: no such save. */
int64_t grace_save_at(const struct grace *grace, int64_t save_ns);
/* The save for a repeated notice was asked for. */
void grace_saved(struct grace *grace, int64_t save_ns, int64_t now);
/* The notice that the node acts upon; only while is_live. */
const struct grace_notice *grace_first(const struct grace *grace);
/* CLOCK_NEVER: none is live. */
int64_t grace_deadline(const struct grace *grace);
/* A duration that a peer has sent, limited to a year, so that no sum with it overflows. */
int64_t grace_clamp(int64_t left_ns);
/* When a notice is near: from then on the job prepares for its end. Before that the notice is
 * far: the job starts, restarts in place and is watched as usual. A signal leaves exactly its
 * `lead`, so a signal is near at once. */
int64_t grace_near_at(int64_t deadline, int64_t lead, int64_t grace_ns);
/* How much time a source's notice must leave for a job that has not begun, or it is near: three
 * times a start-up and a save, if both times are known; at most `grace_ns`. 0: not known. */
int64_t grace_plan_need(int64_t grace_ns, int64_t start_ns, int64_t save_ns);
/* How much of a grace period is kept for stopping processes that do not end by themselves. */
int64_t grace_margin(int64_t left_ns);
/* Like grace_margin(), but while a save is open: it keeps time only for SIGKILL, so that the save
 * can end. */
int64_t grace_least_margin(int64_t left_ns);
/* How long before the deadline the last save is planned to be on disk, without the time that the
 * processes take to end. */
int64_t grace_reserve(int64_t left_ns);
/* How much time processes must have that end by themselves in `end_ns`: SIGKILL comes when an
 * eighth of it is left. */
int64_t grace_end_need(int64_t end_ns);
/* How long the next save may take, if slow saves took `slow_ns` and quick ones `quick_ns`. */
int64_t grace_save_need(int64_t slow_ns, int64_t quick_ns);
