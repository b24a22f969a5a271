/* SPDX-License-Identifier: Apache-2.0
 *
 * ring: a bounded queue of bytes between two threads: one adds, another takes. Neither waits for
 * the other here. Owns its memory: ring_free().
 */
#ifndef PCHRUN_TEE_RING_H
#define PCHRUN_TEE_RING_H

#include "base/err.h"

#include <stdatomic.h>
#include <stddef.h>

/* In all, since the beginning. Somebody else may see how much is in it. */
struct ring_marks {
    _Atomic size_t added, taken;
};

struct ring {
    char *data;
    size_t size;
    struct ring_marks *marks;
};

/* `marks` is the caller's, and begins anew. */
MUST_CHECK bool ring_init(struct ring *ring, size_t size, struct ring_marks *marks);
void ring_free(struct ring *ring);
/* Of the one that these are of. */
size_t ring_marks_used(struct ring_marks *marks);
/* Either thread; more may become free, or be used, at any time by the other. */
size_t ring_used(struct ring *ring);
size_t ring_room(struct ring *ring);

/* n is at most ring_room(). */
void ring_add(struct ring *ring, const char *bytes, size_t n);

/* The first bytes, as far as they lie in one piece; *ret_n may be 0. They stay until ring_take().
 */
const char *ring_first(struct ring *ring, size_t *ret_n);
/* A copy of the first bytes, of up to `size` of them. */
size_t ring_copy(struct ring *ring, char *bytes, size_t size);
void ring_take(struct ring *ring, size_t n);

#endif
