/* SPDX-License-Identifier: Apache-2.0
 *
 * heap: what is to happen in virtual time, first by time, then by order of entry. Its items are all
 * of one type, which begins with the two fields of struct due; `size` is that type's. Owns its
 * memory: heap_free(). If memory is short, the process ends. The functions are inline, because the
 * simulator calls them for every event, and a known size makes them fast.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct due {
    int64_t at;
    uint64_t seq;
};

struct heap {
    char *items;
    size_t n, cap;
};

static inline struct due heap_due(const void *item)
{
    struct due due;
    memcpy(&due, item, sizeof due);
    return due;
}

static inline bool heap_is_before(const void *a, const void *b)
{
    struct due x = heap_due(a), y = heap_due(b);
    return x.at != y.at ? x.at < y.at : x.seq < y.seq;
}

static inline void heap_add(struct heap *heap, const void *item, size_t size)
{
    if (heap->n == heap->cap) {
        heap->cap = heap->cap ? 2 * heap->cap : 1024;
        heap->items = realloc(heap->items, heap->cap * size);
        if (!heap->items) {
            fprintf(stderr, "pchrun-sim: memory is short\n");
            exit(1);
        }
    }
    char *items = heap->items;
    size_t i = heap->n++;
    for (; i > 0 && heap_is_before(item, items + (i - 1) / 2 * size); i = (i - 1) / 2)
        memcpy(items + i * size, items + (i - 1) / 2 * size, size);
    memcpy(items + i * size, item, size);
}

/* The heap must have an item. */
static inline void heap_take(struct heap *heap, void *ret, size_t size)
{
    char *items = heap->items, *last = items + --heap->n * size;
    size_t i = 0;
    memcpy(ret, items, size);
    for (size_t child; (child = 2 * i + 1) < heap->n; i = child) {
        if (child + 1 < heap->n && heap_is_before(items + (child + 1) * size, items + child * size))
            child++;
        if (!heap_is_before(items + child * size, last))
            break;
        memcpy(items + i * size, items + child * size, size);
    }
    memmove(items + i * size, last, size);
}

static inline void heap_free(struct heap *heap)
{
    free(heap->items);
    *heap = (struct heap){0};
}
