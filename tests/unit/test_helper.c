/* SPDX-License-Identifier: Apache-2.0
 *
 * test_helper: a helper may hang for ever; that costs us nothing but the helper.
 */
#include "os/helper.h"

#include "unit.h"

#include "base/clock.h"

#include <stdlib.h>
#include <sys/socket.h>

static struct reap reap;

static void start(void (*fn)(const void *arg), const void *arg)
{
    struct err err;
    cr_assert(helper_start(&reap, fn, arg, &err), "%s", err.text);
}

/* Handles the end of one helper. */
static void settle_one(void)
{
    unit_await_end();
    reap_all(&reap);
}

static void make(const void *arg)
{
    const char *name = arg;
    close(open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

static void hang(const void *arg)
{
    for (;;)
        pause();
}

Test(helper, does_its_work_and_is_reaped)
{
    char name[] = "/tmp/test_helper.XXXXXX";
    int fd = mkstemp(name);
    cr_assert_geq(fd, 0);
    close(fd);
    cr_assert_eq(unlink(name), 0);
    start(make, name);
    cr_assert_eq(reap.kept, 1);
    settle_one();
    cr_assert_eq(reap.kept, 0);
    cr_assert_eq(unlink(name), 0, "it was not made");
    cr_assert(unit_no_children());
}

Test(helper, each_of_several_counts_until_it_ends)
{
    pid_t pids[8];
    start(hang, NULL);
    start(hang, NULL);
    size_t n = reap_helpers(&reap, pids, 8);
    cr_assert_eq(n, 2);
    cr_assert_eq(reap.kept, 2);
    kill(pids[0], SIGKILL);
    settle_one();
    cr_assert_eq(reap.kept, 1);
    kill(pids[1], SIGKILL);
    settle_one();
    cr_assert_eq(reap.kept, 0);
    cr_assert(unit_no_children());
}

/* A helper that is stuck in a dead file system would otherwise hold our sockets, pipes and locks.
 */
Test(helper, keeps_nothing_of_ours_open)
{
    int ends[2];
    pid_t pid;
    char c;
    cr_assert_eq(pipe(ends), 0); /* not close-on-exec: there is no exec */
    start(hang, NULL);
    close(ends[1]);
    cr_assert(unit_readable(ends[0]));
    cr_assert_eq(read(ends[0], &c, 1), 0);
    close(ends[0]);
    cr_assert_eq(reap_helpers(&reap, &pid, 1), 1);
    kill(pid, SIGKILL);
    settle_one();
    cr_assert(unit_no_children());
}

/* After reap_end() the helpers are no longer reaped. */
Test(helper, what_still_runs_is_forgotten)
{
    pid_t pids[8];
    start(hang, NULL);
    start(hang, NULL);
    cr_assert_eq(reap_helpers(&reap, pids, 8), 2);
    reap_end(&reap);
    cr_assert_eq(reap.kept, 0);
    cr_assert_null(reap.first);
    for (int i = 0; i < 2; i++) {
        kill(pids[i], SIGKILL);
        cr_assert_eq(waitpid(pids[i], NULL, 0), pids[i]);
    }
    cr_assert(unit_no_children());
}

/* --- with an answer --- */

static struct helper asked;

static void ask(helper_fn *fn, const void *arg)
{
    struct err err;
    asked = (struct helper){.reap = &reap};
    cr_assert(helper_ask(&asked, fn, arg, &err), "%s", err.text);
}

static int64_t in_ms(int ms)
{
    return clock_now_ns() + ms * NS_PER_MS;
}

static void end_asked(bool is_killed, int ms)
{
    helper_end(&asked, is_killed, in_ms(ms));
    cr_expect_eq(asked.watch.pid, 0);
    while (reap.kept > 0)
        settle_one();
    cr_expect(unit_no_children());
}

static void double_it(const void *arg, int answer)
{
    int twice = 2 * *(const int *)arg;
    /* in two parts */
    if (write(answer, &twice, 1) != 1 || write(answer, (char *)&twice + 1, sizeof twice - 1) < 0)
        _exit(1);
}

static void wait_for_the_end(const void *arg, int answer)
{
    char byte;
    _exit(recv(answer, &byte, 1, 0) != 0);
}

static void only_hang(const void *arg, int answer)
{
    signal(SIGTERM, SIG_IGN);
    for (;;)
        pause();
}

Test(helper, answers)
{
    int number = 21, answer = 0;
    ask(double_it, &number);
    enum helper_news news =
        helper_read(&asked, -1, in_ms(UNIT_DEADLINE_MS), &answer, sizeof answer);
    cr_assert_eq(news, HELPER_ANSWER);
    cr_assert_eq(answer, 42);
    news = helper_read(&asked, -1, in_ms(UNIT_DEADLINE_MS), &answer, sizeof answer);
    cr_assert_eq(news, HELPER_ENDED);
    end_asked(true, UNIT_DEADLINE_MS);
}

Test(helper, ends_when_its_owner_lets_it_go)
{
    ask(wait_for_the_end, NULL);
    int64_t began = clock_now_ns();
    end_asked(false, UNIT_DEADLINE_MS);
    cr_expect_lt(clock_now_ns() - began, UNIT_DEADLINE_MS * NS_PER_MS / 2);
}

Test(helper, that_hangs_is_late_and_killed)
{
    char byte;
    ask(only_hang, NULL);
    cr_assert_eq(helper_read(&asked, -1, in_ms(50), &byte, 1), HELPER_LATE);
    end_asked(false, 50);
}

Test(helper, a_signal_ends_the_wait)
{
    int ends[2];
    char byte;
    cr_assert_eq(pipe(ends), 0);
    ask(only_hang, NULL);
    cr_assert_eq(write(ends[1], "", 1), 1);
    cr_assert_eq(helper_read(&asked, ends[0], in_ms(UNIT_DEADLINE_MS), &byte, 1), HELPER_SIGNAL);
    end_asked(true, UNIT_DEADLINE_MS);
    close(ends[0]);
    close(ends[1]);
}

Test(helper, none_was_started)
{
    asked = (struct helper){.reap = &reap};
    end_asked(true, 0);
}
