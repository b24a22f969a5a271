/* SPDX-License-Identifier: Apache-2.0
 * See ring.h.
 */
#include "tee/ring.h"

#include <stdlib.h>
#include <string.h>

bool ring_init(struct ring *ring, size_t size, struct ring_marks *marks)
{
    *ring = (struct ring){.data = malloc(size), .size = size, .marks = marks};
    atomic_store(&marks->taken, 0);
    atomic_store(&marks->added, 0);
    return ring->data != NULL;
}

size_t ring_marks_used(struct ring_marks *marks)
{
    size_t taken = atomic_load(&marks->taken); /* read first: it never passes `added` */
    return atomic_load(&marks->added) - taken;
}

size_t ring_used(struct ring *ring)
{
    return ring_marks_used(ring->marks);
}

size_t ring_room(struct ring *ring)
{
    return ring->size - ring_used(ring);
}

/* How many of n bytes from position `at` lie before the end of the memory. */
static size_t until_end(const struct ring *ring, size_t at, size_t n)
{
    size_t left = ring->size - at % ring->size;
    return n < left ? n : left;
}

void ring_add(struct ring *ring, const char *bytes, size_t n)
{
    size_t at = atomic_load(&ring->marks->added), len = until_end(ring, at, n);
    memcpy(ring->data + at % ring->size, bytes, len);
    memcpy(ring->data, bytes + len, n - len);
    atomic_store(&ring->marks->added, at + n);
}

size_t ring_copy(struct ring *ring, char *bytes, size_t size)
{
    size_t at = atomic_load(&ring->marks->taken), n = ring_used(ring);
    if (n > size)
        n = size;
    size_t len = until_end(ring, at, n);
    memcpy(bytes, ring->data + at % ring->size, len);
    memcpy(bytes + len, ring->data, n - len);
    return n;
}

void ring_take(struct ring *ring, size_t n)
{
    atomic_fetch_add(&ring->marks->taken, n);
}
