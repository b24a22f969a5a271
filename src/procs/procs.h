/* SPDX-License-Identifier: Apache-2.0
 *
 * procs: the supervisor's side of the training processes: the Unix socket to attach to, and the
 * shared pages.
 *
 * Each attached process has a slot. Its messages are untrusted: frames are decoded with bounds, and
 * the core judges their content. A process that breaks the protocol, does not read, or sends no
 * ATTACH is cut off. Nothing here blocks: the only file system in use is that of the socket.
 * Scratch directories are only named here: the process makes them, and a helper of the caller
 * removes them.
 *
 * Owns the private directory, the listening socket, all connections and pages: procs_free() ends
 * it. A failed connection is closed and reported as gone; only procs_new() fails. Call from the
 * main thread, which runs the loop and lives as long as the supervisor: the kernel tells the
 * processes when that thread ends.
 */
#pragma once

#include "config/config.h"
#include "core/common/event.h"
#include "core/common/params.h"
#include "procs/deathwatch.h"
#include "procs/procpage.h"
#include "procs/rundir.h"
#include "procs/scratch.h"
#include "wire/procmsg.h"

#include <stdint.h>

struct event_base;
struct procs;

/* Called from the loop. The callbacks may call every function of this module except procs_free().
 */
struct procs_calls {
    /* EV_PROC_ATTACHED: a process says ATTACH, and its page is ready, with gate and step. Answer
     * with WELCOME, or with REFUSED and procs_close(). The pid is 0 if the process is in another
     * pid namespace. EV_PROC_UNATTACHED: it trains unsupervised, for lack of a slot or memory.
     * EV_PROC_MESSAGE. EV_PROC_GONE: the connection has closed, not by procs_close(). */
    void (*news)(void *ctx, const struct event *event);
    /* Run scratch_sweep(what) in a forked child: it may block for ever. */
    void (*sweep)(void *ctx, const struct scratch_sweep *what);
    void *ctx;
    /* See deathwatch.h. The end of the process and EV_PROC_GONE follow after the kernel has freed
     * its memory. Not every death is reported here. */
    deathwatch_fn *died;
    void *died_ctx;
};

/* Listens. Processes rename scratch directories into checkpoint.dir, so the scratch directories are
 * there. Without a checkpoint.dir they are in the private directory. NULL: no usable directory, or
 * memory is short. The strings are copied. */
MUST_CHECK struct procs *procs_new(struct event_base *base, const struct config *config,
                                   const struct procs_calls *calls, struct err *err);
/* Removes directories of dead supervisors beside the private one, and scratch directories of this
 * node's earlier starts. Call once, after the commands have started. */
void procs_clean(struct procs *procs);
/* Closes every connection (without EV_PROC_GONE), so that the processes see the end of the
 * supervisor, and removes the directory. `procs` may be NULL. */
void procs_free(struct procs *procs);

/* The private directory: its address is for PCH_SOCKET. Lives as long as procs. */
const struct rundir *procs_run_dir(const struct procs *procs);
/* Call before the commands are started again. Makes the socket anew if it was removed: else the
 * commands would train without pchrun. */
MUST_CHECK bool procs_mend(struct procs *procs, struct err *err);

/* Stores the word in every process's page, now and at later attaches. */
void procs_gate(struct procs *procs, uint64_t word);
/* Loads every process's step, phase and time; for a free slot 0 and PAGE_START. Untrusted numbers.
 */
void procs_look(const struct procs *procs, uint64_t steps[CORE_SLOTS_MAX],
                uint8_t phases[CORE_SLOTS_MAX], struct page_own own[CORE_SLOTS_MAX]);
/* Reads pending messages, at most 16 per process. Call it before a death is handled, so that the
 * last message of the process comes first. */
void procs_hear(struct procs *procs);
/* Sends, or queues until the process reads. A full queue cuts the process off, and EV_PROC_GONE
 * follows. A free slot is ignored. */
void procs_send(struct procs *procs, int slot, const struct procmsg *msg);
/* A slot without a connection, until procs_close(); -1: none is free. */
MUST_CHECK int procs_reserve(struct procs *procs);
/* Closes the connection. Earlier messages arrive only if they fit into the socket's buffer. The
 * process sees the end of the supervisor; EV_PROC_GONE does not come. */
void procs_close(struct procs *procs, int slot);
/* procpage_clear_stacks() for the process in this slot. False: it shows none, or the slot is free.
 */
MUST_CHECK bool procs_clear_stacks(const struct procs *procs, int slot,
                                   struct procpage_stacks *ret);
/* Publishes the notice; "": none. The deadline is CLOCK_MONOTONIC; CLOCK_NEVER: none. */
void procs_notice(struct procs *procs, const char *text, int64_t deadline_ns);
/* A save is committed: removes the scratch directories handed out so far. */
void procs_scratch_clear(struct procs *procs);
