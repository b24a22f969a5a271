/* SPDX-License-Identifier: Apache-2.0
 *
 * rank: the command of the jobs that failures.py measures. It writes to a FIFO that the whole job
 * shares, and does nothing else, so that only the supervisors are measured.
 *
 *     bench-rank FIFO
 *
 * It writes a line when main() begins, and one when SIGTERM comes, the first signal of the stop:
 * "up|term NODE PROCESS NANOSECONDS". NODE is that of pchrun (PCH_NODE_RANK) or of torchrun
 * (GROUP_RANK). Then it ends with 0.
 */
#include "bench/bench.h"

#include <sys/prctl.h>

int main(int argc, char **argv)
{
    int64_t now = bench_now();
    const char *node = getenv("PCH_NODE_RANK");
    if (!node)
        node = getenv("GROUP_RANK");
    if (argc != 2)
        bench_die("usage: rank FIFO");
    /* If its launcher is killed, this process must end, too. torchrun does not end it. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int fd = bench_open_fifo(argv[1]);
    bench_tell(fd, "up", node ? node : "0", now);
    bench_wait_for_term();
    bench_tell(fd, "term", node ? node : "0", bench_now());
    return 0;
}
