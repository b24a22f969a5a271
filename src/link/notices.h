/* SPDX-License-Identifier: Apache-2.0
 *
 * notices: the programs that tell of the end: started, read, kept alive, and ended with us.
 *
 * A source prints a line for each notice (noticeline.h), or is run again and again and tells by its
 * exit status. It does us no harm, whatever it does: it runs in a process group of its own, with
 * three descriptors of ours, none of the job's; what it prints is bounded; one that has ended is
 * started again, later each time (backoff.h). Its notices stay as they are meanwhile: only what it
 * says changes them. All sources die with us. Nothing here blocks. Main thread.
 */
#ifndef PCHRUN_LINK_NOTICES_H
#define PCHRUN_LINK_NOTICES_H

#include "link/source.h"

#define NOTICES_SOURCES_MAX 16

struct notices;

struct notices_options {
    const struct source_options *sources; /* borrowed; must live as long, and so the rest */
    size_t count;
    const char *dir; /* where they run; NULL: where we are */
    char **env;
};

struct notices_calls {
    void (*notice)(void *ctx, const struct notice *notice);
    void (*changed)(void *ctx); /* what notices_state() tells */
    void (*idle)(void *ctx);    /* notices_is_busy() or notices_has_strays() has become false */
    void *ctx;
};

/* Starts nothing yet. NULL: memory is short. */
MUST_CHECK struct notices *notices_new(struct event_base *base, struct reap *reap,
                                       const struct notices_options *options,
                                       const struct notices_calls *calls, struct err *err);
void notices_start(struct notices *notices);
/* Asks all of them to end, kills after half a second those that have not, and gives up two seconds
 * later those that cannot be killed. */
void notices_end(struct notices *notices);
/* Is there one that was asked to end, and has not? */
bool notices_is_busy(const struct notices *notices);
/* Is there a killed process that a source has left behind? This is not bounded. */
bool notices_has_strays(const struct notices *notices);
/* Kills what is left; NULL is allowed. */
void notices_free(struct notices *notices);

/* Of the source number `i` of the options. */
void notices_state(const struct notices *notices, size_t i, struct source_state *ret);

#endif
