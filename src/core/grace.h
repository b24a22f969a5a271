/* SPDX-License-Identifier: Apache-2.0
 *
 * grace: the notices given to one node, and the time that they leave. Pure.
 *
 * Signals and notice sources give notices; each is known by its source and its id, and holds until
 * its source withdraws it. The one with the earliest deadline is what the node acts upon: another
 * with an earlier deadline moves it forward, one that is withdrawn moves it back or calls it off.
 * Said again, one can leave less time than before, not more. A signal is never withdrawn. A
 * repeated signal within a second is the same one (schedulers send twice); later repeats hurry: the
 * second saves without training further, the third stops.
 *
 * So many notices are kept; where there is no place, those give way that matter least.
 */
#ifndef PCHRUN_CORE_GRACE_H
#define PCHRUN_CORE_GRACE_H

#include "wire/notice.h"

#include <stdbool.h>
#include <stdint.h>

#define GRACE_SAME_NS INT64_C(1000000000) /* a repeat within it is the same signal */

#define GRACE_MAX_NS (INT64_C(366) * 24 * 3600 * 1000000000)

#define GRACE_NOTICES_MAX 16

enum grace_hurry { HURRY_NONE, HURRY_SAVE, HURRY_STOP };

struct grace_notice {
    enum notice_type type; /* all but NOTICE_CANCEL */
    char source[32], id[64], text[96];
    int signal;       /* that gave it; 0: a source did */
    int64_t last_at;  /* the newest of the signals that counted */
    int64_t at;       /* when it came first; CLOCK_MONOTONIC, as all times here */
    int64_t deadline; /* CLOCK_NEVER: it ends nothing */
    bool is_served;   /* its deadline has passed, and nothing was taken away: it counts no more */
    bool is_repeated; /* it ends nothing, and is saved for before its deadline */
    bool is_saved;    /* that save was asked for */
    int64_t lead;     /* so long before the deadline a program that does not attach is told */
};

struct grace {
    struct grace_notice notices[GRACE_NOTICES_MAX];
    int n;
    uint32_t version; /* rises with every change of what follows */
    bool is_live;     /* one of them ends the run; then the earliest such is `first` */
    int first;
    int64_t at; /* since when it has been so */
    enum grace_hurry hurry;
};

enum grace_change {
    GRACE_SAME,
    GRACE_NEW,
    GRACE_SOONER,
    GRACE_LATER, /* withdrawn or put off, and another holds or the same does */
    GRACE_OVER,  /* withdrawn, and none is left */
    GRACE_HURRIED,
    GRACE_ADVICE, /* a new notice that ends nothing: the last of `notices` */
    GRACE_PLAN,   /* the same, and grace_save_at() tells when it is saved for */
};

/* A preempting signal has come; grace_ns from now on. */
enum grace_change grace_signal(struct grace *grace, int signal, int64_t now, int64_t grace_ns);
/* A process was sent SIGTERM by somebody: a notice if none is live, and nothing else. */
enum grace_change grace_shield(struct grace *grace, int signal, int64_t now, int64_t grace_ns);
/* A source has said something. grace_ns: what is left where it does not say, or says nonsense. */
enum grace_change grace_notice(struct grace *grace, const struct notice *notice, int64_t now,
                               int64_t grace_ns);
/* The job goes on after a notice: those whose deadline has passed end nothing any more. Signals are
 * forgotten; what a source says again is still known. */
void grace_serve(struct grace *grace, int64_t now);
/* Is one of them a signal, which a process may have caught, too? */
bool grace_has_signal(const struct grace *grace);
/* When the next save for a repeated notice is to be asked for, if a save takes `save_ns`, 0: not
 * known; CLOCK_NEVER: there is none. */
int64_t grace_save_at(const struct grace *grace, int64_t save_ns);
/* That save was asked for. */
void grace_saved(struct grace *grace, int64_t save_ns, int64_t now);
/* The one that the node acts upon; only while is_live. */
const struct grace_notice *grace_first(const struct grace *grace);
/* CLOCK_NEVER: none is live. */
int64_t grace_deadline(const struct grace *grace);
/* A duration that a peer told, held to a year, so that nothing computed from it overflows. */
int64_t grace_clamp(int64_t left_ns);
/* A job that has not started yet starts before this time, or not at all: a start needs more time
 * than `grace_ns`. All that a signal leaves is its `lead`, so before the start a signal ends the
 * job. */
int64_t grace_start_until(int64_t deadline, int64_t lead, int64_t grace_ns);
/* How much of a grace period is kept back for stopping processes that do not end by themselves. */
int64_t grace_margin(int64_t left_ns);
/* The same while a save is under way that would be lost: only SIGKILL is left then. */
int64_t grace_least_margin(int64_t left_ns);
/* How long before the deadline the last save is planned to be on disk. */
int64_t grace_reserve(int64_t left_ns);
/* How long the next save may take, when slow ones took `slow_ns` and quick ones `quick_ns`. */
int64_t grace_save_need(int64_t slow_ns, int64_t quick_ns);

#endif
