/* SPDX-License-Identifier: Apache-2.0
 *
 * record: what outlives a run, in the state directory.
 *
 *   commit.json          node 0's: the commits, the attempt, how many attempts brought none
 *   ranks.<node>.json    each node's: what its ranks saved at which step, and where
 *
 * A node's file is on disk before it says that it is prepared, and commit.json before anybody is
 * told of a commit; each is replaced as a whole. So a crash at any instant leaves the last commit,
 * and a restart finds for it what every rank saved. A ranks file notes the attempt that wrote it
 * last: what is in it beyond the last commit up to that attempt was never committed, whatever a
 * later attempt has made of the same step. A start counts as an attempt and takes the record over:
 * what an older one, which a scheduler may not have ended yet, would write from then on is refused
 * (see history.h). Writing never blocks us: it has a deadline, after which it has failed. Without a
 * state directory there is no record, and nothing that could fail. Owns its memory: record_free().
 * Main thread.
 */
#ifndef PCHRUN_RUN_RECORD_H
#define PCHRUN_RUN_RECORD_H

#include "config/config.h"
#include "run/history.h"
#include "run/loop.h"

struct record {
    const char *dir; /* NULL: there is none */
    struct loop *loop;
    int node_rank, nnodes, keep;
    int world; /* ranks of the job, 0: nobody has attached */
    bool is_shared;
    struct history history;
    uint64_t resume_step;              /* of this attempt, 0: from the start */
    struct saves saves;                /* of this node's ranks */
    struct saves others;               /* of ranks of other nodes, at the step to resume from */
    bool has_read_first, has_read_all; /* what others may have, in node 0's file and in all */
    struct statefile commit_file, ranks_file;
    struct watch commit_deadline, ranks_deadline;
    uint64_t committing, preparing; /* the core waits for them, 0: no */
    uint64_t committed;   /* by this pchrun: on disk, whoever still wants to know; 0: none */
    int64_t committed_at; /* CLOCK_MONOTONIC */
    struct err failure;   /* of the note that the attempt has begun; ERR_NONE: none */
    void (*on_idle)(void *ctx);
    void *ctx;
};

/* Reads what is there; may block, as everything at start. `dir` may be NULL; it and the
 * configuration must live as long. False if a record is damaged or another job's: to start from
 * scratch would lose what it stands for. */
MUST_CHECK bool record_init(struct record *record, const struct config *config, const char *dir,
                            struct reap *reap, struct err *err);
/* From here on it can write. On node 0 it notes that the attempt has begun, and waits until that is
 * on disk: a job that cannot record is not to train for hours. */
MUST_CHECK bool record_open(struct record *record, struct loop *loop,
                            const struct core_params *params, struct err *err);
void record_free(struct record *record);

/* Is there a write that will still end, or be given up? on_idle() is called when there is none any
 * more. */
bool record_is_busy(const struct record *record);
/* The run is over: what is being written is given up at that time, if not before. */
void record_end(struct record *record, int64_t until);
void record_on_idle(struct record *record, void (*on_idle)(void *ctx), void *ctx);

/* The last committed step, 0: none. */
uint64_t record_resume_step(const struct record *record);
/* The commands are about to be started: what earlier attempts and generations saved beyond
 * `resume_step` was never committed, and is forgotten. */
void record_begin(struct record *record, int64_t attempt, uint64_t resume_step);
/* Does the record tell where this rank finds its save of the step to resume from, if it had a part
 * in it? A node whose file is lost (it was replaced, and its disk with it) must not start its ranks
 * from 0 while the others resume. RECORD_ANY_RANK: which ranks will attach here is not known.
 * False: *err says what was looked for, and what to do. May read other nodes' files. */
#define RECORD_ANY_RANK (-1)
MUST_CHECK bool record_check_rank(struct record *record, int rank, struct err *err);
/* The job has so many ranks, as its processes say. */
void record_set_world(struct record *record, int world);
/* The job has committed this step: what a restart needs of it is kept. */
void record_committed(struct record *record, uint64_t step);
/* A rank says that its save at `step` is durable; `path` "": it named none. */
void record_saved(struct record *record, int rank, uint64_t step, const char *path);
/* Where the rank finds its save at this step: its own path, else that of the rank that saved for
 * all; for a rank that had no part in it only if no other path was named. NULL: none is known. It
 * lives until the next call. Other nodes' files are read at the first call that needs them, and
 * only for the step to resume from. */
const char *record_path(struct record *record, int rank, uint64_t step);
/* Where this node's ranks said that it is, for the report; NULL: none named a path. Reads no file.
 */
const char *record_known_path(const struct record *record, uint64_t step);

/* ACT_PREPARE (action.h explains its fields) and ACT_COMMIT: answered with EV_PREPARED and
 * EV_COMMITTED. */
void record_prepare(struct record *record, uint64_t step, int ranks, uint64_t own);
void record_commit(struct record *record, uint64_t step, int64_t save_ns);
/* On node 0: this attempt does not count as one without a commit. If that cannot be written, it
 * does. */
void record_uncount(struct record *record);

#endif
