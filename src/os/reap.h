/* SPDX-License-Identifier: Apache-2.0
 *
 * reap: the only caller of wait. It handles every child that has ended or stopped: watched
 * children, and adopted orphans, which are logged at debug.
 *
 * A struct reap is a list of watches. Their owner keeps the memory; a watch leaves the list when
 * its process has been reaped. Before reap_end() each owner takes its watches out. Main thread,
 * after SIGCHLD; one signal may stand for several deaths, so reap_all() loops. Cannot fail. See
 * waitid(2).
 */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <sys/types.h>

enum reap_kind {
    REAP_CHILD,  /* a process of the job */
    REAP_HELPER, /* our own, for example a file writer */
    REAP_SOURCE, /* the same, and leader of a process group that ends with it */
    /* private: */
    REAP_KEPT,     /* a helper that no owner waits for */
    REAP_STRANGER, /* a child from before our exec */
};
enum reap_what { REAP_EXITED, REAP_STOPPED };

/* Instead of a status: the end was missed, so it is unknown. Never treat it as success. */
#define REAP_LOST (-1)

/* `status` is as of wait(2). During REAP_EXITED a child or a source is still a zombie, so its pid
 * and group are not reused yet. After the call watch->pid is 0. A helper is already reaped, and its
 * watch may be used again. */
typedef void reap_fn(void *ctx, enum reap_what what, int status);

struct reap_watch {
    pid_t pid;
    enum reap_kind kind;
    reap_fn *fn; /* NULL: no callback */
    void *ctx;
    struct reap_watch *next;
};
struct reap {
    struct reap_watch *first;
    int kept; /* how many children of reap_keep() have not ended */
};

/* Call before the first child starts: earlier children (`tee log & exec pchrun …`) are not of the
 * job. */
void reap_begin(struct reap *reap);
void reap_end(struct reap *reap);
void reap_watch(struct reap *reap, struct reap_watch *watch);
/* Takes this child of ours as a helper that no owner waits for. Does nothing if memory is short. */
void reap_keep(struct reap *reap, pid_t pid);
/* Removes a watch before its process has ended. */
void reap_forget(struct reap *reap, struct reap_watch *watch);
void reap_all(struct reap *reap);
/* True if no process of the job is left: all our children are helpers or sources. */
bool reap_is_empty(const struct reap *reap);
/* During a child's REAP_EXITED: true if it is the last process of the job. False also if that is
 * unknown: then reap_is_empty() becomes true later. */
bool reap_is_last(const struct reap *reap, pid_t pid);
/* The pids of our own programs and of strangers; returns how many were stored. */
size_t reap_helpers(const struct reap *reap, pid_t *ret, size_t max);

/* Kills the processes that one of our own programs has left behind: those with `mark`, a unique
 * variable, in their environment, and their descendants. Such orphans become our children, like
 * orphans of the job, and count as helpers until they end. An orphan that has cleared its
 * environment counts as part of the job and ends with it. Costs nothing while each of our children
 * has a reap_watch. */
void reap_strays(struct reap *reap, const char *mark);
