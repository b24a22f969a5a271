/* SPDX-License-Identifier: Apache-2.0
 *
 * test_logs: what commands print over several generations, and an end that comes in time. The test
 * itself prints: it writes to what would be the commands' standard output and error.
 */
#include "logs/logs.h"

#include "folder.h"

#include "base/clock.h"
#include "base/fd.h"

#include <sys/signalfd.h>

static struct config config;
static struct core_params params;
static struct reap reap;
static struct loop loop;
static struct watch children, limit;
static int signals;
static struct logs logs;
static bool is_late;

static void on_child(void *ctx)
{
    struct signalfd_siginfo info;
    cr_assert_eq(read(signals, &info, sizeof info), sizeof info);
    reap_all(&reap);
}

static void on_limit(void *ctx)
{
    is_late = true;
}

static void begin(void)
{
    sigset_t set;
    struct err err;
    folder_make();
    config = (struct config){.procs = {.count = 2, .count_is_set = true},
                             .logs = {.dir = folder, .lines = 5}};
    params = (struct core_params){.children = 2, .node_rank = 3};
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signals = signalfd(-1, &set, SFD_CLOEXEC);
    loop = (struct loop){.base = watch_open(&err)};
    cr_assert(loop.base);
    watch_init(&children, loop.base, on_child, NULL);
    watch_init(&limit, loop.base, on_limit, NULL);
    cr_assert(watch_fd(&children, signals, &err));
    logs = (struct logs){.config = &config, .params = &params, .reap = &reap, .loop = &loop};
    cr_assert(logs_open(&logs, &err), "%s", err.text);
}

static void end(void)
{
    logs_free(&logs);
    watch_end(&children);
    watch_end(&limit);
    watch_close(loop.base);
    close(signals);
    unit_reap_all(); /* those that logs_free() has killed */
    folder_remove();
}

TestSuite(logs, .init = begin, .fini = end);

/* Waits until all output is kept; returns how long it took, in milliseconds. */
static int64_t wait_for_end(int64_t deadline)
{
    int64_t at = clock_now_ns();
    watch_at(&limit, at + UNIT_DEADLINE_MS * NS_PER_MS);
    logs_end(&logs, deadline);
    while (logs_is_busy(&logs) && !is_late)
        cr_assert(watch_turn(loop.base));
    cr_assert_not(is_late);
    return (clock_now_ns() - at) / NS_PER_MS;
}

/* A generation of commands that write this, with their index, and end. *keep, unless it is NULL, is
 * a copy of the first one's standard output. */
static void generation(uint32_t number, const char *what, int *keep)
{
    struct err err;
    int output[LOGS_STREAM__COUNT];
    cr_assert(logs_begin(&logs, 7, number, &err), "%s", err.text);
    for (int i = 0; i < params.children; i++) {
        logs_output(&logs, i, output);
        cr_assert_gt(dprintf(output[LOGS_STDOUT], "%s %d\n", what, i), 0);
        cr_assert_gt(dprintf(output[LOGS_STDERR], "error of %s %d\n", what, i), 0);
        if (i == 0 && keep)
            *keep = fcntl(output[LOGS_STDOUT], F_DUPFD_CLOEXEC, 3);
    }
    logs_begun(&logs);
}

static const char *content(const char *name)
{
    static char text[256];
    char path[128];
    snprintf(path, sizeof path, "%s/attempt.7/%s", folder, name);
    FD_CLEANUP int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    text[n < 0 ? 0 : n] = '\0';
    return n < 0 ? "?" : text;
}

Test(logs, each_generation_has_its_own)
{
    char text[256];
    generation(0, "first", NULL);
    generation(1, "second", NULL);
    generation(2, "third", NULL);
    cr_expect_str_eq(logs_error_lines(&logs, 1, NS_PER_S, text, sizeof text), "error of third 1");
    cr_expect(logs_last_at(&logs) > 0 && logs_last_at(&logs) <= clock_now_ns());
    wait_for_end(CLOCK_NEVER);
    cr_expect_str_eq(content("gen.0/rank.6.stdout"), "first 0\n");
    cr_expect_str_eq(content("gen.0/rank.7.stderr"), "error of first 1\n");
    cr_expect_str_eq(content("gen.1/rank.6.stdout"), "second 0\n");
    cr_expect_str_eq(content("gen.2/rank.7.stdout"), "third 1\n");
    cr_expect_str_eq(logs_error_lines(&logs, 0, 0, text, sizeof text), "error of third 0");
    cr_expect(unit_no_children());
}

/* A process of the former generation holds the pipe. The next generation does not wait for it; its
 * next write fails. */
Test(logs, who_stays_does_not_hold_up_the_next)
{
    int kept = -1;
    generation(0, "first", &kept);
    generation(1, "second", NULL);
    int64_t took = wait_for_end(CLOCK_NEVER);
    cr_expect_geq(took, 500);
    cr_expect_str_eq(content("gen.0/rank.6.stdout"), "first 0\n");
    cr_expect_str_eq(content("gen.1/rank.6.stdout"), "second 0\n");
    signal(SIGPIPE, SIG_IGN);
    cr_expect_eq(write(kept, "x", 1), -1);
    cr_expect_eq(errno, EPIPE);
    fd_close(&kept);
}

/* The ends do not use up the time of the notice. Without a deadline each end would take a second.
 * On a busy machine one end may take longer. */
Test(logs, the_end_keeps_to_its_deadline)
{
    int64_t took = 900;
    for (int i = 0; i < 10 && took >= 900; i++) {
        int kept = -1;
        if (i > 0) {
            end();
            begin();
        }
        generation(0, "only", &kept);
        took = wait_for_end(clock_now_ns() + 200 * NS_PER_MS);
        cr_expect_str_eq(content("gen.0/rank.6.stdout"), "only 0\n");
        fd_close(&kept);
    }
    cr_expect_lt(took, 900);
}

/* Nothing was printed, or no output was asked for. */
Test(logs, nothing)
{
    struct err err;
    char text[64] = "?";
    int output[LOGS_STREAM__COUNT] = {-7, -8};
    cr_expect_eq(logs_last_at(&logs), 0);
    cr_expect_str_eq(logs_error_lines(&logs, 0, 0, text, sizeof text), "");
    logs_output(&logs, 0, output);
    cr_expect(output[LOGS_STDOUT] == -7 && output[LOGS_STDERR] == -8);
    cr_expect_not(logs_is_busy(&logs));
    cr_assert(logs_begin(&logs, 7, 0, &err), "%s", err.text);
    logs_begun(&logs);
    cr_expect_eq(logs_last_at(&logs), 0);
    cr_expect_str_eq(logs_error_lines(&logs, 0, 0, text, sizeof text), "");
    wait_for_end(CLOCK_NEVER);
}
