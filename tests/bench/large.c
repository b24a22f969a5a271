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

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* Short enough for one piece, also when other processes write. */
static void tell(int fd, const char *what, int rank)
{
    char line[96];
    int n = snprintf(line, sizeof line, "%s %d %d %" PRId64 "\n", what, rank, (int)getpid(),
                     bench_now());
    if (n >= (int)sizeof line || write(fd, line, (size_t)n) != n)
        bench_die("cannot write to the FIFO: %s", strerror(errno));
}

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
    sigset_t term;
    int number;
    options.flags = PCH_NO_SHIELD;
    if (argc != 3 || !rank)
        bench_die("usage: pchrun -n 2 -- large FIFO MIB");
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL);
    int fd = open(argv[1], O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        bench_die("cannot open %s: %s", argv[1], strerror(errno));
    pch_t *job = pch_open(&options);
    if (!pch_supervised(job) || pch_step(job, 1) != PCH_CONTINUE)
        bench_die("there is no supervisor");
    if (atoi(rank) == 0)
        swell(strtoul(argv[2], NULL, 10) << 20);
    tell(fd, "up", atoi(rank));
    if (sigwait(&term, &number) != 0)
        bench_die("sigwait");
    tell(fd, "term", atoi(rank));
    pch_done(job);
    return 0;
}
