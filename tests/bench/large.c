/* SPDX-License-Identifier: Apache-2.0
 *
 * large: a rank of the jobs that dying.py measures. It attaches. Rank 0 allocates memory and waits
 * until it is killed; the other ranks wait for SIGTERM.
 *
 *     bench-large FIFO MIB
 *
 * One line in the FIFO when it is ready, and when SIGTERM has come: "up|term RANK PROCESS
 * NANOSECONDS". It ends with 0.
 */
#include "bench/bench.h"

#include "pch.h"

static void swell(size_t size)
{
    char *memory = malloc(size);
    if (!memory)
        bench_die("no memory");
    memset(memory, 1, size);
    if (memory[size - 1] != 1) /* so that the compiler keeps it */
        abort();
}

int main(int argc, char **argv)
{
    struct pch_options options = PCH_OPTIONS_INIT;
    const char *rank = getenv("PCH_LOCAL_RANK");
    options.flags = PCH_NO_SHIELD;
    if (argc != 3 || !rank)
        bench_die("usage: pchrun -n 2 -- large FIFO MIB");
    int fd = bench_open_fifo(argv[1]);
    pch_t *job = pch_open(&options);
    if (!pch_supervised(job) || pch_step(job, 1) != PCH_CONTINUE)
        bench_die("there is no supervisor");
    if (atoi(rank) == 0)
        swell(strtoul(argv[2], NULL, 10) << 20);
    bench_tell(fd, "up", rank, bench_now());
    bench_wait_for_term();
    bench_tell(fd, "term", rank, bench_now());
    pch_done(job);
    return 0;
}
