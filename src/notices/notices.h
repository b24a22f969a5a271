/* SPDX-License-Identifier: Apache-2.0
 *
 * notices: the programs that announce the end of this machine: started, read, restarted, and ended
 * with pchrun.
 *
 * A source prints a line for each notice (noticeline.h), or it is a poll: run at intervals, it
 * answers by its exit status. A source cannot harm the job. It runs in a process group of its own,
 * with three descriptors of ours and none of the job's. Its output is bounded. An ended source is
 * restarted, later each time (backoff.h). Its notices stay valid meanwhile: only its own lines
 * change them. All sources end with pchrun. Nothing here blocks. Main thread.
 */
#ifndef PCHRUN_NOTICES_NOTICES_H
#define PCHRUN_NOTICES_NOTICES_H

#include "notices/source.h"

#define NOTICES_SOURCES_MAX 16

struct notices;

struct notices_options {
    const struct source_options *sources; /* borrowed, like the other pointers here */
    size_t count;
    const char *dir; /* their working directory; NULL: ours */
    char **env;
};

struct notices_calls {
    void (*notice)(void *ctx, const struct notice *notice);
    void (*changed)(void *ctx); /* notices_state() has changed */
    void *ctx;
};

/* Starts nothing yet. NULL: memory is short. */
MUST_CHECK struct notices *notices_new(struct event_base *base, struct reap *reap,
                                       const struct notices_options *options,
                                       const struct notices_calls *calls, struct err *err);
void notices_start(struct notices *notices);
/* Ends all sources: SIGTERM now, SIGKILL after half a second. Two seconds later it gives up on
 * sources that still live. */
void notices_end(struct notices *notices);
/* Is a source still ending? */
bool notices_is_busy(const struct notices *notices);
/* Kills the sources that still run. `notices` may be NULL. */
void notices_free(struct notices *notices);

/* State of source `i` of the options. */
void notices_state(const struct notices *notices, size_t i, struct source_state *ret);

#endif
