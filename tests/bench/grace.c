/* SPDX-License-Identifier: Apache-2.0
 *
 * grace: the training of a job that grace.py preempts. Steps and saves are sleeps.
 *
 *     bench-grace STEP_MS SAVE_MS SEED
 *
 * A save takes SAVE_MS or up to half as long again, by chance from the seed. It prints a line for
 * each step, and for each save that was committed: "step|saved NUMBER BEGUN ENDED", the times in
 * nanoseconds of CLOCK_MONOTONIC. It ends with 0 when pchrun asks it to leave.
 */
#include "bench/bench.h"

#include <pch.h>

static void rest(int64_t ns)
{
    struct timespec left = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    while (nanosleep(&left, &left) != 0)
        ;
}

static void tell(const char *what, uint64_t number, int64_t begun, int64_t ended)
{
    printf("%s %" PRIu64 " %" PRId64 " %" PRId64 "\n", what, number, begun, ended);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        bench_die("usage: grace STEP_MS SAVE_MS SEED");
    int64_t step_ns = atoll(argv[1]) * 1000000;
    int64_t save_ns = atoll(argv[2]) * 1000000;
    unsigned seed = (unsigned)atoi(argv[3]);
    pch_t *job = pch_open(NULL);
    enum pch_action next = PCH_CONTINUE;
    for (uint64_t step = pch_resume_step(job) + 1; next != PCH_EXIT; step++) {
        int64_t begun = bench_now();
        rest(step_ns);
        tell("step", step, begun, bench_now());
        next = pch_step(job, step);
        if (next != PCH_SAVE)
            continue;
        begun = bench_now();
        rest(save_ns + save_ns / 2 * (rand_r(&seed) % 1001) / 1000);
        int64_t ended = bench_now();
        next = pch_saved(job, step, "/dev/null");
        tell("saved", step, begun, ended);
    }
    pch_close(job);
    return 0;
}
