/* SPDX-License-Identifier: Apache-2.0
 *
 * source: one notice source: its process, its output and its restarts. See notices.h. Owns its
 * descriptors, its clock and its memory: source_free(). Main thread.
 */
#ifndef PCHRUN_NOTICES_SOURCE_H
#define PCHRUN_NOTICES_SOURCE_H

#include "base/log.h"
#include "loop/watch.h"
#include "notices/backoff.h"
#include "notices/feed.h"
#include "os/reap.h"
#include "os/spawn.h"
#include "wire/notice.h"

/* Borrowed. */
struct source_options {
    const char *name;    /* fits into struct notice */
    char **argv;         /* [0] is an absolute path */
    int64_t interval_ns; /* between two runs of a poll; 0: it runs all the time */
    int64_t timeout_ns;  /* of one run of a poll */
};

/* Shared by all sources. */
struct source_world {
    struct event_base *base;
    struct reap *reap;
    const char *dir;  /* working directory; NULL: ours */
    char **env;       /* with the mark */
    const char *mark; /* marks their orphans (reap_strays) */
    int null;         /* /dev/null */
    void (*notice)(void *ctx, const struct notice *notice);
    void (*changed)(void *ctx); /* source_state() has changed */
    void *ctx;
};

enum source_phase { SOURCE_OFF, SOURCE_RUNNING, SOURCE_DOWN, SOURCE_ENDING, SOURCE_GIVEN_UP };

struct source {
    const struct source_options *options;
    const struct source_world *world;
    enum source_phase phase;
    struct reap_watch watch; /* pid 0: no process */
    int report;              /* result of the start (spawn.h) */
    struct feed out, err;
    struct watch clock; /* the next start, a poll's timeout, or the next step of ending */
    struct backoff backoff;
    unsigned restarts;
    int64_t started_at, last_line_at, flooded_at; /* 0: never */
    bool is_late, is_killed;
    bool has_said; /* a poll: this run has printed `said` at said_at */
    struct notice said;
    int64_t said_at;
    bool is_failing;  /* a poll: its last run gave no answer */
    bool gave_notice; /* a poll: `given` stands */
    struct notice given;
    int64_t given_deadline; /* CLOCK_NEVER: unknown */
    struct log_limit bad_lines, own_words, logs, failures;
    char last_error[160];
};

/* False: *source needs no source_free(). */
MUST_CHECK bool source_init(struct source *source, const struct source_options *options,
                            const struct source_world *world, struct err *err);
void source_free(struct source *source);
void source_start(struct source *source);
/* Ends the source for good. */
void source_end(struct source *source);
/* Is the process of an ended source still there, and not given up? */
bool source_is_ending(const struct source *source);

struct source_state {
    const char *name;
    const char
        *state; /* "off", "running", "paused" (it prints too much), "restarting", "failing" */
    unsigned restarts;
    int64_t last_line_at;   /* CLOCK_MONOTONIC, 0: no line yet */
    const char *last_error; /* "": none */
};
void source_state(const struct source *source, struct source_state *ret);

#endif
