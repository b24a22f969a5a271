/* SPDX-License-Identifier: Apache-2.0
 *
 * procs: the supervisor's side of the training processes: the Unix socket that they attach to, and
 * the pages shared with them.
 *
 * Every process that has said ATTACH has a slot. What comes from a process is untrusted: its frames
 * are decoded with bounds, what it says is passed on for the core to judge, and a process that
 * breaks the protocol, reads nothing, or connects and says nothing is cut off. Nothing here blocks,
 * and no system call touches a file system but that of the socket; scratch directories are only
 * named here, made by the process, and removed by a helper that the caller starts.
 *
 * Owns the private directory, the listening socket, all connections and pages: procs_free() ends
 * it. A connection that fails is closed and reported as gone; only procs_new() fails. Main thread,
 * which must be the one that runs the loop and lives as long as the supervisor: the kernel tells
 * the processes when it ends.
 */
#ifndef PCHRUN_LINK_PROCS_H
#define PCHRUN_LINK_PROCS_H

#include "base/err.h"
#include "link/rundir.h"
#include "link/scratch.h"
#include "wire/procmsg.h"

#include <stdint.h>

#define PROCS_MAX 256 /* slots; the core's CORE_SLOTS_MAX */

struct event_base;
struct procs;

/* What the caller is told, from within the loop. From inside of a call every function of this
 * module may be called but procs_free(). */
struct procs_calls {
    /* A process says ATTACH. Its page is ready: the gate is in force and its step is in it. Answer
     * with WELCOME, or with REFUSED and procs_close(). pid is 0 where it is not visible from here.
     */
    void (*attached)(void *ctx, int slot, int pid, const struct procmsg *msg);
    /* One said it, and there was no place or memory for it here: it trains unsupervised. */
    void (*unattached)(void *ctx, int pid, const char *why);
    void (*message)(void *ctx, int slot, int pid, const struct procmsg *msg);
    /* Its connection is closed, and not by procs_close(). `step` is what its page showed last. */
    void (*gone)(void *ctx, int slot, int pid, uint64_t step);
    /* It has died, with this status; its connection, and its end, will be told when its memory has
     * been taken down. Not of every death. */
    void (*died)(void *ctx, int pid, int status);
    /* Run scratch_sweep(what) where it may block for ever: in a forked child. */
    void (*sweep)(void *ctx, const struct scratch_sweep *what);
    void *ctx;
};

struct procs_options {
    const char *run_dir; /* where to make the private directory, NULL: see rundir.h */
    /* Where processes make their scratch directories: the checkpoints' directory, since they are to
     * be renamed into it. NULL: the private one. */
    const char *scratch_dir;
    const char *scratch_owner; /* where the job keeps its records, NULL: at the usual place */
    int node_rank;             /* both are part of their names */
};

/* Listens. NULL if no directory or no memory is to be had. The strings are copied. */
MUST_CHECK struct procs *procs_new(struct event_base *base, const struct procs_options *options,
                                   const struct procs_calls *calls, struct err *err);
/* Removes what dead supervisors left in the base of the private directory, and the scratch
 * directories of this node's earlier starts. Once, when the commands have been started. */
void procs_clean(struct procs *procs);
/* Closes every connection (without a call to gone), so that the processes find the supervisor gone,
 * and removes the directory. `procs` may be NULL. */
void procs_free(struct procs *procs);

/* For PCH_SOCKET. Lives as long as procs. */
const char *procs_socket_path(const struct procs *procs);

/* Stores the word in every process's page, those to come included. */
void procs_gate(struct procs *procs, uint64_t word);
/* Loads every process's step, and what it says that it is doing; of a slot that is free 0 and
 * PAGE_START. Untrusted numbers. */
void procs_look(const struct procs *procs, uint64_t steps[PROCS_MAX], uint8_t phases[PROCS_MAX]);
/* Takes what the processes have said by now, but of each no more than in one turn of the loop: what
 * a process said last comes before the news of its death. */
void procs_hear(struct procs *procs);
/* The private directory. Lives as long as procs. */
struct rundir *procs_run_dir(struct procs *procs);
/* Listens at this socket, which takes its place in that directory, and no longer at the one before
 * it. Takes fd in any case. */
MUST_CHECK bool procs_listen(struct procs *procs, int fd, struct err *err);
/* Sends, now or when the process reads. One that lets too much pile up is cut off, and soon gone. A
 * slot that is free is ignored. */
void procs_send(struct procs *procs, int slot, const struct procmsg *msg);
/* Lets a process go after what was sent, which reaches it only if it fits into the socket's buffer.
 * It finds the supervisor gone; no call to gone follows. */
void procs_close(struct procs *procs, int slot);
/* Publishes the live notice, "": there is none. CLOCK_MONOTONIC, CLOCK_NEVER: no deadline. */
void procs_notice(struct procs *procs, const char *text, int64_t deadline_ns);
/* A save is committed: the scratch directories handed out so far are removed. */
void procs_scratch_clear(struct procs *procs);

#endif
