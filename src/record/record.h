/* SPDX-License-Identifier: Apache-2.0
 *
 * record: the state that outlives a run, in the state directory.
 *
 *   commit.json          node 0's: the commits, the attempt, how many attempts had no commit
 *   ranks.<node>.json    each node's: what its ranks saved at which step, and where
 *
 * A node writes its file before it reports "prepared". Node 0 writes commit.json before it
 * announces the commit. Each file is replaced as a whole. So after a crash at any instant the last
 * commit is on disk, with every rank's path. A ranks file names the attempt that wrote it last.
 * Saves in it that are newer than the last commit up to that attempt were never committed, even if
 * a later attempt committed the same step.
 *
 * A start counts as an attempt and takes over the record. An older attempt that still runs cannot
 * write from then on (see history.h). Each file has a standby writer (os/statefile.h), so a commit
 * needs no new process. A write never blocks pchrun: after its deadline it counts as
 * failed. Without a state directory there is no record. Owns its memory: record_free(). Main
 * thread.
 */
#pragma once

#include "config/config.h"
#include "record/recordstate.h"

/* Reads the record; may block, as everything at start. `dir` may be NULL; it and the configuration
 * must outlive the record. False: a file is damaged or belongs to another job. A start from scratch
 * would then lose all training so far. */
MUST_CHECK bool record_init(struct record *record, const struct config *config, const char *dir,
                            struct reap *reap, struct err *err);
/* Writing works from here on. On node 0 it writes the start of the attempt and waits for the disk:
 * a job that cannot record must not train for hours. */
MUST_CHECK bool record_open(struct record *record, struct loop *loop,
                            const struct core_params *params, struct err *err);
void record_free(struct record *record);

/* True if a write is under way. It will end or time out. */
bool record_is_busy(const struct record *record);
/* The run is over: node 0 writes the new strikes, as each commit does before. Writes that are under
 * way time out at `until` at the latest. */
void record_end(struct record *record, int64_t until);

/* The commands are about to start. Forgets saves beyond `resume_step`: none was committed. */
void record_begin(struct record *record, int64_t attempt, int64_t generation, uint64_t resume_step);
/* True if the record knows this rank's save of `resume_step`, or the rank had no part in it. A node
 * that lost its file (with its disk) must not start from step 0 while the others resume.
 * RECORD_ANY_RANK: the ranks of this node are not known yet. False: *err says what is missing and
 * what to do. May read other nodes' files. */
#define RECORD_ANY_RANK (-1)
MUST_CHECK bool record_check_rank(struct record *record, int rank, struct err *err);
/* On node 0: the lowest number of ranks that has all parts of the last commit, as
 * saves_least_world(). *ret_world: how many ranks saved it. Reads other nodes' files. */
int record_least_world(struct record *record, int *ret_world);
/* The job has committed this step: keeps what a restart needs. `whole`: 1 + the rank whose save is
 * the whole checkpoint; 0: each rank has a part. */
void record_committed(struct record *record, uint64_t step, uint32_t whole);
/* A rank reports that its save at `step` is durable; `path` "": it named no path. */
void record_saved(struct record *record, int rank, uint64_t step, const char *path);
/* The path of the rank's save at this step: the path of the rank whose save is the whole
 * checkpoint, if the commit names one; the rank's own path; else the path of the rank that saved
 * for all. A rank without a part in the save gets a path only if all ranks named the same
 * path. NULL: unknown. Valid until the next call. Reads other nodes' files when first needed, and
 * only for the step to resume from. */
const char *record_path(struct record *record, int rank, uint64_t step);
/* The path that this node's ranks named, for the report; NULL: none. Reads no file. */
const char *record_known_path(const struct record *record, uint64_t step);

/* ACT_PREPARE (action.h explains its fields) and ACT_COMMIT: EV_PREPARED and EV_COMMITTED follow.
 */
void record_prepare(struct record *record, const struct action *action);
void record_commit(struct record *record, const struct action *action);
/* On node 0: this attempt no longer counts as one without a commit. With has_no_step it counts as
 * preempted before a step. If the write fails, the attempt counts. */
void record_uncount(struct record *record, bool has_no_step);
/* On node 0: how long the processes took to end. If the write fails, the next attempt does not
 * know.
 */
void record_note_end(struct record *record, int64_t end_ns);
