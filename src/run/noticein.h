/* SPDX-License-Identifier: Apache-2.0
 *
 * noticein: the notice sources that the configuration names, and what they say, on its way to the
 * core: EV_NOTICE. Remembers which notices have ended an attempt (handled.h). Without sources it
 * starts nothing and has nothing. Owns its memory: noticein_free(). Main thread.
 */
#ifndef PCHRUN_RUN_NOTICEIN_H
#define PCHRUN_RUN_NOTICEIN_H

#include "config/config.h"
#include "link/notices.h"
#include "run/handled.h"
#include "run/loop.h"
#include "run/outfile.h"

struct noticein {
    struct source_options *sources; /* as link/notices takes them; their texts are our own */
    size_t count;
    char *dir; /* where we were started; NULL: not known */
    struct notices *notices;
    struct loop *loop;
    struct reap *reap;
    struct watch start;
    struct handled handled;
    struct outfile memory;        /* of `handled`; not wanted: nothing is remembered */
    void (*on_change)(void *ctx); /* what noticein_state() tells */
    void (*on_idle)(void *ctx);   /* noticein_is_busy() or _has_strays() has become false */
    void *ctx;
};

/* Before anything is started: finds the programs, and reads what is remembered. `state_dir` NULL:
 * nothing is. False: a program is missing, or cannot be executed. */
MUST_CHECK bool noticein_init(struct noticein *noticein, const struct config *config,
                              const char *state_dir, struct reap *reap, struct err *err);
/* After the training commands were started, if they were. The sources follow a little later. */
MUST_CHECK bool noticein_open(struct noticein *noticein, struct config *config,
                              const char *state_dir, struct loop *loop, struct err *err);
void noticein_free(struct noticein *noticein);

/* The run is over, and so are the sources. `by`: of the notice that has ended it, source and id;
 * NULL: none.
 */
void noticein_end(struct noticein *noticein, const struct notice *by);
/* Has it been told to end, and is not done yet? Bounded. */
bool noticein_is_busy(const struct noticein *noticein);

/* Is there a killed process that a source has left behind? This is not bounded. */
bool noticein_has_strays(const struct noticein *noticein);

/* Is it a source of pchrun-watch, so that it can be asked whether it answers? Any thread. */
bool noticein_is_watched(enum config_notice_kind kind);

/* Of source number `i`, below `count`. */
void noticein_state(const struct noticein *noticein, size_t i, struct source_state *ret);

#endif
