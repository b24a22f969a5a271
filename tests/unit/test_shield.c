/* SPDX-License-Identifier: Apache-2.0
 *
 * libpch's shield against a real procs: see test_libpch.c. The test is the supervisor.
 */
#include "base/str.h"
#include "world.h"

static struct world world;

ClientTest(shield, turns_a_term_into_a_notice)
{
    client_ask(c, "raise", "raise survived");
    cr_expect_eq(world_expect(&world, CALL_MESSAGE, PROCMSG_NOTICE)->msg.number, SIGTERM);
    /* The shield works while the thread waits, too: no byte of it lands in the thread's messages.
     */
    client_say(c, "saved 1 at:///c/1");
    const struct call *call = world_expect(&world, CALL_MESSAGE, PROCMSG_SAVED);
    client_say(c, "raise");
    struct procmsg go_on = {
        .type = PROCMSG_ANSWER, .step = call->msg.step, .action = PROC_CONTINUE};
    procs_send(world.procs, call->slot, &go_on);
    client_expect(c, "saved 1 continue");
    client_expect(c, "raise survived");
    world_expect(&world, CALL_MESSAGE, PROCMSG_NOTICE);
}

static void expect_killed_by(struct client *c, int number)
{
    int status = client_end(c);
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == number, "status %x", status);
}

static void raise_well(struct client *c, int number)
{
    client_say(c, "raise %d", number);
    client_expect(c, "raise survived");
}

#define BIT(number) (UINT64_C(1) << ((number)-1))

/* The shield covers every signal that the supervisor calls a notice, and no others. No program can
 * catch some of them. */
WorldTest(shield, is_over_every_signal_that_is_a_notice)
{
    world.welcome.word = BIT(SIGUSR1) | BIT(SIGKILL) | BIT(64) | BIT(32);
    struct client *c = client_attached(&world);
    static const int shielded[] = {SIGUSR1, SIGTERM, 64, SIGUSR1};
    for (size_t i = 0; i < ARRAY_LEN(shielded); i++) {
        raise_well(c, shielded[i]);
        cr_expect_eq(world_expect(&world, CALL_MESSAGE, PROCMSG_NOTICE)->msg.number, shielded[i]);
    }
    client_say(c, "raise 12"); /* SIGUSR2 */
    world_expect(&world, CALL_GONE, 0);
    expect_killed_by(c, SIGUSR2);
}

WorldTest(shield, gives_every_signal_back)
{
    world.welcome.word = BIT(SIGUSR1);
    struct client *c = client_attached(&world);
    client_ask(c, "close", "close supervised=0 step=continue term=default");
    client_say(c, "raise 10");
    expect_killed_by(c, SIGUSR1);
}

WorldTest(shield, lets_the_supervisor_s_own_signals_through)
{
    world.welcome.word = BIT(SIGUSR1);
    struct client *c = client_attached(&world);
    cr_assert_eq(kill(client_pid(c), SIGUSR1), 0);
    world_expect(&world, CALL_GONE, 0);
    expect_killed_by(c, SIGUSR1);
}

WorldTest(shield, leaves_what_the_program_ignores)
{
    static const char *const argv[] = {"/bin/sh", "-c", "trap '' USR1; exec \"$0\"", PCHCLIENT,
                                       NULL};
    world.welcome.word = BIT(SIGUSR1);
    struct client *c = client_start(&world, argv, NULL);
    client_open(c, "open");
    raise_well(c, SIGUSR1); /* and the program is not told */
    client_end_well(c);
}

WorldTest(shield, lets_the_supervisor_s_own_term_through)
{
    /* The test is the supervisor. */
    struct client *c = client_attached(&world);
    cr_assert_eq(kill(client_pid(c), SIGTERM), 0);
    world_expect(&world, CALL_GONE, 0);
    expect_killed_by(c, SIGTERM);
}

WorldTest(shield, can_be_declined)
{
    struct client *c = client_start(&world, NULL, NULL);
    cr_expect_eq(client_open(c, "open bare")->msg.flags, 0);
    client_say(c, "raise");
    world_expect(&world, CALL_GONE, 0);
    expect_killed_by(c, SIGTERM);
}

WorldTest(shield, keeps_out_of_the_way_of_the_program_s_own_handler)
{
    /* nohup's way: ignored before the program starts. */
    static const char *const argv[] = {"/bin/sh", "-c", "trap '' TERM; exec \"$0\"", PCHCLIENT,
                                       NULL};
    struct client *c = client_start(&world, argv, NULL);
    cr_expect_eq(client_open(c, "open")->msg.flags, 0);
    client_ask(c, "raise", "raise survived");
    client_end_well(c);
}

static void expect_fork(struct client *c, const char *by, const char *outcome)
{
    client_say(c, "forkterm %s", by);
    client_expect(c, "%s", outcome);
}

/* A scheduler signals data loaders as well; a signal of their own parent is meant for them. */
ClientTest(shield, covers_forks)
{
    expect_fork(c, "other", "forkterm lives");
    expect_fork(c, "parent", "forkterm dies");
}

WorldTest(shield, covers_no_fork_of_who_has_closed)
{
    struct client *c = client_attached(&world);
    client_ask(c, "close", "close supervised=0 step=continue term=default");
    expect_fork(c, "other", "forkterm dies");
    client_end(c);
}

WorldTest(shield, covers_no_fork_of_who_has_declined)
{
    struct client *c = client_start(&world, NULL, NULL);
    client_open(c, "open bare");
    expect_fork(c, "other", "forkterm dies");
    client_end(c);
}
