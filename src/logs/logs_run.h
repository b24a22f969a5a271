/* SPDX-License-Identifier: Apache-2.0
 *
 * logs_run: the pipes of one generation's commands, and the log process that reads them. A log
 * process that ends early is replaced. A part of logs.h. Main thread.
 */
#pragma once

#include "base/log.h"
#include "config/config.h"
#include "core/common/params.h"
#include "loop/loop.h"
#include "os/reap.h"
#include "tee/tee.h"

#define LOGS_TOPIC "logs"

enum logs_stream { LOGS_STDOUT, LOGS_STDERR, LOGS_STREAM__COUNT };

enum {
    LOGS_NAME_SIZE = 32,
    LOGS_LINES_MAX = 20 /* log lines within some seconds */
};

/* State that all generations share. */
struct logs_world {
    const struct config *config;
    const struct core_params *params;
    struct reap *reap;
    struct loop *loop;
    unsigned closed; /* standard descriptors that pchrun was started without */
    /* private from here on */
    int out; /* a copy of pchrun's standard output; -1: none */
    struct log_limit limit;
};

struct logs_run {
    struct logs_world *world;
    struct logs_run *next; /* the owner's */
    struct tee tee;
    int *outputs; /* the writing ends of the pipes, two for each command; -1: closed */
    int control;
    struct watch told, clock;
    struct reap_watch watch; /* pid 0: the log process does not run */
    int64_t started_at;
    int failures; /* how many log processes in a row ended early */
    bool is_ending, is_over;
    bool has_trouble[TEE_BRANCH__COUNT];
    uint64_t said_lost[TEE_BRANCH__COUNT];
};

/* NULL: no log process could be started. */
MUST_CHECK struct logs_run *logs_run_begin(struct logs_world *world, uint32_t attempt,
                                           uint32_t generation, struct err *err);
/* All commands are started: closes pchrun's ends of the pipes. */
void logs_run_begun(struct logs_run *run);
/* The commands have ended. The log process keeps what is left in the pipes, until `until` at the
 * latest. */
void logs_run_end(struct logs_run *run, int64_t until);
void logs_run_free(struct logs_run *run);

/* "rank.3"; or "node.3" if the node's one command may start several ranks. */
void logs_run_name(const struct logs_world *world, int index, char name[LOGS_NAME_SIZE]);
/* The number of bytes that were not kept, or not passed on. */
uint64_t logs_run_lost(const struct logs_run *run, enum tee_branch which);
