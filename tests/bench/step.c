/* SPDX-License-Identifier: Apache-2.0
 *
 * step: measures pch_step() of an attached process beside a bare store and load: sequentially
 * consistent, of two words on cache lines of their own, as in pch_step().
 *
 *     pchrun -- bench-step ROUNDS
 *
 * Prints a line for each round: nanoseconds for CALLS calls, measured in an order that changes. The
 * numbers are of pch_step, of the bare pair, of pch_step with one marked wait, and of pch_step with
 * one marked wait for data.
 */
#include "bench/bench.h"

#include <pch.h>
#include <stdatomic.h>

enum { CALLS = 2000000, WARM_UP = 3 };

static struct {
    _Alignas(64) _Atomic uint64_t step;
    _Alignas(64) _Atomic uint64_t gate;
} the_page = {.gate = UINT64_MAX};

static int64_t measure_pch(pch_t *job, uint64_t step)
{
    int64_t from = bench_now();
    for (int i = 0; i < CALLS; i++)
        if (pch_step(job, ++step) != PCH_CONTINUE)
            bench_die("asked to save or to leave");
    return bench_now() - from;
}

/* The loop is the same, with a branch on the loaded value. */
static int64_t measure_bare(pch_t *job, uint64_t step)
{
    int64_t from = bench_now();
    for (int i = 0; i < CALLS; i++) {
        atomic_store(&the_page.step, ++step);
        if (atomic_load(&the_page.gate) <= step)
            bench_die("the gate is closed");
    }
    return bench_now() - from;
}

static int64_t measure_waits(pch_t *job, uint64_t step)
{
    int64_t from = bench_now();
    for (int i = 0; i < CALLS; i++) {
        pch_wait_begin(job);
        pch_wait_end(job);
        if (pch_step(job, ++step) != PCH_CONTINUE)
            bench_die("asked to save or to leave");
    }
    return bench_now() - from;
}

static int64_t measure_loading(pch_t *job, uint64_t step)
{
    int64_t from = bench_now();
    for (int i = 0; i < CALLS; i++) {
        pch_load_begin(job);
        pch_load_end(job);
        if (pch_step(job, ++step) != PCH_CONTINUE)
            bench_die("asked to save or to leave");
    }
    return bench_now() - from;
}

int main(int argc, char **argv)
{
    enum { KINDS = 4 };
    int64_t (*const measure[KINDS])(pch_t *, uint64_t) = {measure_pch, measure_bare, measure_waits,
                                                          measure_loading};
    if (argc != 2)
        bench_die("usage: step ROUNDS");
    pch_t *job = pch_open(NULL);
    if (!pch_supervised(job))
        bench_die("there is no pchrun");
    srandom((unsigned)bench_now());
    for (int round = 0; round < WARM_UP + atoi(argv[1]); round++) {
        int64_t took[KINDS];
        long first = random() % KINDS;
        for (long i = 0; i < KINDS; i++) {
            long kind = (first + i) % KINDS;
            took[kind] = measure[kind](job, (uint64_t)round * CALLS);
        }
        if (round >= WARM_UP)
            bench_print(took, KINDS);
    }
    pch_done(job);
    pch_close(job);
    return 0;
}
