/* SPDX-License-Identifier: Apache-2.0
 *
 * spawn: starts one command in a process group (or session) of its own, as it would have been
 * started without us: descriptors, limits, directory, dispositions and mask are those we inherited.
 * Or one that serves us, and is kept apart from them.
 *
 * All that needs memory or files is done before the child is there: the search of PATH, the
 * arguments, the environment. The child calls async-signal-safe functions only. Where that can be
 * it runs in our memory until its exec, on a stack of its own: a copy of the tables of our pages,
 * and then of each page that one of the two writes to first, is a tenth of what a short run takes.
 * It is no vfork, which would have us wait: exec may hang on a dead file system, and that must not
 * hang us. A failure in the child comes back as a struct err through a pipe that exec closes: watch
 * it, and read it with spawn_result(). The child dies with us (PR_SET_PDEATHSIG), and does not
 * start if we are dead already. Main thread only: the kernel sends that signal when the thread that
 * started the child ends. See clone(2), execve(2), setpgid(2), prctl(2).
 */
#ifndef PCHRUN_OS_SPAWN_H
#define PCHRUN_OS_SPAWN_H

#include "base/err.h"

#include <stddef.h>
#include <sys/types.h>

/* What to run. Owns what it allocated, not argv: spawn_command_free(). */
struct spawn_command {
    char **argv;  /* borrowed */
    char **paths; /* where it may be, in order, ended by NULL */
};
/* `path` is the PATH to search, NULL: the system's default. */
MUST_CHECK bool spawn_command_init(struct spawn_command *command, char **argv, const char *path,
                                   struct err *err);
void spawn_command_free(struct spawn_command *command);

/* For a program that is not of the job: it gets three descriptors and no more, and an empty mask.
 * It never runs in our memory, so nothing is to be kept for it. */
struct spawn_apart {
    int streams[3];  /* what becomes its 0, 1 and 2; none of them is one of these */
    const char *dir; /* to run in; NULL, or if it cannot be entered: ours */
};

struct spawn_request {
    const struct spawn_command *command;
    char **env;
    char *own_pid; /* in env: gets the child's pid in decimals (SPAWN_PID_SIZE); NULL: none */
    pid_t group;   /* to join; 0: lead a new one */
    bool new_session;
    int cgroup;      /* directory of the control group to run in; 0: ours */
    unsigned closed; /* (1 << fd) for those of 0..2 that the child shall not have */
    bool has_output;
    int output[2]; /* if so, what becomes its 1 and 2: descriptors from 3 on; else it has ours */
    int tty;       /* the terminal, to make the child's group its foreground; -1: do not */
    const struct spawn_apart *apart; /* NULL: of the job */
    const struct cpus *cpus;         /* to run on; NULL: wherever we may */
};
#define SPAWN_PID_SIZE 12

struct spawn_child {
    pid_t pid;
    pid_t group;
    int report; /* readable when the outcome is known; close-on-exec, non-blocking, the caller's */
    struct spawn_start *start; /* what it runs on until its exec, NULL: it has a copy */
};
/* False: nothing was started. What the request points to is kept as long as `start`, unless that is
 * NULL. */
MUST_CHECK bool spawn_start(const struct spawn_request *request, struct spawn_child *ret,
                            struct err *err);

/* When the command runs (SPAWN_RUNNING) or the child has ended, not before. NULL is allowed. */
void spawn_release(struct spawn_start *start);

enum spawn_result {
    SPAWN_PENDING, /* not known yet */
    SPAWN_RUNNING, /* the command runs (or the child was killed just before it could) */
    SPAWN_FAILED,  /* *err: ERR_NOT_FOUND, ERR_NOT_EXEC or ERR_SYSTEM; the child ends by itself */
};
enum spawn_result spawn_result(int report, const struct spawn_command *command, struct err *err);

/* Closes the descriptors >= 3 that we inherited: those that are not close-on-exec, as ours are. */
void spawn_close_inherited(void);
/* After the last spawn: we let go of what we only inherited for the children, so that a pipe can
 * reach its end and a file system can be unmounted while we run: standard input and output become
 * /dev/null, inherited descriptors >= 3 are closed, and "/" is the directory. Relative paths mean
 * nothing after it. */
void spawn_let_go(void);

#endif
