/* SPDX-License-Identifier: Apache-2.0
 *
 * spawn: starts one command in its own process group or session, with the descriptors, limits,
 * directory, dispositions and mask that we inherited. It also starts programs of our own, which get
 * none of these.
 *
 * The child searches PATH, because a directory of it may be on a dead file system. A failure in the
 * child comes back through a pipe that exec closes: watch it, then call spawn_result(). It does not
 * use posix_spawn or vfork: they make the parent wait, and exec may hang on a dead file system. The
 * child dies with us (PR_SET_PDEATHSIG), and does not start if we are dead. Main thread only: the
 * kernel sends that signal when the thread that started the child ends. See fork(2), execve(2),
 * setpgid(2), prctl(2).
 */
#pragma once

#include "base/err.h"

#include <sys/types.h>

struct spawn_request {
    char **argv;
    const char *path; /* to search for argv[0], as PATH; NULL: the system's default */
    char **env;
    char *own_pid; /* in env: gets the child's pid in decimals (SPAWN_PID_SIZE); NULL: none */
    bool new_session;
    int cgroup;      /* directory of the control group to run in; 0: ours */
    int streams[3];  /* the child's descriptors 0 to 2: 3 or more, SPAWN_NULL, or 0: as ours */
    unsigned closed; /* (1 << fd) for each of ours that the child must not have */
    int tty;         /* a terminal, to make the child's group its foreground group; -1: none */
    const struct cpus *cpus; /* to run on; NULL: the same as ours */
    bool is_apart;           /* a program of our own: gets only its streams, and an empty mask */
    const char *dir;         /* its working directory, if it is apart; NULL or unusable: ours */
};
#define SPAWN_NULL     (-1) /* /dev/null */
#define SPAWN_PID_SIZE 12

/* Returns the child's pid, which is also that of its group; 0: nothing was started. *ret_report can
 * be read once the outcome is known; it is close-on-exec, non-blocking, and the caller's. All that
 * the request names may be freed at once: the child has a copy. */
MUST_CHECK pid_t spawn_start(const struct spawn_request *request, int *ret_report, struct err *err);

enum spawn_result {
    SPAWN_PENDING, /* not known yet */
    SPAWN_RUNNING, /* the command runs (or the child was killed just before it could) */
    SPAWN_FAILED,  /* *err: ERR_NOT_FOUND, ERR_NOT_EXEC or ERR_SYSTEM; the child ends by itself */
};
/* `name` is argv[0] of the request. */
enum spawn_result spawn_result(int report, const char *name, struct err *err);

/* Call after the last spawn: releases what we inherited only for the children, so that pipes can
 * end and file systems can be unmounted. Standard input and output become /dev/null, inherited
 * descriptors >= 3 are closed, "/" is the working directory. Relative paths are useless afterwards.
 */
void spawn_let_go(void);
