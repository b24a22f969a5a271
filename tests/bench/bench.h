/* SPDX-License-Identifier: Apache-2.0
 *
 * bench: what the measuring programs of this folder share: the clock, the way they print, the way
 * they give up.
 */
#ifndef PCHRUN_BENCH_BENCH_H
#define PCHRUN_BENCH_BENCH_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { STAMP_FD = 200 }; /* where stamp writes; high, for launchers that use the low ones */

static inline int64_t bench_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* One line, the numbers between blanks, out at once: a reader may wait for it. */
static inline void bench_print(const int64_t *numbers, int n)
{
    for (int i = 0; i < n; i++)
        printf("%s%" PRId64, i > 0 ? " " : "", numbers[i]);
    putchar('\n');
    fflush(stdout);
}

/* There is no result, and no use in going on. */
#define bench_die(...) \
    (fprintf(stderr, "bench: " __VA_ARGS__), fputc('\n', stderr), exit(1)) /* NOLINT */

#endif
