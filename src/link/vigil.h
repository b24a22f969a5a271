/* SPDX-License-Identifier: Apache-2.0
 *
 * vigil: tells that an attached process has died, as soon as the kernel has stopped its threads:
 * all that the kernel itself tells of an end comes after the memory has been taken down.
 *
 * libpch holds robust mutexes in the process's page (wire/page.h). What they tell is only that a
 * thread has ended or another program was begun, and any process may write into its own page what
 * it likes; so whenever one of them changes, what counts is what the kernel says of the process. A
 * thread of ours sleeps on all of the words and wakes the loop by an eventfd: it allocates nothing
 * and holds no lock of the C library, so that forks of the main thread may do what they like.
 *
 * A process that cannot be watched (no futex_waitv before Linux 5.16, no /proc, no memory) is not
 * told of here; its end is seen by others, later. Owns its mappings, threads and events:
 * vigil_free() ends it. Main thread.
 */
#ifndef PCHRUN_LINK_VIGIL_H
#define PCHRUN_LINK_VIGIL_H

struct event_base;
struct vigil;

/* It has died; `status` is as of wait(2), and not 0: of a success nothing is told. */
typedef void vigil_fn(void *ctx, int pid, int status);

/* NULL: nothing can be watched here, which is no error. */
struct vigil *vigil_new(struct event_base *base, vigil_fn *fn, void *ctx);
/* `vigil` may be NULL in all of these. */
void vigil_free(struct vigil *vigil);
/* Watches a process whose page is this memfd, which stays the caller's. */
void vigil_begin(struct vigil *vigil, int pid, int page_fd);
/* Its connection has ended: if it holds nothing by now, it never will. */
void vigil_closed(struct vigil *vigil, int pid);

#endif
