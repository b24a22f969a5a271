/* SPDX-License-Identifier: Apache-2.0
 *
 * evidence: what the processes of this node were doing when the job was found to hang: the state of
 * each thread, and what the user's own program says of each rank (watchdog.diagnose). It goes into
 *
 *   hang.<node_rank>.<generation>.txt   in the state directory, else beside the report
 *
 * or, where there is neither, into the log. A child of ours reads /proc, since that may block; all
 * of it together has a time, after which what is there is kept. Owns its memory: evidence_free().
 * Main thread.
 */
#ifndef PCHRUN_RUN_EVIDENCE_H
#define PCHRUN_RUN_EVIDENCE_H

#include "config/config.h"
#include "core/core.h"
#include "os/statefile.h"
#include "run/children.h"
#include "run/loop.h"
#include "run/probe.h"

enum { EVIDENCE_TARGETS = 64, EVIDENCE_PROBES = 8 };

enum evidence_phase { EVIDENCE_IDLE, EVIDENCE_READING, EVIDENCE_PROBING, EVIDENCE_WRITING };

struct evidence_target {
    int pid, rank; /* rank -1: a command of which nothing is known */
    uint64_t step;
    enum page_phase phase;
    int64_t since;
};

struct evidence {
    const struct config *config;
    const struct core_params *params;
    struct loop *loop;
    struct reap *reap;
    struct children *children;
    char *dir;       /* NULL: none */
    char **args;     /* of watchdog.diagnose, its path first; NULL: none */
    uint32_t number; /* of the examination */
    enum evidence_phase phase;
    struct evidence_target *targets; /* NULL before the first examination: it is rare */
    int ntargets, next_target;
    struct evidence_target *taken; /* the same: whose evidence is there */
    int ntaken;
    pid_t stopped_pid; /* one that was stopped then, 0: none */
    bool is_traced;    /* by a debugger */
    struct buf text;
    struct reap_watch reader; /* pid 0: none runs */
    int reader_out;
    struct watch reader_watch, deadline, soon;
    struct probe *probes; /* the same */
    struct statefile file;
    bool has_file;
    char *path; /* of the last evidence that was kept; NULL: none */
    void (*on_idle)(void *ctx);
    void *ctx;
};

/* What it may take in all: for the core. */
int64_t evidence_time(const struct config *config);

/* state_dir and report: the directory, and the path of the file, NULL: there is none. Set the other
 * fields that are not its own. False: watchdog.diagnose cannot be executed. May block. */
MUST_CHECK bool evidence_init(struct evidence *evidence, const struct config *config,
                              const char *state_dir, const char *report, struct err *err);
MUST_CHECK bool evidence_open(struct evidence *evidence, struct loop *loop,
                              const struct core_params *params, struct err *err);
void evidence_free(struct evidence *evidence);

/* ACT_EXAMINE: EV_EXAMINED follows, at once where a debugger has stopped a process, or all stand
 * where they stood when their evidence was taken. */
void evidence_take(struct evidence *evidence, uint32_t number);
/* Nobody waits for it any more. What is being written will still be. */
void evidence_stop(struct evidence *evidence);
/* Is a file being written? on_idle() is called when it is. */
bool evidence_is_busy(const struct evidence *evidence);

#endif
