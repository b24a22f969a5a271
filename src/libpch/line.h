/* SPDX-License-Identifier: Apache-2.0
 *
 * line: libpch's end of the Unix socket, and of the pages that come through it.
 *
 * A message is one packet, so any thread may send. Of the waiting threads one reads the socket into
 * the job's inbox; the others wait for their turn. Every wait ends with the supervisor: when the
 * connection closes or the kernel marks the liveness word, line_lost() is called once. Not for
 * forks. Any thread; the caller serializes line_attach() and line_close().
 */
#pragma once

#include "base/err.h"
#include "libpch/job.h"

/* Connects to `path`, sends `attach`, and waits for the answer: 60 s at most. True: the pages are
 * mapped, and the job knows its rank and where to resume. False: refused, or cannot be reached;
 * with ERR_PEER the supervisor has died. */
MUST_CHECK bool line_attach(struct pch *job, const char *path, const struct procmsg *attach,
                            struct err *err);
void line_close(struct pch *job);

/* False: the supervisor is gone, or the job is closed. */
bool line_send(struct pch *job, const struct procmsg *msg);
/* Has the awaited message come? Called under the lock. */
typedef bool line_done_fn(struct pch *job, const void *arg);
/* Sends a question and waits for the answer. `connection` is the current job->connection: another
 * thread may close and reopen the job meanwhile. False: that connection has ended. */
MUST_CHECK bool line_ask(struct pch *job, unsigned connection, const struct procmsg *msg,
                         line_done_fn *done, const void *arg);

/* An interpreter's signal handler only sets a flag. So each wait calls `is_over` after every
 * interrupting signal and once a second. True ends the wait as if the connection had ended; the
 * connection stays, and the call may be repeated. Runs without a lock, in the waiting thread. Set
 * once per process, before any wait. */
typedef bool line_is_over_fn(void);
void line_ask_in_waits(line_is_over_fn *is_over);

/* The supervisor is lost: prints it; from now on every pch_step returns PCH_EXIT. */
void line_lost(struct pch *job, const char *how);
/* Calls line_lost() if the supervisor is gone. */
void line_check(struct pch *job);
/* Tells the supervisor that this process leaves on purpose, with exit status `status` (0 if it
 * continues). Takes no lock: at the program's end another thread may hold it. Waits at most
 * `wait_ms`. */
void line_goodbye(struct pch *job, uint64_t step, int status, int wait_ms);
/* One line on standard error, if that does not block. */
void line_say(const char *fmt, ...) PRINTF_LIKE(1, 2);
/* Is the job's descriptor still its socket? Some programs close unknown descriptors, and then reuse
 * the number for a file. Async-signal-safe. */
bool line_is_ours(const struct pch *job);
/* In the child of a fork, async-signal-safe: closes its copy of the socket. */
void line_drop(struct pch *job);
