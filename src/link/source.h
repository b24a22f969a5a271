/* SPDX-License-Identifier: Apache-2.0
 *
 * source: one notice source: its process, what it prints, and when it is started again. What it may
 * do to us is told in notices.h. Owns its descriptors, its clock and its memory: source_free().
 * Main thread.
 */
#ifndef PCHRUN_LINK_SOURCE_H
#define PCHRUN_LINK_SOURCE_H

#include "base/log.h"
#include "link/backoff.h"
#include "link/feed.h"
#include "os/helper.h"
#include "os/spawn.h"
#include "wire/notice.h"

/* Borrowed; must live as long. */
struct source_options {
    const char *name;    /* fits into struct notice */
    char **argv;         /* [0] is an absolute path */
    int64_t interval_ns; /* how often it is run; 0: it runs all the time, and prints lines */
    int64_t timeout_ns;  /* then how long it may take */
};

/* What all of them share. */
struct source_world {
    struct event_base *base;
    struct reap *reap;
    const char *dir;        /* where they run; NULL: where we are */
    char **env;             /* with the mark */
    const char *mark;       /* by which their orphans are known (stray.h) */
    struct helpers *strays; /* those that are being ended */
    int null;               /* /dev/null */
    void (*notice)(void *ctx, const struct notice *notice);
    void (*changed)(void *ctx); /* what source_state() tells */
    void (*ended)(void *ctx);   /* answers source_end() */
    void *ctx;
};

enum source_phase { SOURCE_OFF, SOURCE_RUNNING, SOURCE_DOWN, SOURCE_ENDING, SOURCE_GIVEN_UP };

struct source {
    const struct source_options *options;
    const struct source_world *world;
    struct spawn_command command;
    enum source_phase phase;
    struct reap_watch watch; /* pid 0: no process */
    int report;              /* of its start */
    struct feed out, err;
    struct event *clock; /* the next start; of a poll, when it is late; at the end, the next step */
    struct backoff backoff;
    unsigned restarts;
    int64_t started_at, last_line_at, flooded_at; /* 0: never */
    bool is_late, is_killed;
    bool has_said; /* a poll: what this run has printed, and when */
    struct notice said;
    int64_t said_at;
    bool is_failing;  /* a poll: its last run told nothing */
    bool gave_notice; /* a poll: this one, and has not taken it back */
    struct notice given;
    int64_t given_deadline; /* CLOCK_NEVER: it did not say */
    struct log_limit bad_lines, own_words, logs, failures;
    char last_error[160];
};

/* False: *source needs no source_free(). */
MUST_CHECK bool source_init(struct source *source, const struct source_options *options,
                            const struct source_world *world, struct err *err);
void source_free(struct source *source);
void source_start(struct source *source);
/* It is not started again; world->ended() when its process is gone, or given up. */
void source_end(struct source *source);
/* Has it been told to end, and has not? */
bool source_is_ending(const struct source *source);

struct source_state {
    const char *name;
    const char *state; /* "off", "running", "paused" (it floods), "restarting", "failing" */
    unsigned restarts;
    int64_t last_line_at;   /* CLOCK_MONOTONIC, 0: it has said nothing */
    const char *last_error; /* "": none */
};
void source_state(const struct source *source, struct source_state *ret);

#endif
