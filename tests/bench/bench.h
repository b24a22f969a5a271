/* SPDX-License-Identifier: Apache-2.0
 *
 * bench: the parts that this folder's measuring programs share: the clock, the output, the FIFO of
 * a job, the end after a failure.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { STAMP_FD = 200 }; /* where stamp writes; a high number, since launchers use low ones */

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

/* Blocks SIGTERM, for bench_wait_for_term(), and opens the FIFO that the whole job shares. */
static inline int bench_open_fifo(const char *path)
{
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        bench_die("cannot open %s: %s", path, strerror(errno));
    return fd;
}

/* A line, short enough for one piece, also when other processes write: "WHAT WHO PROCESS TIME". */
static inline void bench_tell(int fd, const char *what, const char *who, int64_t at)
{
    char line[96];
    int n = snprintf(line, sizeof line, "%s %s %d %" PRId64 "\n", what, who, (int)getpid(), at);
    if (n >= (int)sizeof line || write(fd, line, (size_t)n) != n)
        bench_die("cannot write to the FIFO: %s", strerror(errno));
}

static inline void bench_wait_for_term(void)
{
    sigset_t term;
    siginfo_t info;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    while (sigwaitinfo(&term, &info) < 0)
        if (errno != EINTR)
            bench_die("sigwaitinfo: %s", strerror(errno));
}
