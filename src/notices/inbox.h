/* SPDX-License-Identifier: Apache-2.0
 *
 * inbox: starts the notice sources of the configuration and hands their notices to the core:
 * EV_NOTICE. All sources end with pchrun. Remembers which notices have ended an attempt
 * (pastnotices.h). Without sources it does nothing. Owns its memory: inbox_free(). Main thread.
 */
#pragma once

#include "config/config.h"
#include "loop/loop.h"
#include "loop/outfile.h"
#include "notices/pastnotices.h"
#include "notices/source.h"

struct inbox {
    struct loop *loop;
    struct reap *reap;
    bool forgets;           /* this is a spare, which keeps no file: no notices are remembered */
    struct source *sources; /* the report reads them */
    size_t count;
    /* private from here on */
    struct source_world world;
    struct watch start;
    struct pastnotices pastnotices;
    struct outfile memory; /* the file of pastnotices; not wanted: nothing is remembered */
};

/* Call before anything is started: finds the programs and reads the remembered notices. Set the
 * public fields first; without a `state_dir` this may come later, and no notices are remembered.
 * False: a program is missing or cannot be executed. */
MUST_CHECK bool inbox_init(struct inbox *inbox, const struct config *config, const char *state_dir,
                           struct err *err);
/* Call after the training commands have started or have failed to start. The sources start soon
 * after. */
MUST_CHECK bool inbox_open(struct inbox *inbox, struct config *config, const char *state_dir,
                           struct err *err);
void inbox_free(struct inbox *inbox);

/* The run is over: ends the sources. `by`: source and id of the notice that ended the run; NULL:
 * none. */
void inbox_end(struct inbox *inbox, const struct notice *by);
/* True while inbox_end() is still at work; this time is bounded. */
bool inbox_is_busy(const struct inbox *inbox);
