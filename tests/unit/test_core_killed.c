/* SPDX-License-Identifier: Apache-2.0
 *
 * test_core_killed: walks of commands that die of the signal of a notice: sent by a scheduler
 * before pchrun gets its own, or by pchrun, which asks them to save. And what they leave behind.
 */
#include "walk.h"

#include "base/str.h"

TestSuite(core_killed, .fini = walks_end);

#define AS_A_SHELL ((128 + SIGTERM) << 8)

/* `ago`: how long before the report the command had died. In a walk the wall clock stands at 0. */
static void assert_failed(const struct walk *w, int pid, int code, int64_t ago)
{
    struct core_report report = report_of(w);
    cr_assert_eq(report.first_cause.pid, pid, "%s", report.first_cause.text);
    cr_assert_eq(report.first_cause.code, code);
    cr_assert_eq(report.first_cause.wall_ns, -ago);
}

/* --- before the notice --- */

/* As Slurm does: every process gets SIGTERM, and pchrun last. */
Test(core_killed, a_moment_before_the_notice)
{
    static const int statuses[] = {SIGTERM, AS_A_SHELL};
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
        struct walk *w = begin_alone(2);
        exited(w, 0, statuses[i]);
        now += 2 * MS;
        exited(w, 1, statuses[i]);
        assert_acts(w, "");
        now += 2 * MS;
        signalled(w, SIGTERM);
        assert_acts(w, "read");
        tree_empty(w);
        steps_are_read(w);
        assert_acts(w, "gate leave; exit 42 preempted_unsaved");
        assert_said(w, "without a notice within a second it has failed");
    }
}

Test(core_killed, an_attached_rank_a_moment_before_the_notice)
{
    struct walk *w = begin_attached(1);
    gone(w, 0);
    dying(w, 0, SIGTERM);
    now += 2 * MS;
    ends(w, SIGTERM);
    now += 2 * MS;
    terminated(w);
    assert_did(w, "exit 42 preempted_unsaved");
}

/* The shell around the rank has died, and the rank ends within the second. */
Test(core_killed, a_shell_whose_rank_ends_before_the_notice)
{
    struct core_params p = params_of(0, 1, 1);
    p.expected_procs = PROCMSG_UNKNOWN;
    struct walk *w = begin_started(&p);
    attaches(w, 10, 0, 1);
    w->acts[0] = '\0';
    exited(w, 0, SIGTERM);
    gone(w, 10);
    passes(w, S / 2);
    assert_acts(w, "");
    terminated(w);
    cr_assert_eq(report_of(w).exit_code, 42, "%s", w->log);
}

/* The signal was sent to this command alone. It failed when it died. */
Test(core_killed, without_a_notice)
{
    struct walk *w = begin_alone(2);
    int64_t at = now;
    exited(w, 0, SIGTERM);
    assert_acts(w, "");
    wake(w);
    cr_assert_eq(now, at + S);
    assert_acts(w, "gate leave");
    wake(w);
    assert_acts(w, "SIGTERM to tree");
    exits(w, SIGTERM);
    exited(w, 1, SIGTERM);
    assert_acts(w, "exit 143 failed");
    assert_failed(w, 1000, 143, S);
}

/* Its death is told when the memory is still being freed. */
Test(core_killed, that_ends_after_the_wait)
{
    struct walk *w = begin_attached(2);
    w->acts[0] = '\0';
    int64_t at = now;
    gone(w, 0);
    dying(w, 0, SIGTERM);
    wake(w);
    cr_assert_eq(now, at + S);
    assert_acts(w, "gate leave");
    wake(w);
    assert_acts(w, "SIGTERM to tree");
    now += S;
    exited(w, 0, SIGTERM);
    gone(w, 1);
    exited(w, 1, SIGTERM);
    tree_empty(w);
    assert_acts(w, "exit 143 failed");
    assert_failed(w, 1000, 143, S);
}

/* Rank 1 fails because rank 0 was killed. Nothing waits, and rank 0 is the first cause. */
Test(core_killed, before_another_fails)
{
    struct walk *w = begin_alone(2);
    exited(w, 0, SIGTERM);
    now += 100 * MS;
    exited(w, 1, 1 << 8);
    assert_acts(w, "gate leave");
    assert_failed(w, 1000, 143, 100 * MS);
    assert_not_said(w, "the cause has changed");
}

Test(core_killed, before_another_fails_on_another_node)
{
    begin_two();
    exited(&walks[1], 0, SIGTERM);
    now += 100 * MS;
    exited(&walks[0], 0, 1 << 8);
    assert_did(&walks[0], "gate leave");
    deliver();
    assert_failed(&walks[0], 1000, 143, 100 * MS);
    cr_assert_eq(report_of(&walks[0]).first_cause.node, 1);
}

/* Under a far notice the signal is no notice yet. */
Test(core_killed, under_a_far_notice)
{
    struct walk *w = begin_alone(1);
    noticed(w, "cloud", 3600 * S);
    steps_are_read(w);
    w->acts[0] = '\0';
    exited(w, 0, SIGTERM);
    assert_acts(w, "");
    passes(w, S);
    cr_assert_eq(report_of(w).exit_code, 143);
}

/* --- what is left of it --- */

/* The shell died of the forwarded signal, or of the scheduler's just before. The program below it
 * saves, and has until an eighth of the grace is left. */
static void assert_may_save(struct walk *w, int64_t until)
{
    wake(w);
    while (!strstr(w->acts, "SIG")) {
        cr_assert(!strstr(w->acts, "exit"), "%s", w->acts);
        wake(w);
    }
    cr_assert_geq(now, until, "%s", w->acts);
    assert_did_not(w, "SIGTERM to children");
}

Test(core_killed, of_the_forwarded_signal_and_leaves_a_program)
{
    struct walk *w = begin_alone(1);
    int64_t at = now;
    terminated(w);
    assert_acts(w, "read; gate leave; SIGTERM to children");
    exited(w, 0, SIGTERM);
    assert_acts(w, "SIGTERM to tree");
    assert_said(w, "process 1000 has died of SIGTERM, before it had attached");
    assert_may_save(w, at + 21 * S);
    tree_empty(w);
    assert_did(w, "exit 42 preempted_unknown");
}

Test(core_killed, of_the_forwarded_signal_with_its_group)
{
    struct core_params p = params_of(0, 1, 1);
    p.signals_group = true;
    struct walk *w = begin_started(&p);
    int64_t at = now;
    terminated(w);
    w->acts[0] = '\0';
    exited(w, 0, SIGTERM);
    assert_acts(w, "");
    assert_may_save(w, at + 21 * S);
}

Test(core_killed, of_the_save_signal_and_leaves_a_program)
{
    struct core_params p = params_of(0, 1, 1);
    p.save_mode = SAVE_SIGNAL;
    p.save_signal = SIGUSR1;
    struct walk *w = begin_started(&p);
    int64_t at = now;
    terminated(w);
    assert_acts(w, "read; gate leave; SIGUSR1 to ranks");
    exited(w, 0, (128 + SIGUSR1) << 8);
    assert_acts(w, "SIGUSR1 to ranks");
    assert_said(w, "process 1000 has died of SIGUSR1, the signal that asked it to save");
    assert_may_save(w, at + 21 * S);
}

Test(core_killed, before_the_notice_and_leaves_a_program)
{
    struct walk *w = begin_alone(1);
    int64_t at = now;
    exited(w, 0, SIGTERM);
    now += 2 * MS;
    terminated(w);
    assert_acts(w, "read; gate leave");
    assert_may_save(w, at + 21 * S);
}

/* A command that ended by itself has no more to save. */
Test(core_killed, by_itself_and_leaves_a_program)
{
    struct walk *w = begin_alone(1);
    terminated(w);
    w->acts[0] = '\0';
    exited(w, 0, 0);
    passes(w, 10 * MS);
    assert_acts(w, "SIGTERM to tree");
}
