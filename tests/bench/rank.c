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

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Short enough for one piece, also when other processes write. */
static void tell(int fd, const char *what, int64_t at)
{
    const char *node = getenv("PCH_NODE_RANK");
    char line[96];
    if (!node)
        node = getenv("GROUP_RANK");
    int n = snprintf(line, sizeof line, "%s %s %d %" PRId64 "\n", what, node ? node : "0",
                     (int)getpid(), at);
    if (n >= (int)sizeof line || write(fd, line, (size_t)n) != n)
        bench_die("cannot write to the FIFO: %s", strerror(errno));
}

int main(int argc, char **argv)
{
    int64_t now = bench_now();
    sigset_t term;
    siginfo_t info;
    if (argc != 2)
        bench_die("usage: rank FIFO");
    /* If its launcher is killed, this process must end, too. torchrun does not see to that. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL);
    int fd = open(argv[1], O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        bench_die("cannot open %s: %s", argv[1], strerror(errno));
    tell(fd, "up", now);
    while (sigwaitinfo(&term, &info) < 0)
        if (errno != EINTR)
            bench_die("sigwaitinfo: %s", strerror(errno));
    tell(fd, "term", bench_now());
    return 0;
}
