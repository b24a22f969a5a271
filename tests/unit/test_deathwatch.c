/* SPDX-License-Identifier: Apache-2.0
 *
 * test_deathwatch: procs/deathwatch with libpch's robustlock, of real processes: which ends count
 * as a death. tests/behave/test_death.py tests that a death is reported early.
 */
#include "world.h"

#include "base/str.h"

#include <stdlib.h>
#include <sys/syscall.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

static struct world world;

static void needs_the_kernel(void)
{
    /* Without futex_waitv no death is reported, as documented. */
    if (syscall(SYS_futex_waitv, NULL, 0, 0, NULL, 0) < 0 && errno != EINVAL)
        cr_skip_test("the kernel has no futex_waitv");
}

TestSuite(deathwatch, .init = needs_the_kernel);

static struct client *attached_by(const char *how)
{
    struct client *c = client_start(&world, NULL, NULL);
    client_say(c, "%s rank=0 world=1", how);
    client_expect(c, "open supervised=1 same=1 resume=0 path=-");
    world_expect(&world, CALL_ATTACHED, 0);
    return c;
}

static bool has_died(void *arg)
{
    return world.ndied > 0;
}

static void expect_death(const struct client *c, int status)
{
    world_wait(&world, has_died, NULL, "a death");
    cr_expect_eq(world.died_pid, client_pid(c));
    cr_expect_eq(world.died_status, status, "%#x, not %#x", world.died_status, status);
    cr_expect_eq(world.ndied, 1);
}

/* procs reports the death, and, when the memory is gone, the end of the connection. */
static void dies_of_a_kill(struct client *c)
{
    cr_assert_eq(kill(client_pid(c), SIGKILL), 0);
    expect_death(c, SIGKILL);
    world_expect(&world, CALL_GONE, 0);
    cr_expect(WIFSIGNALED(client_end(c)));
    cr_expect_eq(world.ndied, 1, "it dies once");
    world.ndied = 0;
}

static void closes(struct client *c)
{
    client_say(c, "close");
    cr_expect_not_null(client_line(c));
    world_expect(&world, CALL_MESSAGE, PROCMSG_CLOSE);
}

WorldTest(deathwatch, who_is_killed_has_died)
{
    struct client *c = attached_by("open");
    dies_of_a_kill(c);
}

/* The process has said goodbye, and its connection is closed before it dies. */
WorldTest(deathwatch, who_exits_with_a_failure_has_died)
{
    struct client *c = attached_by("open");
    client_say(c, "exit 3");
    expect_death(c, 3 << 8);
    world_expect(&world, CALL_MESSAGE, PROCMSG_CLOSE);
    cr_expect_eq(WEXITSTATUS(client_end(c)), 3);
}

WorldTest(deathwatch, who_exits_without_a_word_has_died)
{
    struct client *c = attached_by("open");
    client_say(c, "_exit 4");
    expect_death(c, 4 << 8);
    world_expect(&world, CALL_GONE, 0);
    client_end(c);
}

WorldTest(deathwatch, of_a_success_nothing_is_told)
{
    struct client *c = attached_by("open");
    client_say(c, "_exit 0");
    world_expect(&world, CALL_GONE, 0);
    cr_expect_eq(client_end(c), 0);
    cr_expect_eq(world.ndied, 0);
}

/* A mutex ends with the thread that holds it. The training thread takes its mutex at its first
 * step. */
WorldTest(deathwatch, a_thread_that_ends_is_no_death)
{
    struct client *c = attached_by("aside open");
    client_step(c, 1, "continue");
    client_step(c, 2, "continue");
    cr_expect_eq(world.ndied, 0);
    dies_of_a_kill(c);
}

WorldTest(deathwatch, another_program_is_no_death)
{
    struct client *c = attached_by("open");
    client_ask(c, "exec", "exec");
    world_expect(&world, CALL_GONE, 0);
    client_ask(c, "I am cat", "I am cat");
    cr_expect_eq(client_end(c), 0);
    cr_expect_eq(world.ndied, 0);
}

/* The fork lives on, and holds nothing; its own end is not reported. */
WorldTest(deathwatch, a_fork_does_not_hold_what_its_parent_held)
{
    struct client *c = attached_by("open");
    client_say(c, "fork");
    cr_expect_not_null(client_line(c));
    dies_of_a_kill(c);
}

WorldTest(deathwatch, who_has_closed_is_let_go)
{
    struct client *c = attached_by("open");
    closes(c);
    client_say(c, "exit 5");
    cr_expect_eq(WEXITSTATUS(client_end(c)), 5);
    cr_expect_eq(world.ndied, 0);
}

WorldTest(deathwatch, who_opens_again_is_watched_again)
{
    struct client *c = attached_by("open");
    closes(c);
    client_say(c, "open rank=0 world=1");
    cr_expect_not_null(client_line(c));
    world_expect(&world, CALL_ATTACHED, 0);
    dies_of_a_kill(c);
}

/* A process may write anything into its page, and claim anything. */
WorldTest(deathwatch, nonsense_is_no_death)
{
    struct client *c = attached_by("open");
    client_ask(c, "havoc thread", "havoc");
    for (int step = 1; step <= 100; step++) {
        client_say(c, "step %d", step);
        cr_expect_not_null(client_line(c));
    }
    cr_expect_eq(world.ndied, 0);
    cr_assert_eq(kill(client_pid(c), SIGKILL), 0);
    world_expect(&world, CALL_GONE, 0);
    client_end(c);
}

WorldTest(deathwatch, each_of_several_is_told)
{
    struct client *c[8];
    for (int i = 0; i < 8; i++)
        c[i] = attached_by("open");
    for (int i = 7; i >= 0; i--)
        dies_of_a_kill(c[i]);
}

/* One call of the kernel could wait for 63 processes at most. */
WorldTest(deathwatch, more_than_one_call_can_watch_are_watched)
{
    enum { N = 66 };
    static const int killed[] = {N - 1, 0, 62, 63};
    struct client *c[N];
    for (int i = 0; i < N; i++)
        c[i] = attached_by("open");
    for (size_t i = 0; i < ARRAY_LEN(killed); i++) {
        dies_of_a_kill(c[killed[i]]);
        c[killed[i]] = NULL;
    }
    for (int i = 0; i < N; i++)
        if (c[i])
            client_end(c[i]);
    cr_expect_eq(world.ndied, 0);
}
