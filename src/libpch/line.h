/* SPDX-License-Identifier: Apache-2.0
 *
 * line: libpch's end of the Unix socket, and of the pages that come through it.
 *
 * Sending is one packet, so any thread may. Receiving is for all threads together: of those that
 * wait, one reads the socket and puts what comes into the job's inbox, the others wait for their
 * turn. Nothing waits longer than the supervisor lives: at the end of the connection, or when the
 * kernel has marked the liveness word, line_lost() is called once and every wait ends. Not for
 * forks. Any thread, but line_attach() and line_close(), which the caller keeps apart.
 */
#ifndef PCHRUN_LIBPCH_LINE_H
#define PCHRUN_LIBPCH_LINE_H

#include "base/err.h"
#include "libpch/job.h"

enum line_result {
    LINE_ATTACHED,
    LINE_FAILED, /* refused, or cannot be reached */
    LINE_DEAD,   /* there was a supervisor, and it has died */
};

/* Connects to `path`, sends `attach`, and waits for the answer: 60 s at most. LINE_ATTACHED: the
 * pages are mapped, and the job knows its rank and where to resume. */
MUST_CHECK enum line_result line_attach(struct pch *job, const char *path,
                                        const struct procmsg *attach, struct err *err);
void line_close(struct pch *job);

/* False: the supervisor is gone, or the job was closed. */
bool line_send(struct pch *job, const struct procmsg *msg);
/* Has it come, what is waited for? Called under the lock. */
typedef bool line_done_fn(struct pch *job, const void *arg);
/* Sends a question, and waits for what answers it. `connection` (job->connection) is the one that
 * it belongs to: another thread may close the job meanwhile, and open it again. False: that one has
 * ended. */
MUST_CHECK bool line_ask(struct pch *job, unsigned connection, const struct procmsg *msg,
                         line_done_fn *done, const void *arg);

/* An interpreter's signal handlers only take a note, which it has to be asked for: every wait asks
 * `is_over` after each signal that interrupts it, and once a second. True gives the wait up, as if
 * the connection had ended; but it has not, and the same call may be made again. Called without a
 * lock, by the thread that waits. For the whole process, before any wait. */
typedef bool line_is_over_fn(void);
void line_ask_in_waits(line_is_over_fn *is_over);

/* The supervisor is lost: says so, and from now on every pch_step says PCH_EXIT. */
void line_lost(struct pch *job, const char *how);
/* Is it still there? If not it is lost. */
void line_check(struct pch *job);
/* Tells the supervisor that this process leaves, and on purpose; `status` is what it exits with, 0
 * if it goes on. Takes no lock, since it is called at the end of a program, whose other threads may
 * hold one; waits for `wait_ms` at most. */
void line_goodbye(struct pch *job, uint64_t step, int status, int wait_ms);
/* One line on standard error, if that does not block. */
void line_say(const char *fmt, ...) PRINTF_LIKE(1, 2);
/* Is the job's descriptor still its socket? A program may close descriptors that it does not know,
 * and the number may be a file of its own by now. Async-signal-safe. */
bool line_is_ours(const struct pch *job);
/* In the child of a fork, async-signal-safe: closes its copy of the socket. */
void line_drop(struct pch *job);

#endif
