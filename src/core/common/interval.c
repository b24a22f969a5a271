/* SPDX-License-Identifier: Apache-2.0
 * See interval.h.
 */
#include "core/common/interval.h"

#include "base/clock.h"

/* Beyond these a product of two times, in milliseconds, would need more than 63 bits. */
#define SAVE_MAX_MS    INT64_C(10000000)     /* nearly three hours */
#define BETWEEN_MAX_MS INT64_C(400000000000) /* more than twelve years */

static int64_t in_ms(int64_t ns, int64_t most)
{
    return ns < NS_PER_MS ? 1 : clock_min(ns / NS_PER_MS, most);
}

/* The square root of a positive number, rounded down. */
static int64_t root(int64_t number)
{
    int64_t low = 1, high = INT64_C(3037000499); /* its square is just below 2^63 */
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        if (middle <= number / middle)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* The square root is Young's term. Daly's further terms matter if a save takes a good part of the
 * time between two failures. */
static int64_t best_ms(int64_t save, int64_t between)
{
    int64_t young = root(2 * save * between);
    if (save >= 2 * between)
        return between;
    return young + save / 3 + save * save / (9 * young) - save;
}

int64_t interval_best(int64_t save, int64_t between, int64_t least, int64_t most)
{
    int64_t best = best_ms(in_ms(save, SAVE_MAX_MS), in_ms(between, BETWEEN_MAX_MS)) * NS_PER_MS;
    return best < least ? least : clock_min(best, most);
}
