/* SPDX-License-Identifier: Apache-2.0
 *
 * ring: a bounded queue of bytes between two threads: one adds, the other takes. Neither waits for
 * the other. Its memory lives as long as the process.
 */
#pragma once

#include "base/err.h"

#include <stdatomic.h>
#include <stddef.h>

/* Totals since the beginning. Another process may read how much is in the ring. */
struct ring_marks {
    _Atomic size_t added, taken;
};

struct ring {
    char *data;
    size_t size;
    struct ring_marks *marks;
};

/* `marks` belongs to the caller, and is set to zero. */
MUST_CHECK bool ring_init(struct ring *ring, size_t size, struct ring_marks *marks);
/* How many bytes are in the ring of these marks. */
size_t ring_marks_used(struct ring_marks *marks);
/* Either thread may call these while the other adds or takes. */
size_t ring_used(struct ring *ring);
size_t ring_room(struct ring *ring);

/* n is at most ring_room(). */
void ring_add(struct ring *ring, const char *bytes, size_t n);

/* Copies up to `size` of the first bytes. */
size_t ring_copy(struct ring *ring, char *bytes, size_t size);
void ring_take(struct ring *ring, size_t n);
