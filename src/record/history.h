/* SPDX-License-Identifier: Apache-2.0
 *
 * history: reads and writes the record's files (see record.h), and checks which attempt owns them.
 *
 * An attempt that has begun owns the record. A scheduler may start it while the previous one still
 * runs, and not every file system has locks. So the child that replaces a file first checks whether
 * a later attempt has written it. Reading may block; at the start dirlock has checked the directory
 * before. A struct history owns nothing. Main thread.
 */
#pragma once

#include "os/statefile.h"
#include "record/saves.h"
#include "record/strikes.h"

#include <limits.h>

#define HISTORY_FILE        "commit.json" /* in the state directory */
#define HISTORY_SCHEMA      1
#define HISTORY_MAX         STATEFILE_MAX
#define HISTORY_COMMITS_MAX 64 /* the most that checkpoint.keep_records can ask for */

struct history_commit {
    uint64_t step;
    int64_t at; /* real time, ns */
    int64_t attempt;
    uint32_t whole; /* 1 + the rank whose save is the whole checkpoint; 0: each rank has a part */
};

enum { HISTORY_ID_SIZE = 20 };

/* The pchrun that writes a file. */
struct history_owner {
    char host[64];
    int64_t pid;
    char id[HISTORY_ID_SIZE]; /* random */
};

/* The state of this attempt. It counts as an attempt without a commit until it commits. */
enum history_end { HISTORY_BEGUN, HISTORY_COMMITTED, HISTORY_UNCOUNTED, HISTORY_WITHOUT_STEP };

struct history {
    const char *job;
    const char *dir;                                        /* checkpoint.dir, NULL: none */
    struct history_commit commits[HISTORY_COMMITS_MAX + 1]; /* newest last */
    int ncommits;
    bool is_there;                   /* commit.json exists */
    int64_t attempt;                 /* the number of this attempt, from 1 */
    int64_t epoch;                   /* of node 0, within the attempt; always 0 */
    int64_t generation;              /* within the attempt; only ranks files have it */
    int64_t attempts_without_commit; /* attempts before this one that had no commit */
    int64_t attempts_without_step;   /* of those, preempted before their first step */
    int64_t save_ns;                 /* how long saves take, 0: unknown */
    int64_t start_ns;                /* how long a start takes until a step, 0: unknown */
    int64_t end_ns;                  /* how long processes take to end after it, 0: unknown */
    int64_t ran_ns;                  /* how long all attempts have run, up to their last commits */
    int64_t failures; /* attempts that lost training; the owner's attempt may be one of them */
    struct strikes strikes;
    struct history_owner owner; /* this pchrun */
};

/* Reads commit.json and counts this attempt. A missing file counts as empty. False: the file is
 * damaged or belongs to another job. */
MUST_CHECK bool history_read_commits(struct history *history, const char *path, struct err *err);
/* The last step of the attempt before this one if it has completed the job: its report in the state
 * directory says so. 0: that attempt has not completed the job, or this is unknown. */
uint64_t history_completed_step(const struct history *history, const char *dir);
/* Reads a ranks file of any node into *saves; otherwise as above. */
MUST_CHECK bool history_read_ranks(const struct history *history, const char *path,
                                   struct saves *saves, struct err *err);
/* Calls fn for the ranks file of each node in the state directory, in any order, until fn returns
 * false. */
typedef bool history_ranks_fn(void *ctx, int node, const char *path);
void history_each_ranks(const char *dir, history_ranks_fn *fn, void *ctx);
/* The path of one of these files; "": there is none. */
void history_any_ranks(const char *dir, char path[PATH_MAX]);
/* Composes a ranks file; `newest` as for saves_write(). The caller calls writer_free(). */
void history_write_ranks(const struct history *history, const struct saves *saves, int node_rank,
                         uint64_t newest, struct writer *w);
/* Composes commit.json. */
void history_write_commits(const struct history *history, enum history_end end, struct writer *w);
/* The last committed step, 0: none. */
uint64_t history_last_step(const struct history *history);
/* history_commit.whole of this step; 0 also if the step is not committed. */
uint32_t history_whole(const struct history *history, uint64_t step);
/* Makes room for one more commit: at most `keep` are listed with it. */
void history_make_room(struct history *history, int keep);

/* The attempt that wrote the file last: "attempt 3 (process 123 on n0)", with the job's name if it
 * is not `job`; "another pchrun", if the file names no owner. *ret_is_others: it belongs to another
 * job. */
void history_owner_text(const char *path, const char *job, char *text, size_t size,
                        bool *ret_is_others);
/* The owner's id of the pchrun with this incarnation. */
void history_make_id(uint64_t incarnation, char id[HISTORY_ID_SIZE]);
/* The id in the file; "": the file is missing, or has none. False: it cannot be read. */
MUST_CHECK bool history_read_id(const char *path, char id[HISTORY_ID_SIZE]);
/* The attempt of this job that wrote the file last; 0: none, or unknown. */
int64_t history_attempt_in(const struct history *history, const char *path);
/* True if this pchrun may replace the file. False: a later attempt has written it, or a later node
 * 0 or a replacement of this node in this attempt, or the writer is unknown. */
MUST_CHECK bool history_check(const struct history *history, const char *path, struct err *err);
