/* SPDX-License-Identifier: Apache-2.0
 *
 * history: what the record's files (see record.h) tell of earlier attempts, and whose they are now.
 *
 * An attempt that has begun owns the record. A scheduler may start it while the one before is still
 * alive, and not every file system has locks; so whoever replaces a file looks first, in the child
 * that writes it, whether a later attempt has been there. Reading may block: at the start it comes
 * after dirlock has found the directory alive. A struct history owns nothing. Main thread.
 */
#ifndef PCHRUN_RUN_HISTORY_H
#define PCHRUN_RUN_HISTORY_H

#include "os/statefile.h"
#include "run/saves.h"

#define HISTORY_FILE        "commit.json" /* in the state directory */
#define HISTORY_SCHEMA      1
#define HISTORY_MAX         STATEFILE_MAX
#define HISTORY_COMMITS_MAX 64 /* the most that checkpoint.keep_records can ask for */

struct history_commit {
    uint64_t step;
    int64_t at; /* real time, ns */
    int64_t attempt;
};

/* Who writes a file. */
struct history_owner {
    char host[64];
    int64_t pid;
    char id[20]; /* random */
};

struct history {
    const char *job;
    struct history_commit commits[HISTORY_COMMITS_MAX + 1]; /* newest last */
    int ncommits;
    bool is_there;                   /* commit.json */
    int64_t attempt;                 /* this one, from 1 */
    int64_t attempts_without_commit; /* before this one */
    int64_t save_ns;                 /* how long saves take, 0: not known */
    struct history_owner owner;      /* of this one: us */
};

/* Takes in commit.json, and counts this attempt. A file that is missing is empty; false: it is
 * damaged, or another job's. */
MUST_CHECK bool history_read_commits(struct history *history, const char *path, struct err *err);
/* The same for a ranks file, of another node or our own from before, into *saves. */
MUST_CHECK bool history_read_ranks(const struct history *history, const char *path,
                                   struct saves *saves, struct err *err);
/* The other way: all of a ranks file, with the saves that saves_write() takes. writer_free() is the
 * caller's. */
void history_write_ranks(const struct history *history, const struct saves *saves, int node_rank,
                         uint64_t newest, struct writer *w);
/* All of commit.json; `without`: so many attempts brought no commit. */
void history_write_commits(const struct history *history, int64_t without, struct writer *w);
/* The last committed step, 0: none. */
uint64_t history_last_step(const struct history *history);
/* For one more commit; at most `keep` are to be there with it. */
void history_make_room(struct history *history, int keep);

/* "attempt 3 (process 123 on n0)", of another job than this one with its name; NULL: the file does
 * not tell. Returns text. */
char *history_owner_text(const char *path, const char *job, char *text, size_t size);
/* Is the file there, and another job's? */
bool history_is_others(const char *path, const char *job);
/* May this attempt replace the file? False: a later one has written it, or that cannot be told. */
MUST_CHECK bool history_check(const struct history *history, const char *path, struct err *err);

#endif
