/* SPDX-License-Identifier: Apache-2.0
 *
 * recordstate: the memory of the record, for the supervisor (record.h) and for the writers of the
 * two files (recordwriter.h). record.h owns it.
 */
#pragma once

#include "loop/loop.h"
#include "loop/watch.h"
#include "record/history.h"

/* One of the two files, and the write of it that is under way. */
struct record_file {
    struct statefile file; /* must come first: callbacks of statefile.h get a pointer to it */
    struct watch deadline, answer;
    uint64_t step; /* the core waits until this step is written; 0: it waits for none */
    int64_t until; /* the run is over, and no write may take longer; 0: it is not over */
};

struct record {
    const char *dir; /* NULL: no record */
    struct loop *loop;
    int node_rank, keep;
    int world; /* ranks of the job: its processes tell it; 0: none has attached */
    bool is_shared;
    /* checkpoint.dir, if the state directory lies in it; NULL: it may not */
    const char *common_dir;
    struct history history;
    uint64_t completed_step; /* history_completed_step() */
    uint64_t resume_step;    /* the step that this attempt resumes from, 0: from the start */
    struct saves saves;      /* of this node's ranks */
    enum peer_paths paths;   /* of the save that was prepared last */
    struct saves others;     /* of other nodes' ranks, at resume_step */
    bool has_begun;          /* record_begin() was called */
    bool has_read_first, has_read_all; /* `others` has node 0's file; `others` has all files */
    struct record_file commits, ranks;
    enum history_end without_commit; /* how this attempt counts as long as it has no commit */
    uint64_t committed;   /* the last commit that we put on disk, even after the end; 0: none */
    int64_t committed_at; /* CLOCK_MONOTONIC */
    struct err failure;   /* of writing the start of the attempt; ERR_NONE: none */
    bool has_start;       /* the start of the attempt is on disk */
};
