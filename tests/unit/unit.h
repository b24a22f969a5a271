/* SPDX-License-Identifier: Apache-2.0
 *
 * unit: the common parts of the unit tests, with the headers of the C library that most of them
 * need. The other headers of this folder include it. Processes that a test starts must exec or
 * _exit; the test runs in a worker process of its own, and asserts at its end that no child is left
 * (unit_no_children).
 */
#pragma once

#include <criterion/criterion.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A test whose end() runs in the test itself: Criterion does not count a failure in .fini. */
#define EndedTest(suite, name, end)   \
    static void suite##_##name(void); \
    Test(suite, name)                 \
    {                                 \
        suite##_##name();             \
        end();                        \
    }                                 \
    static void suite##_##name(void)

/* Far above the time of any wait, even on a busy machine. */
#define UNIT_DEADLINE_MS 60000

/* Cuts `text` at its spaces into at most `max` - 1 words, with NULL behind them. */
static inline char **unit_cut(char *text, char **words, size_t max)
{
    size_t n = 0;
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
        cr_assert(n + 1 < max);
        words[n++] = word;
    }
    words[n] = NULL;
    return words;
}

/* Waits until the descriptor has something to read, its end included. */
static inline bool unit_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, UNIT_DEADLINE_MS) == 1;
}

/* The wait status of one child, -1 on failure. */
static inline int unit_wait(pid_t pid)
{
    int status;
    return waitpid(pid, &status, 0) == pid ? status : -1;
}

/* Waits until a child has ended. It stays a zombie. */
static inline void unit_await_end(void)
{
    siginfo_t info;
    cr_assert_eq(waitid(P_ALL, 0, &info, WEXITED | WNOWAIT), 0);
}

/* Reaps until none of the processes is left that this struct reap watches. */
#define UNIT_SETTLE(reap)      \
    do {                       \
        while ((reap).first) { \
            unit_await_end();  \
            reap_all(&(reap)); \
        }                      \
    } while (0)

static inline bool unit_no_children(void)
{
    return waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD;
}

/* Waits for the end of every child. */
static inline void unit_reap_all(void)
{
    while (waitpid(-1, NULL, 0) > 0)
        continue;
}

/* As in pchrun. */
static inline void unit_block_sigchld(void)
{
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    cr_assert_eq(sigprocmask(SIG_BLOCK, &child, NULL), 0);
}

/* Open descriptors, and a few entries more that are always there: to be compared. */
static inline int unit_count_fds(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    cr_assert(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}
