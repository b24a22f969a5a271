/* SPDX-License-Identifier: Apache-2.0
 *
 * line: libpch's end of the Unix socket, and of the pages received through it.
 *
 * A message is one packet, so any thread may send. One of the waiting threads reads the socket for
 * all. Every wait ends when the supervisor ends: the connection closes, or the kernel marks the
 * liveness word. Then line_lost() is called once. Forked children must not use this module. Any
 * thread; the caller serializes line_attach() and line_close().
 */
#pragma once

#include "base/err.h"
#include "libpch/job.h"

/* Connects to `path`, sends `attach`, and waits for the answer: 60 s at most. True: the pages are
 * mapped, and the job knows its rank and where to resume. False: the supervisor refuses or cannot
 * be reached; with ERR_PEER it has died. */
MUST_CHECK bool line_attach(struct pch *job, const char *path, const struct procmsg *attach,
                            struct err *err);
void line_close(struct pch *job);

/* False: the connection has ended, or the job is closed. */
bool line_send(struct pch *job, const struct procmsg *msg);
/* True if the awaited message has come. Called under the lock. */
typedef bool line_done_fn(struct pch *job, const void *arg);
/* Sends a question and waits for the answer. `connection` is the current job->connection: another
 * thread may close and reopen the job meanwhile. False: that connection has ended. */
MUST_CHECK bool line_ask(struct pch *job, unsigned connection, const struct procmsg *msg,
                         line_done_fn *done, const void *arg);

/* An interpreter's signal handler only sets a flag. So each wait calls line_is_over() after every
 * interrupting signal and once a second. If it returns true, the wait ends as if the connection had
 * ended. But the connection stays open, and the caller may try again. Called without a lock, in the
 * waiting thread. Set it once, before any wait. */
extern bool (*line_is_over)(void);

/* Called while the process attaches, with the descriptor of its page, which is closed afterwards.
 * Set it once, before any attach. */
extern void (*line_show_page)(int fd);

/* Prints how the supervisor was lost. From now on every pch_step returns PCH_EXIT. */
void line_lost(struct pch *job, const char *how);
/* Calls line_lost() if the supervisor has died or ended the connection. */
void line_check(struct pch *job);
/* Tells the supervisor that this process leaves on purpose, with exit status `status` (0 if it
 * continues). Takes no lock: at the program's end another thread may hold it. Waits at most
 * `wait_ms`. */
void line_goodbye(struct pch *job, uint64_t step, int status, int wait_ms);
/* Prints one line on standard error, unless that would block. */
void line_say(const char *fmt, ...) PRINTF_LIKE(1, 2);
/* True if the job's descriptor is still its socket. Some programs close unknown descriptors, and
 * then reuse the number for a file. Async-signal-safe. */
bool line_is_ours(const struct pch *job);
/* In the child of a fork, async-signal-safe: closes its copy of the socket. */
void line_drop(struct pch *job);
