/* SPDX-License-Identifier: Apache-2.0
 *
 * noticein: starts the notice sources of the configuration and hands their notices to the core:
 * EV_NOTICE. Remembers which notices have ended an attempt (handled.h). Without sources it does
 * nothing. Owns its memory: noticein_free(). Main thread.
 */
#ifndef PCHRUN_NOTICES_NOTICEIN_H
#define PCHRUN_NOTICES_NOTICEIN_H

#include "config/config.h"
#include "loop/loop.h"
#include "loop/outfile.h"
#include "notices/handled.h"
#include "notices/notices.h"

struct noticein {
    struct loop *loop;
    struct reap *reap;
    /* private from here on */
    struct source_options *sources; /* for notices.h; it owns their texts */
    size_t count;
    char *dir; /* the directory in which pchrun was started; NULL: unknown */
    struct notices *notices;
    struct watch start;
    struct handled handled;
    struct outfile memory; /* the file of `handled`; not wanted: nothing is remembered */
};

/* Call before anything is started: finds the programs and reads the remembered notices. Set the
 * public fields first, unless `state_dir` is NULL: then none are remembered. False: a program is
 * missing or cannot be executed. */
MUST_CHECK bool noticein_init(struct noticein *noticein, const struct config *config,
                              const char *state_dir, struct err *err);
/* Call after the training commands were started, or were refused. The sources start a little later.
 */
MUST_CHECK bool noticein_open(struct noticein *noticein, struct config *config,
                              const char *state_dir, struct err *err);
void noticein_free(struct noticein *noticein);

/* The run is over: ends the sources. `by`: source and id of the notice that ended the run; NULL:
 * none. */
void noticein_end(struct noticein *noticein, const struct notice *by);
/* Is noticein_end() still at work? Bounded. */
bool noticein_is_busy(const struct noticein *noticein);

/* Does pchrun-watch serve this source, so that the doctor can test it? Any thread. */
bool noticein_is_watched(enum config_notice_kind kind);

/* The state of source `i`, below `count`. */
void noticein_state(const struct noticein *noticein, size_t i, struct source_state *ret);

#endif
