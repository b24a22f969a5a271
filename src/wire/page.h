/* SPDX-License-Identifier: Apache-2.0
 *
 * page: the memory that a supervisor and one training process share, two memfds of one page each.
 * Behind the process's page its memfd has room for the stacks of the process's threads, as text.
 *
 * Only the supervisor writes the first page; its memfd is sealed against new writable mappings. The
 * process writes the second page, so the supervisor must not trust it. Both are sealed against a
 * change of size, so that neither side can make the other fault. Each word that is stored at every
 * step has its own cache line. The layout is a protocol: raise PAGE_VERSION with each change.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PAGE_VERSION      4
#define PAGE_SIZE_BYTES   4096
#define PAGE_STACKS_BYTES (512 * 1024)
#define PAGE_MAGIC        UINT32_C(0x48435031) /* "1PCH" */

/* Written by the supervisor. */
struct page_supervisor {
    uint32_t magic;
    uint32_t version;
    _Alignas(64) _Atomic uint64_t gate; /* gate.h */
    /* The futex word of a robust mutex that the supervisor holds: its thread id while it lives. The
     * kernel removes the id when that thread ends in any way; the supervisor removes it when it
     * releases the process. The rest of the mutex belongs to the C library. */
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

/* The same as enum pch_phase. */
enum page_phase { PAGE_START, PAGE_TRAIN, PAGE_EVAL, PAGE_COMPILE, PAGE_SAVE, PAGE_PHASES };
/* "train"; "?": no phase has this number. */
static inline const char *page_phase_name(unsigned phase)
{
    static const char *const names[PAGE_PHASES] = {"start", "train", "eval", "compile", "save"};
    return phase < PAGE_PHASES ? names[phase] : "?";
}

/* The threads that hold a mutex as long as they live: the attaching thread, and the training thread
 * if it is another. */
enum page_holder { PAGE_OPENER, PAGE_TRAINER, PAGE_HOLDS };

/* Written by the process. */
struct page_process {
    _Alignas(64) _Atomic uint64_t step;  /* finished steps */
    _Alignas(64) _Atomic uint32_t phase; /* enum page_phase */
    /* A step of the last windows with marked waits, see libpch/waits.c; 0: unknown. They change too
     * seldom to need a cache line of their own. */
    _Atomic uint64_t own_ns;   /* its time without the waits */
    _Atomic uint64_t whole_ns; /* all of its time */
    _Atomic uint64_t loading;  /* page_loading_ns() */
    /* The futex words of robust mutexes. One thread of the process holds each mutex. The word is 0,
     * or the thread's id with PAGE_WAITERS. The kernel replaces it by PAGE_DIED and wakes the
     * waiters when the thread ends or begins another program. That is before it frees the memory of
     * the process. The rest of a mutex belongs to the C library. */
    union {
        _Alignas(64) _Atomic uint32_t word;
        uint8_t room[64];
    } holds[PAGE_HOLDS];
    /* A real-time signal. On it, the process and its forks write the stacks of their threads to the
     * memfd, at its file offset, which the supervisor has put behind the page. 0: they do not. */
    _Alignas(64) _Atomic uint32_t stacks_signal;
};

/* The process's times, as its page shows them. */
struct page_own {
    uint64_t own_ns, whole_ns; /* of a step; 0: unknown */
    uint64_t loading_ns;       /* in which it has waited for data since it attached */
};
#define PAGE_OWN_MAX (INT64_MAX / 1024) /* three months; no product of such times overflows */

/* In `loading`: the process waits for data. The rest of the word then is the moment at which it
 * would have begun to, had it waited for all of its data in a row. So one word is exact at any
 * time. */
#define PAGE_IS_LOADING (UINT64_C(1) << 63)

/* The time so far, which is also the word after an end: a second end changes nothing. */
static inline uint64_t page_loading_ns(uint64_t loading, int64_t now)
{
    uint64_t since = loading & ~PAGE_IS_LOADING;
    if (!(loading & PAGE_IS_LOADING))
        return loading;
    return (uint64_t)now > since ? (uint64_t)now - since : 0;
}

/* The word after a begin. A second one changes nothing. */
static inline uint64_t page_loading_begin(uint64_t loading, int64_t now)
{
    return (loading & PAGE_IS_LOADING) ? loading : PAGE_IS_LOADING | ((uint64_t)now - loading);
}

#define PAGE_ALIVE_MASK UINT32_C(0x3fffffff) /* the thread id in `alive` (FUTEX_TID_MASK) */
#define PAGE_DIED       UINT32_C(0x40000000) /* set by the kernel (FUTEX_OWNER_DIED) */
#define PAGE_WAITERS    UINT32_C(0x80000000) /* the word has a waiter (FUTEX_WAITERS) */

static inline bool page_is_alive(const struct page_supervisor *page)
{
    return atomic_load_explicit(&page->alive, memory_order_relaxed) & PAGE_ALIVE_MASK;
}

/* The supervisor is not alive. True if it released the process; false if it died before that. */
static inline bool page_was_released(const struct page_supervisor *page)
{
    return !(atomic_load_explicit(&page->alive, memory_order_relaxed) & PAGE_DIED);
}

_Static_assert(sizeof(struct page_supervisor) <= PAGE_SIZE_BYTES, "one page");
_Static_assert(sizeof(struct page_process) <= PAGE_SIZE_BYTES, "one page");
