/* SPDX-License-Identifier: Apache-2.0
 *
 * logsrun: the pipes of one generation's commands, their files, and the log process that reads
 * them. A log process that ends early is replaced; a stopped one is continued. A struct logs_run
 * owns all three: logs_run_free(). Main thread.
 */
#pragma once

#include "logs/logsstate.h"
#include "tee/tee.h"

enum { LOGS_NAME_SIZE = 32 };

extern const char *const logs_stream_names[LOGS_STREAM__COUNT];

struct logs_run {
    struct logs *logs;
    struct logs_run *next;
    struct tee tee;
    int control;
    struct watch told, clock;
    struct reap_watch watch; /* pid 0: the log process does not run */
    int64_t started_at;
    int failures;                /* how many log processes in a row ended early */
    int64_t waited_at, patience; /* the last wait for output, and how much longer it could last */
    bool is_ending, is_over;
    bool has_trouble[TEE_BRANCH__COUNT];
    uint64_t said_lost[TEE_BRANCH__COUNT];
};

/* Starts the log process. NULL: see *err. */
MUST_CHECK struct logs_run *logs_run_new(struct logs *logs, uint32_t attempt, uint32_t generation,
                                         struct err *err);
void logs_run_free(struct logs_run *run);
/* All commands are started: closes pchrun's ends of the pipes. */
void logs_run_begun(struct logs_run *run);
/* The commands have ended. The log process keeps what is left in the pipes, until `until` at the
 * latest. */
void logs_run_end(struct logs_run *run, int64_t until);
/* The number of bytes that were not kept, or not passed on. */
uint64_t logs_run_lost(const struct logs_run *run, enum tee_branch which);

/* "rank.3", "node.3" */
void logs_name(const struct logs *logs, int index, char name[LOGS_NAME_SIZE]);
