/* SPDX-License-Identifier: Apache-2.0
 *
 * deathwatch: reports the death of an attached process as soon as the kernel has stopped its
 * threads. The kernel's own reports come only after it has freed the memory, which may take long.
 *
 * libpch holds robust mutexes in the process's page (wire/page.h). A change of a mutex only hints
 * at a death: a thread may have ended, exec may have run, or the process may have written to its
 * page. So after each change pchrun asks the kernel whether the process has died. For each process
 * a thread sleeps on its words and wakes the loop by an eventfd. The thread allocates nothing and
 * holds no lock of the C library, so the main thread may fork at any time.
 *
 * Some processes cannot be watched (Linux before 5.16, no /proc, no memory). Then other modules
 * notice the death later. Owns its mappings, threads and events: deathwatch_free() ends it. Main
 * thread.
 */
#pragma once

struct event_base;
struct deathwatch;

/* The process has died. `status` is as of wait(2), never 0: a success is not reported. */
typedef void deathwatch_fn(void *ctx, int pid, int status);

/* NULL: this machine does not support it, which is no error. */
struct deathwatch *deathwatch_new(struct event_base *base, deathwatch_fn *fn, void *ctx);
/* `deathwatch` may be NULL in all these functions. */
void deathwatch_free(struct deathwatch *deathwatch);
/* Watches a process with its page. The caller keeps page_fd. */
void deathwatch_begin(struct deathwatch *deathwatch, int pid, int page_fd);
/* The process's connection has ended: it takes no further mutex. */
void deathwatch_closed(struct deathwatch *deathwatch, int pid);
