/* SPDX-License-Identifier: Apache-2.0
 *
 * grace: the notices given to one node, and the time they leave. Pure.
 *
 * A notice holds to the end. The earliest deadline wins; a later notice
 * with an earlier deadline moves it forward. A repeated signal within a second is the same one
 * (schedulers send twice); later repeats hurry: the second saves without training further, the
 * third stops.
 */
#ifndef PCHRUN_CORE_GRACE_H
#define PCHRUN_CORE_GRACE_H

#include <stdbool.h>
#include <stdint.h>

#define GRACE_SAME_NS INT64_C(1000000000) /* a repeat within it is the same signal */

#define GRACE_MAX_NS (INT64_C(366) * 24 * 3600 * 1000000000)

enum grace_hurry { HURRY_NONE, HURRY_SAVE, HURRY_STOP };

struct grace {
    bool is_live;
    int64_t at, deadline; /* CLOCK_MONOTONIC */
    int signal;           /* that gave the notice */
    int64_t last_at;      /* the newest signal that counted */
    enum grace_hurry hurry;
    char source[32], text[96];
};

enum grace_change { GRACE_SAME, GRACE_NEW, GRACE_SOONER, GRACE_HURRIED };

/* A preempting signal has come; grace_ns from now on. */
enum grace_change grace_signal(struct grace *grace, int signal, int64_t now, int64_t grace_ns);
/* A process was sent SIGTERM by somebody: a notice if none is live, and nothing else. */
enum grace_change grace_shield(struct grace *grace, int signal, int64_t now, int64_t grace_ns);
/* A duration that a peer told, held to a year, so that nothing computed from it overflows. */
int64_t grace_clamp(int64_t left_ns);
/* How much of a grace period is kept back for ending what does not end by itself. */
int64_t grace_margin(int64_t left_ns);

#endif
