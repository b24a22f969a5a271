/* SPDX-License-Identifier: Apache-2.0
 *
 * procpage: the supervisor's side of the two pages that it shares with one training process
 * (wire/page.h).
 *
 * A struct procpage owns its mappings, the process's memfd, and the supervisor's memfd until
 * procpage_hand_over(). procpage_release() ends it. Making one fails when descriptors or memory are
 * short, or before Linux 5.1. The liveness word is the futex of a robust pthread mutex that the
 * making thread holds. The kernel has one list of such mutexes per thread, and the C library owns
 * this list. So pchrun must use the C library's mutex. The process can read the addresses in this
 * list, but they give it no further access. All calls belong to the thread that made the page.
 */
#pragma once

#include "base/err.h"
#include "wire/page.h"

#include <stddef.h>
#include <stdint.h>

enum { PROCPAGE_SUPERVISOR, PROCPAGE_PROCESS, PROCPAGE__COUNT };

struct procpage {
    struct page_supervisor *supervisor; /* NULL: none */
    const struct page_process *process; /* untrusted */
    int fd[PROCPAGE__COUNT];            /* the supervisor's: -1 once handed over */
};

static const struct procpage procpage_none = {.fd = {-1, -1}};

/* Makes both pages, with the gate word in the supervisor's and `step` in the process's. */
MUST_CHECK bool procpage_make(struct procpage *ret, uint64_t gate, uint64_t step, struct err *err);
/* Sends a frame with the memfds, then closes the supervisor's. Returns 0 or an errno. */
int procpage_hand_over(struct procpage *page, int socket, const uint8_t *data, size_t size);
/* Tells the process that the supervisor has ended the connection. Frees the pages. Idempotent. */
void procpage_release(struct procpage *page);

/* Where a process shows the stacks of its threads. */
struct procpage_stacks {
    int number;       /* the signal for it, a real-time one */
    const char *text; /* PAGE_STACKS_BYTES, untrusted; a NUL follows what the process has written */
    uint64_t device, inode; /* of the memfd that the process writes to */
};

/* Empties the room for the stacks. False: the process does not show them. */
MUST_CHECK bool procpage_clear_stacks(const struct procpage *page, struct procpage_stacks *ret);

/* The text is cut to the room in the page. */
void procpage_set_notice(struct procpage *page, const char *text, int64_t deadline_ns);

static inline void procpage_set_gate(struct procpage *page, uint64_t word)
{
    atomic_store(&page->supervisor->gate, word);
}

/* A phase of wire/page.h; an invalid value counts as PAGE_TRAIN. */
static inline uint8_t procpage_phase(const struct procpage *page)
{
    uint32_t phase = atomic_load_explicit(&page->process->phase, memory_order_relaxed);
    return phase < PAGE_PHASES ? (uint8_t)phase : PAGE_TRAIN;
}

/* At `now`. A time of a step beyond PAGE_OWN_MAX counts as unknown. */
static inline struct page_own procpage_own(const struct procpage *page, int64_t now)
{
    uint64_t own = atomic_load_explicit(&page->process->own_ns, memory_order_relaxed);
    uint64_t whole = atomic_load_explicit(&page->process->whole_ns, memory_order_relaxed);
    uint64_t loading = atomic_load_explicit(&page->process->loading, memory_order_relaxed);
    return (struct page_own){.own_ns = own <= PAGE_OWN_MAX ? own : 0,
                             .whole_ns = whole <= PAGE_OWN_MAX ? whole : 0,
                             .loading_ns = page_loading_ns(loading, now)};
}

static inline uint64_t procpage_step(const struct procpage *page)
{
    return atomic_load(&page->process->step);
}
