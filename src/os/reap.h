/* SPDX-License-Identifier: Apache-2.0
 *
 * reap: the only caller of wait. It takes in every child that has ended, stopped or gone on: those
 * that somebody watches, and the orphans that we have adopted, which are logged at debug.
 *
 * A struct reap is a list of watches; each belongs to who put it in, and leaves the list when its
 * process has been reaped. Main thread, after SIGCHLD (several deaths may make one signal, so it
 * goes on until nothing is left). Cannot fail. See waitid(2).
 */
#ifndef PCHRUN_OS_REAP_H
#define PCHRUN_OS_REAP_H

#include "base/err.h"

#include <stddef.h>
#include <sys/types.h>

enum reap_kind {
    REAP_CHILD,  /* a process of the job */
    REAP_HELPER, /* a process of ours, such as one that writes a file; or one from before our exec
                  */
    REAP_SOURCE, /* the same, and it leads a process group that is to end with it */
};
enum reap_what { REAP_EXITED, REAP_STOPPED, REAP_CONTINUED };

/* The end was seen by somebody else: neither an exit nor a signal, never to be read as success. */
#define REAP_LOST (-1)

/* `status` is as of wait(2). When a child or a source has REAP_EXITED it is still a zombie during
 * the call, so its pid and its group cannot belong to somebody else yet; after the call watch->pid
 * is 0. A helper is gone already, and its watch may be used again. */
typedef void reap_fn(void *ctx, enum reap_what what, int status);

struct reap_watch {
    pid_t pid;
    enum reap_kind kind;
    reap_fn *fn; /* NULL: nobody wants to know */
    void *ctx;
    struct reap_watch *next;
};
struct reap {
    struct reap_watch *first;
    struct reap_watch *strangers; /* memory of their watches */
    int children;                 /* the list of them, 0: not open yet */
};

/* Before the first child is started: children that we have already (`tee log & exec pchrun …`) are
 * not of the job. */
void reap_begin(struct reap *reap);
/* While nothing else is to be done: what is asked for at each end takes less time then. */
void reap_prepare(struct reap *reap);
void reap_end(struct reap *reap);
void reap_watch(struct reap *reap, struct reap_watch *watch);
/* Takes it out before its process has ended. */
void reap_forget(struct reap *reap, struct reap_watch *watch);
void reap_all(struct reap *reap);
/* No process of the job is left: we have no child but helpers and sources. */
bool reap_is_empty(const struct reap *reap);
/* For a child whose REAP_EXITED is being told: nobody but it is left. (If that cannot be told:
 * false, and reap_is_empty() will be true later.) */
bool reap_is_last(const struct reap *reap, pid_t pid);
/* The pids of all that are in the list; returns how many were stored. */
size_t reap_known(const struct reap *reap, pid_t *ret, size_t max);
/* Have we no child that is not in the list? (If that cannot be told: false.) */
bool reap_knows_all(const struct reap *reap);
/* Those of helpers and sources. */
size_t reap_helpers(const struct reap *reap, pid_t *ret, size_t max);

#endif
