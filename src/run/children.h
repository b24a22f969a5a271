/* SPDX-License-Identifier: Apache-2.0
 *
 * children: the training commands: started, watched, signalled, and their ends told to the core.
 *
 * Each command has a process group of its own (or a session, if asked), so that what one does to
 * its group (`trap "kill 0" EXIT`) does not end the others. Posts EV_CHILD_STARTED at the fork,
 * EV_CHILD_FAILED when exec has failed, EV_CHILD_DYING, EV_CHILD_EXITED, and EV_TREE_EMPTY when no
 * process of the job is left. Owns its memory: children_free(). Main thread.
 */
#ifndef PCHRUN_RUN_CHILDREN_H
#define PCHRUN_RUN_CHILDREN_H

#include "config/config.h"
#include "os/cgroup.h"
#include "os/reap.h"
#include "os/spawn.h"
#include "os/tree.h"
#include "run/attach.h"
#include "run/deaths.h"
#include "run/logs.h"
#include "run/loop.h"
#include "run/record.h"

struct child;

struct children {
    struct loop *loop;
    struct reap *reap;
    const struct config *config;
    const struct core_params *params;
    struct spawn_command command;
    unsigned closed; /* standard descriptors that the commands shall not have */
    int tty;         /* to be given to the only command; -1: not */
    struct child *list;
    int count;
    struct cpus *shares; /* of the processors, one for each; NULL: they are not shared out */
    pid_t *groups;       /* room for tree_job */
    const char *socket;  /* for PCH_SOCKET */
    char *python_path;   /* for PYTHONPATH; NULL: it is the user's */
    struct deaths deaths;
    struct attach *attach;
    struct record *record; /* of what is to be resumed */
    struct logs *logs;     /* what they print, if it is kept */
    struct cgroup cgroup;  /* of the commands and all below them, where there can be one */
    bool is_empty;         /* EV_TREE_EMPTY has been posted, or nothing was started */
    /* A command has been stopped by this signal; a command's group has lost its leader. */
    void (*on_stop)(void *ctx, pid_t group, int number);
    void (*on_end)(void *ctx, pid_t group, int status);
    void *ctx;
};

/* Of one that is all zero. */
MUST_CHECK bool children_init(struct children *children, const struct config *config,
                              const struct core_params *params, unsigned closed, struct err *err);
void children_free(struct children *children);

/* Before it: the control group of the next ones, where there can be one. */
void children_begin_group(struct children *children);
/* ACT_START: all of them. Descriptors and the directory that we only inherited are let go. */
void children_start(struct children *children, const struct action *action);
/* Some time later: those that have not come to their exec by then are watched; most have, and an
 * exec that fails is told by the end of the child, so that nothing has to wake us up for it. */
void children_watch(struct children *children);
/* Instead of that: none is started, and the core is told why. */
void children_refuse(struct children *children, const struct err *err);
/* The first command's, 0: it has ended, or was never started. */
pid_t children_first_group(const struct children *children);
/* ACT_SIGNAL. */
void children_signal(struct children *children, const struct action *action);
/* To each command's process group, as a terminal would. */
void children_signal_groups(struct children *children, int number);
/* For struct attach, with the children as ctx: one has died, and its end comes later. What it said
 * last is told, and that; of a process that is none of them nothing is. */
void children_on_death(void *ctx, int pid, int status);
/* After SIGCHLD. */
void children_reap(struct children *children);
/* Of the commands that run; returns how many were stored. */
int children_pids(const struct children *children, pid_t *ret, int max);
/* Who is left, for people. Returns text. */
char *children_describe(struct children *children, char *text, size_t size);

#endif
