/* SPDX-License-Identifier: Apache-2.0
 *
 * launch: measures the time of commands that wrap another command, round by round, in random order.
 *
 *     launch run  ROUNDS , COMMAND [ARGUMENT ...] , COMMAND ...    until its end
 *     launch main ROUNDS , COMMAND [ARGUMENT ...] , COMMAND ...    until the main() of stamp
 *
 * Prints a line for each round: nanoseconds, in the order of the commands. For "main" every command
 * ends in this folder's stamp, which writes the time to STAMP_FD. If a command fails, launch ends
 * with 1. It is small and in C because its own fork and exec are part of the measured time.
 */
#include "bench/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COMMANDS_MAX = 16 };

extern char **environ;

struct launch {
    char **commands[COMMANDS_MAX];
    int n;
    int stamps; /* read end of the pipe that stamp writes to, -1: the whole run is measured */
};

static int64_t read_stamp(int fd, const char *name)
{
    int64_t at;
    if (read(fd, &at, sizeof at) != (ssize_t)sizeof at)
        bench_die("'%s' has not started stamp", name);
    return at;
}

static int64_t measure(const struct launch *launch, char **argv)
{
    pid_t pid;
    int status;
    int64_t from = bench_now();
    int why = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);
    if (why != 0)
        bench_die("cannot start '%s': %s", argv[0], strerror(why));
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            bench_die("waitpid: %s", strerror(errno));
    int64_t to = bench_now();
    if (status != 0)
        bench_die("'%s' has ended with status %d", argv[0], status);
    return (launch->stamps < 0 ? to : read_stamp(launch->stamps, argv[0])) - from;
}

static void measure_round(const struct launch *launch, int64_t *took)
{
    int order[COMMANDS_MAX];
    for (int i = 0; i < launch->n; i++)
        order[i] = i;
    for (int i = launch->n - 1; i > 0; i--) {
        int j = (int)(random() % (i + 1)), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    for (int i = 0; i < launch->n; i++)
        took[order[i]] = measure(launch, launch->commands[order[i]]);
}

static void open_stamps(struct launch *launch)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0 || dup2(ends[1], STAMP_FD) != STAMP_FD)
        bench_die("no pipe: %s", strerror(errno));
    close(ends[1]);
    launch->stamps = ends[0];
}

/* The commands begin behind each lone ",", which also ends the command before it. */
static void split(struct launch *launch, char **args)
{
    for (; *args; args++) {
        if (strcmp(*args, ",") != 0)
            continue;
        *args = NULL;
        if (launch->n == COMMANDS_MAX || !args[1])
            bench_die("1 to %d commands, each behind a \",\"", COMMANDS_MAX);
        launch->commands[launch->n++] = args + 1;
    }
}

int main(int argc, char **argv)
{
    struct launch launch = {.stamps = -1};
    bool is_main = argc > 3 && strcmp(argv[1], "main") == 0;
    if (argc < 5 || (!is_main && strcmp(argv[1], "run") != 0))
        bench_die("usage: launch run|main ROUNDS , COMMAND [ARGUMENT ...] [, COMMAND ...]");
    int rounds = atoi(argv[2]);
    split(&launch, argv + 3);
    if (is_main)
        open_stamps(&launch);
    srandom((unsigned)bench_now());
    for (int round = 0; round < rounds; round++) {
        int64_t took[COMMANDS_MAX];
        measure_round(&launch, took);
        bench_print(took, launch.n);
    }
    return 0;
}
