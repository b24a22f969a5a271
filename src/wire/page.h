/* SPDX-License-Identifier: Apache-2.0
 *
 * page: the memory that a supervisor and one training process share, two memfds of one page each.
 *
 * The first page is written by the supervisor alone; its memfd is sealed so that nobody can map it
 * writable any more. The second is the process's own; whatever the supervisor reads from it is
 * untrusted. Both are sealed against a change of their size, so that neither side can make the
 * other fault. Each word that is stored at every step has a cache line of its own. The layout is a
 * protocol: a change of it changes PAGE_VERSION.
 */
#ifndef PCHRUN_WIRE_PAGE_H
#define PCHRUN_WIRE_PAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PAGE_VERSION    1
#define PAGE_SIZE_BYTES 4096
#define PAGE_MAGIC      UINT32_C(0x48435031) /* "1PCH" */

/* Written by the supervisor. */
struct page_supervisor {
    uint32_t magic;
    uint32_t version;
    _Alignas(64) _Atomic uint64_t gate; /* gate.h */
    /* The futex word of a robust mutex that the supervisor holds: its thread id while it lives. The
     * kernel takes the id out when that thread ends in any way; the supervisor does when it lets
     * the process go. The rest of the mutex is its C library's business. */
    union {
        _Alignas(64) _Atomic uint32_t alive;
        uint8_t alive_room[64];
    };
    /* The live notice: `notice_seq` is odd while the text is being changed. */
    _Alignas(64) _Atomic uint32_t notice_seq;
    uint32_t notice_len;
    int64_t notice_deadline_ns; /* CLOCK_MONOTONIC, INT64_MAX: none */
    char notice_text[256];
};

/* What a process is doing, as in enum pch_phase. */
enum page_phase { PAGE_START, PAGE_TRAIN, PAGE_EVAL, PAGE_COMPILE, PAGE_SAVE, PAGE_PHASES };

/* The threads that hold something as long as they live: the one that attached, and the one that
 * trains if that is another. */
enum page_holder { PAGE_OPENER, PAGE_TRAINER, PAGE_HOLDS };

/* Written by the process. */
struct page_process {
    _Alignas(64) _Atomic uint64_t step;  /* finished steps */
    _Alignas(64) _Atomic uint32_t phase; /* enum page_phase */
    /* The futex words of robust mutexes, each held by one thread of the process: 0, or its thread
     * id with PAGE_WAITERS. The kernel puts PAGE_DIED in its place when the thread ends or begins
     * another program, which is before the memory of the process is taken down, and wakes who
     * waits. The rest of a mutex is its C library's business. */
    union {
        _Alignas(64) _Atomic uint32_t word;
        uint8_t room[64];
    } holds[PAGE_HOLDS];
};

#define PAGE_ALIVE_MASK UINT32_C(0x3fffffff) /* the thread id in `alive` (FUTEX_TID_MASK) */
#define PAGE_DIED       UINT32_C(0x40000000) /* set by the kernel (FUTEX_OWNER_DIED) */
#define PAGE_WAITERS    UINT32_C(0x80000000) /* somebody waits for the word (FUTEX_WAITERS) */

static inline bool page_is_alive(const struct page_supervisor *page)
{
    return atomic_load_explicit(&page->alive, memory_order_relaxed) & PAGE_ALIVE_MASK;
}

/* Not alive: did the supervisor let the process go (or did the kernel find it dead)? */
static inline bool page_was_released(const struct page_supervisor *page)
{
    return !(atomic_load_explicit(&page->alive, memory_order_relaxed) & PAGE_DIED);
}

_Static_assert(sizeof(struct page_supervisor) <= PAGE_SIZE_BYTES, "one page");
_Static_assert(sizeof(struct page_process) <= PAGE_SIZE_BYTES, "one page");

#endif
