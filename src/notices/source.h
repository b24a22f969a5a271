/* SPDX-License-Identifier: Apache-2.0
 *
 * source: a program that announces the end of this machine: its process, its output and its
 * restarts.
 *
 * A source prints a line for each notice (noticeline.h), or it is a poll: pchrun runs it at
 * intervals, and its exit status is the answer. A source cannot harm the job. It runs in a process
 * group of its own, with three descriptors of ours and none of the job's. Its output is bounded. An
 * ended source is started again: after a second, then after twice as long each time, at most a
 * minute. Until it runs again its notices stay valid: only lines of this source change them.
 * Nothing here blocks. Owns its descriptors, its clock and its memory: source_free(). Main thread.
 */
#pragma once

#include "base/log.h"
#include "notices/feed.h"
#include "os/reap.h"
#include "os/spawn.h"
#include "wire/notice.h"

struct loop;

/* Shared by all sources. */
struct source_world {
    struct loop *loop;
    struct reap *reap;
    char *dir;     /* working directory; NULL: ours */
    char **env;    /* with the variable `mark` */
    char mark[64]; /* variable and value by which reap_strays() finds them */
    void (*notice)(void *ctx, const struct notice *notice);
    void *ctx;
};

enum source_phase {
    SOURCE_OFF,
    SOURCE_RUNNING,
    SOURCE_DOWN,
    SOURCE_ENDING, /* source_end() was called, and the process is still there */
};

/* As many notices as a node keeps. */
#define SOURCE_ENDS_MAX 16

/* Set the first fields before source_open(). */
struct source {
    const char *name;    /* borrowed; fits into struct notice */
    char **argv;         /* from program_args(), owned */
    int64_t interval_ns; /* between two runs of a poll; 0: it runs all the time */
    int64_t timeout_ns;  /* of one run of a poll */
    bool has_input;      /* its standard input is a pipe, for source_give(); else it is empty */
    /* private from here on, but for phase, restarts, last_line_at and last_error */
    const struct source_world *world; /* NULL: not open */
    enum source_phase phase;
    struct reap_watch watch; /* pid 0: no process */
    int report;              /* descriptor with the result of the start (spawn.h) */
    int input;               /* with has_input; -1: the program does not run */
    struct feed out, err;
    struct watch clock; /* the next start, a poll's timeout, or the next step of ending */
    int64_t wait_ns;    /* before the last restart; 0: none yet */
    unsigned restarts;
    int64_t started_at, last_line_at, flooded_at; /* CLOCK_MONOTONIC; 0: never */
    bool is_late, is_killed;
    bool has_said; /* a poll: this run has printed `said` at said_at */
    struct notice said;
    int64_t said_at;
    bool is_failing;                          /* a poll: its last run gave no answer */
    bool gave_notice;                         /* a poll: its last answer was a notice */
    int64_t failed_at, tell_at, tell_wait_ns; /* a poll's failures in the log: see may_tell() */
    unsigned told;
    struct log_limit bad_lines, own_words, logs;
    /* Hashes of the ids of its notices to terminate, the newest at (nends - 1) % SOURCE_ENDS_MAX;
     * 0: a log line has withdrawn it. */
    uint64_t ends[SOURCE_ENDS_MAX];
    unsigned nends;
    char last_error[160]; /* "": none */
};

/* The arguments of pchrun-watch with this word and path (NULL: none), which must outlive them.
 * NULL: it is not installed. */
MUST_CHECK char **source_watcher_args(const char *word, const char *path, struct err *err);
/* Makes the environment with a mark of its own, which is unique, even below another pchrun. Set the
 * other fields before or after it. Free it with source_world_free(). */
MUST_CHECK bool source_world_init(struct source_world *world, struct err *err);
void source_world_free(struct source_world *world);
void source_open(struct source *source, const struct source_world *world);
/* Kills the program if it still runs. */
void source_free(struct source *source);
void source_start(struct source *source);
/* Writes to its standard input; a text of at most PIPE_BUF bytes is never cut. The text is dropped
 * if the program does not run, or does not read. Never blocks. */
void source_give(const struct source *source, const char *text, size_t len);
/* Ends the source for good: SIGTERM now, SIGKILL after half a second. After two more seconds pchrun
 * no longer waits for it. */
void source_end(struct source *source);
/* How long to wait before a source that has ended after ran_ns (0: it could not be started) is
 * started again. before_ns: the wait before this run; 0: none. A run of a minute or more resets the
 * wait. Pure. */
int64_t source_next_wait(int64_t before_ns, int64_t ran_ns);
/* "off", "running", "paused" (it prints too much), "restarting", "failing" */
const char *source_state(const struct source *source);
