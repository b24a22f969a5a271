/* SPDX-License-Identifier: Apache-2.0
 *
 * bench: the parts that this folder's measuring programs share: the clock, the output, the end
 * after a failure.
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

/* Prints one line of numbers, and flushes it, because a reader may wait for it. */
static inline void bench_print(const int64_t *numbers, int n)
{
    for (int i = 0; i < n; i++)
        printf("%s%" PRId64, i > 0 ? " " : "", numbers[i]);
    putchar('\n');
    fflush(stdout);
}

/* Ends the program without a result. */
#define bench_die(...) \
    (fprintf(stderr, "bench: " __VA_ARGS__), fputc('\n', stderr), exit(1)) /* NOLINT */

#endif
