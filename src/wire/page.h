/* SPDX-License-Identifier: Apache-2.0
 *
 * page: the memory that a supervisor and one training process share, two pages of one sealed memfd.
 *
 * The first page is written by the supervisor alone; the process gets it so that it cannot be
 * mapped writable. The second is the process's own; whatever the supervisor reads from it is
 * untrusted. Each word that is stored at every step has a cache line of its own. The layout is a
 * protocol: a change of it changes PAGE_VERSION.
 */
#ifndef PCHRUN_WIRE_PAGE_H
#define PCHRUN_WIRE_PAGE_H

#include <stdatomic.h>
#include <stdint.h>

#define PAGE_VERSION     1
#define PAGE_SIZE_BYTES  4096
#define PAGE_TOTAL_BYTES (2 * PAGE_SIZE_BYTES)
#define PAGE_MAGIC       UINT32_C(0x48435031) /* "1PCH" */

/* Written by the supervisor. */
struct page_supervisor {
    uint32_t magic;
    uint32_t version;
    _Alignas(64) _Atomic uint64_t gate; /* gate.h */
    /* A robust futex: the supervisor's thread id while it lives; the kernel sets FUTEX_OWNER_DIED
     * in it when that thread ends in any way. */
    _Alignas(64) _Atomic uint32_t alive;
    /* The live notice: `notice_seq` is odd while the text is being changed. */
    _Alignas(64) _Atomic uint32_t notice_seq;
    uint32_t notice_len;
    int64_t notice_deadline_ns; /* CLOCK_MONOTONIC, INT64_MAX: none */
    char notice_text[256];
};

/* Written by the process. */
struct page_process {
    _Alignas(64) _Atomic uint64_t step;  /* finished steps */
    _Alignas(64) _Atomic uint32_t phase; /* enum pch_phase */
};

_Static_assert(sizeof(struct page_supervisor) <= PAGE_SIZE_BYTES, "one page");
_Static_assert(sizeof(struct page_process) <= PAGE_SIZE_BYTES, "one page");

#endif
