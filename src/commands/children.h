/* SPDX-License-Identifier: Apache-2.0
 *
 * children: starts, watches and signals the training commands, and reports their ends to the core.
 *
 * Each command has its own process group (or session, if asked). So a command that signals its own
 * group (`trap "kill 0" EXIT`) does not end the others. Posts EV_CHILD_STARTED at the fork,
 * EV_CHILD_FAILED when exec has failed, EV_CHILD_DYING, EV_CHILD_EXITED, and EV_TREE_EMPTY when no
 * process of the job is left. Owns its memory: children_free(). Main thread.
 */
#pragma once

#include "commands/deaths.h"
#include "config/config.h"
#include "logs/logs.h"
#include "loop/loop.h"
#include "os/cgroup.h"
#include "os/reap.h"
#include "os/spawn.h"
#include "os/tree.h"
#include "procs/attach.h"
#include "record/record.h"

enum { CHILDREN_HELPERS_MAX = 256 };

struct child;

struct children {
    struct loop *loop;
    struct reap *reap;
    const struct config *config;
    const struct core_params *params;
    unsigned closed; /* standard descriptors that the commands must not get */
    struct child *list;
    int count;
    struct cpus *shares;             /* the processors of each command; NULL: all share them */
    pid_t groups[CORE_CHILDREN_MAX]; /* a buffer, like `helpers` */
    pid_t helpers[CHILDREN_HELPERS_MAX];
    char *python_path; /* PYTHONPATH; NULL: pchrun does not set it */
    struct deaths deaths;
    struct attach *attach;
    struct record *record; /* has the path to resume from */
    struct logs *logs;     /* keeps the commands' output, if configured */
    struct cgroup cgroup;  /* of the commands and their descendants, if one can be made */
    bool is_empty;         /* EV_TREE_EMPTY was posted, or nothing was started */
    /* on_stop: a signal has stopped a command. on_end: the leader of a group has ended. */
    void (*on_stop)(void *ctx, pid_t group, int number);
    void (*on_end)(void *ctx, pid_t group, int status);
    void *ctx;
};

/* `children` must be zeroed. */
MUST_CHECK bool children_init(struct children *children, const struct config *config,
                              const struct core_params *params, unsigned closed, struct err *err);
void children_free(struct children *children);

/* Call before children_start(): makes the next control group, if there can be one. */
void children_begin_group(struct children *children);
/* ACT_START: starts all commands. Closes the descriptors that pchrun only inherited. `tty`: the
 * terminal for the only command; -1: none. */
void children_start(struct children *children, const struct action *action, int tty);
/* Call some time later: limits the time of the commands that have not finished their exec. An
 * earlier call is not needed: most execs are fast, and a failed exec ends the child. */
void children_watch(struct children *children);
/* Instead of children_start(): starts no command and tells the core why. */
void children_refuse(struct children *children, const struct err *err);
/* ACT_SIGNAL. */
void children_signal(struct children *children, const struct action *action);
/* Signals each command's process group, as a terminal would. */
void children_signal_groups(struct children *children, int number);
/* on_attach of struct attach; ctx: the children. By now a launcher or a container's runtime has put
 * the rank into its control group. */
void children_on_attach(void *ctx, int pid);
/* on_death of struct attach; ctx: the children. A process has died, but wait(2) does not report it
 * yet. If it is a command, the core gets its last messages, then EV_CHILD_DYING. */
void children_on_death(void *ctx, int pid, int status);
/* After SIGCHLD. */
void children_reap(struct children *children);
/* Stores the pids of the running commands; returns how many. */
int children_pids(const struct children *children, pid_t *ret, int max);
/* Lists the processes of the job; see tree_free(). */
void children_scan(struct children *children, struct tree *ret);
/* Lists the processes that are left, for a log line. Returns text. */
char *children_describe(struct children *children, char *text, size_t size);
