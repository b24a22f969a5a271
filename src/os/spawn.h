/* SPDX-License-Identifier: Apache-2.0
 *
 * spawn: starts one command in its own process group or session, with the descriptors, limits,
 * directory, dispositions and mask that we inherited. Or starts a program of our own, apart from
 * all these.
 *
 * All work that needs memory or files comes before the fork: the search of PATH, the arguments, the
 * environment. The child calls only async-signal-safe functions. If possible it shares our memory
 * until its exec, on its own stack: copying page tables and pages would cost a tenth of a short
 * run. vfork would make the parent wait, and exec may hang on a dead file system. A failure in the
 * child comes back as a struct err through a pipe that exec closes: watch it, then call
 * spawn_result(). The child dies with us (PR_SET_PDEATHSIG), and does not start if we are dead.
 * Main thread only: the kernel sends that signal when the thread that started the child ends. See
 * clone(2), execve(2), setpgid(2), prctl(2).
 */
#ifndef PCHRUN_OS_SPAWN_H
#define PCHRUN_OS_SPAWN_H

#include "base/err.h"

#include <stddef.h>
#include <sys/types.h>

/* What to run. spawn_command_free() ends it; argv stays the caller's. */
struct spawn_command {
    char **argv;  /* borrowed */
    char **paths; /* candidates, in order, ended by NULL */
};
/* `path` is the PATH to search, NULL: the system's default. */
MUST_CHECK bool spawn_command_init(struct spawn_command *command, char **argv, const char *path,
                                   struct err *err);
void spawn_command_free(struct spawn_command *command);

/* For a program that is not of the job: it gets only three descriptors, and an empty mask. It never
 * shares our memory, so the request may be freed at once. */
struct spawn_apart {
    int streams[3];  /* become its 0, 1 and 2; each is 3 or more */
    const char *dir; /* working directory; NULL or unusable: ours */
};

struct spawn_request {
    const struct spawn_command *command;
    char **env;
    char *own_pid; /* in env: gets the child's pid in decimals (SPAWN_PID_SIZE); NULL: none */
    pid_t group;   /* to join; 0: lead a new one */
    bool new_session;
    int cgroup;      /* directory of the control group to run in; 0: ours */
    unsigned closed; /* (1 << fd) for each of 0..2 that the child must not have */
    bool has_output;
    int output[2]; /* if so, these (3 or more) become its 1 and 2; else it has ours */
    int tty;       /* the terminal, to make the child's group its foreground; -1: do not */
    const struct spawn_apart *apart; /* NULL: of the job */
    const struct cpus *cpus;         /* to run on; NULL: the same as ours */
};
#define SPAWN_PID_SIZE 12

struct spawn_child {
    pid_t pid;
    pid_t group;
    int report; /* readable once the outcome is known; close-on-exec, non-blocking, owned by the
                   caller */
    struct spawn_start *start; /* memory that it uses until its exec; NULL: it has a copy */
};
/* False: nothing was started. Unless `start` is NULL, keep the request's data until
 * spawn_release(). */
MUST_CHECK bool spawn_start(const struct spawn_request *request, struct spawn_child *ret,
                            struct err *err);

/* Call after SPAWN_RUNNING or the end of the child, not before. NULL is allowed. */
void spawn_release(struct spawn_start *start);

enum spawn_result {
    SPAWN_PENDING, /* not known yet */
    SPAWN_RUNNING, /* the command runs (or the child was killed just before it could) */
    SPAWN_FAILED,  /* *err: ERR_NOT_FOUND, ERR_NOT_EXEC or ERR_SYSTEM; the child ends by itself */
};
enum spawn_result spawn_result(int report, const struct spawn_command *command, struct err *err);

/* Closes the descriptors >= 3 that we inherited. Our own are close-on-exec, so all others are
 * inherited. */
void spawn_close_inherited(void);
/* After the last spawn: releases what we inherited only for the children, so that pipes can end and
 * file systems can be unmounted. Standard input and output become /dev/null, inherited descriptors
 * >= 3 are closed, "/" is the working directory. Relative paths are useless afterwards. */
void spawn_let_go(void);

#endif
