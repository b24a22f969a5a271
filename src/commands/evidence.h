/* SPDX-License-Identifier: Apache-2.0
 *
 * evidence: what the processes of this node did when the job hung: their Python stacks (stacks.h),
 * the state of each thread, and the output of the user's program for each rank (watchdog.diagnose).
 * Without such a program it is py-spy, if it is installed, for the Python processes that show no
 * stacks. It goes into
 *
 *   hang.<node_rank>.<generation>.txt   in the state directory, else beside the report
 *
 * or, if there is neither a state directory nor a report, into the log. A child reads /proc, since
 * that may block. The examination has a deadline. After it the evidence collected so far is kept.
 * Owns its memory: evidence_free(). Main thread.
 */
#pragma once

#include "commands/children.h"
#include "commands/stacks.h"
#include "config/config.h"
#include "core/core.h"
#include "loop/inquiry.h"
#include "loop/loop.h"
#include "loop/probe.h"
#include "os/statefile.h"

enum { EVIDENCE_TARGETS = 64, EVIDENCE_PROGRAMS = 8 };

/* One run of the user's program. */
struct diagnosis {
    struct evidence *evidence;
    bool is_used;
    int pid, rank; /* for {pid} and {rank} in all arguments but the first, a path */
    char **argv;
    struct probe probe;
};

enum evidence_phase { EVIDENCE_IDLE, EVIDENCE_READING, EVIDENCE_PROBING, EVIDENCE_WRITING };

struct evidence {
    struct children *children;
    /* private from here on */
    const char *dir; /* its first dir_len bytes: the directory of the file; NULL: none */
    int dir_len;
    char **args;     /* of watchdog.diagnose or py-spy, the path first; NULL: none */
    bool is_spy;     /* they are of py-spy */
    uint32_t number; /* of the examination */
    enum evidence_phase phase;
    /* rank -1: a command that has not attached */
    struct core_rank_report targets[EVIDENCE_TARGETS];
    int ntargets, next_target;
    struct core_rank_report taken[EVIDENCE_TARGETS]; /* the targets of the last evidence */
    int ntaken;
    pid_t stopped_pid; /* a process that was stopped, 0: none */
    bool is_traced;    /* by a debugger */
    struct buf text;
    struct stacks stacks;
    struct inquiry reader;
    struct watch deadline, soon;
    struct diagnosis diagnoses[EVIDENCE_PROGRAMS];
    struct statefile file;
    char *path; /* of the last evidence file; NULL: none */
};

/* The longest time of an examination. The core waits that long. */
int64_t evidence_time(const struct config *config);

/* Set children first. state_dir: a directory; report: the absolute path of a file; NULL: none; both
 * must outlive `evidence`. False: watchdog.diagnose cannot be executed. May block. */
MUST_CHECK bool evidence_open(struct evidence *evidence, const char *state_dir, const char *report,
                              struct err *err);
void evidence_free(struct evidence *evidence);

/* ACT_EXAMINE: EV_EXAMINED follows. It follows at once if a debugger has stopped a process, or if
 * no target has moved since its last evidence. */
void evidence_take(struct evidence *evidence, uint32_t number);
/* Stops the examination. A file that is already being written is still finished. */
void evidence_stop(struct evidence *evidence);
/* True while a file is written. */
bool evidence_is_busy(const struct evidence *evidence);
