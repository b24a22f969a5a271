/* SPDX-License-Identifier: Apache-2.0
 *
 * test_core_death: walks of commands that have died long before their end, since their memory takes
 * time to be taken down. They check when a death is reported, and in which words.
 */
#include "walk.h"

#include "base/str.h"

TestSuite(core_death, .fini = walks_end);

static void says_why(struct walk *w, int slot)
{
    says(w, slot, (struct procmsg){.type = PROCMSG_ERROR, .number = 9, .text = "bad loss"});
}

/* The end of a command, and the evidence found meanwhile. */
static void found_killed(struct walk *w, int index)
{
    struct death found = {.note = "the kernel killed it", .tail = "last words\n"};
    feed(w, (struct event){.type = EV_CHILD_EXITED,
                           .child = {.index = index, .status = SIGKILL, .death = &found}});
}

Test(core_death, ends_the_others_at_once)
{
    struct core_report at_death, at_end;
    struct walk *w = begin_alone(2);
    int64_t died_at = now;
    dying(w, 1, SIGKILL);
    assert_acts(w, "gate leave; SIGTERM to tree");
    core_report(w->core, &at_death);
    cr_assert(at_death.first_cause.fault && at_death.first_cause.fault == FAULT_SIGNAL);
    cr_assert_eq(at_death.first_cause.pid, 1001);
    now += 3 * S;
    exits(w, SIGTERM);
    found_killed(w, 1);
    assert_acts(w, "exit 137 failed");
    core_report(w->core, &at_end);
    cr_assert_str_eq(at_end.first_cause.text,
                     "process 1001 ended with signal 9 (Killed): the kernel killed it");
    cr_assert_str_eq(at_end.first_cause.tail, "last words\n");
    cr_assert_eq(at_end.first_cause.wall_ns, at_death.first_cause.wall_ns, "it died when it died");
    cr_assert_gt(now, died_at);
}

/* The process had said why it fails, and failed at that time. Its end brings nothing new. */
Test(core_death, of_who_has_said_why)
{
    struct walk *w = begin_attached(1);
    says_why(w, 0);
    now += S;
    dying(w, 0, 3 << 8);
    assert_acts(w, "0: WELCOME; gate leave; SIGTERM to tree");
    struct core_report report = report_of(w);
    cr_assert_str_eq(report.first_cause.text, "process 1000 ended with exit code 3: bad loss");
    int64_t wall = report.first_cause.wall_ns;
    now += S;
    gone(w, 0);
    ends(w, 3 << 8);
    assert_acts(w, "exit 3 failed");
    report = report_of(w);
    cr_assert_eq(report.first_cause.wall_ns, wall);
    cr_assert_str_eq(report.first_cause.text, "process 1000 ended with exit code 3: bad loss");
}

/* The process had announced its failure, and we kill it before: its own code is reported. */
Test(core_death, of_our_signals_is_none)
{
    struct walk *w = begin_alone(2);
    attaches(w, 0, 0, 2);
    says_why(w, 0);
    now += S;
    exited(w, 1, 7 << 8);
    assert_acts(w, "0: WELCOME; gate leave; SIGTERM to tree");
    now += S;
    dying(w, 0, SIGKILL);
    assert_acts(w, "");
    ends(w, SIGKILL);
    struct core_report report = report_of(w);
    cr_assert_eq(report.first_cause.pid, 1000, "it had said so first");
    cr_assert_eq(report.first_cause.code, 9);
}

/* Rank 0 misses the killed rank, and says so before the kill is seen. Later our SIGKILL ends rank
 * 0: that is no crash, so the kill of rank 1 stays the first cause. */
Test(core_death, of_our_sigkill_is_no_crash)
{
    struct walk *w = begin_alone(2);
    attaches(w, 0, 0, 2);
    says_why(w, 0);
    now += 10 * MS;
    dying(w, 1, SIGKILL);
    now += S;
    dying(w, 0, SIGKILL);
    ends(w, SIGKILL);
    struct core_report report = report_of(w);
    cr_assert_eq(report.first_cause.pid, 1001);
    cr_assert_eq(report.first_cause.code, 137);
}

/* Rank 1 has failed. Rank 0 answers our SIGTERM with a reason, and is killed just then, not by us.
 * The time of a crash is uncertain, but a reason has its own time. */
Test(core_death, that_was_told_counts_from_its_report)
{
    struct walk *w = begin_alone(2);
    attaches(w, 0, 0, 2);
    exited(w, 1, 7 << 8);
    assert_acts(w, "0: WELCOME; gate leave; SIGTERM to tree");
    now += 5 * MS;
    says_why(w, 0);
    now += 5 * MS;
    found_killed(w, 0);
    struct core_report report = report_of(w);
    cr_assert_eq(report.first_cause.pid, 1001, "%s", report.first_cause.text);
    cr_assert_eq(report.first_cause.code, 7);
}

/* The same on another node, before it has heard of the end. */
Test(core_death, that_was_told_on_another_node_counts_from_its_report)
{
    begin_two();
    exited(&walks[0], 0, 7 << 8);
    now += 5 * MS;
    says_why(&walks[1], 0);
    now += 5 * MS;
    found_killed(&walks[1], 0);
    deliver();
    struct core_report report = report_of(&walks[0]);
    cr_assert_eq(report.first_cause.node, 0, "%s", report.first_cause.text);
    cr_assert_eq(report.first_cause.code, 7);
}

/* The rank that missed the killed rank ends first. The kill is seen later, and is still the first
 * cause. */
Test(core_death, comes_before_that_of_who_missed_it)
{
    struct walk *w = begin_alone(2);
    exited(w, 0, 1 << 8);
    assert_acts(w, "gate leave; SIGTERM to tree");
    now += 20 * MS;
    found_killed(w, 1);
    struct core_report report = report_of(w);
    cr_assert_eq(report.first_cause.pid, 1001);
    cr_assert_eq(report.first_cause.code, 137);
}

/* The first of our signals cannot cause this death; our SIGKILL can. */
Test(core_death, of_our_sigkill_comes_after_all)
{
    struct core_params params = params_of(0, 1, 2);
    params.term_wait_ns = 10 * MS;
    struct walk *w = begin_started(&params);
    exited(w, 0, 1 << 8);
    now += 10 * MS;
    wake(w);
    assert_did(w, "SIGTERM to tree; SIGKILL to tree");
    now += 10 * MS;
    found_killed(w, 1);
    struct core_report report = report_of(w);
    cr_assert_eq(report.first_cause.pid, 1000);
    cr_assert_eq(report.first_cause.code, 1);
}

/* A scheduler starts the job again after these codes, so the attempts are counted, as after a
 * preemption. But a program that never attaches reports no progress. */
Test(core_death, with_a_code_that_means_a_restart_counts)
{
    static const struct {
        int code, before;
        bool attaches;
        uint64_t resume_step;
        const char *wanted;
    } cases[] = {{42, 2, true, 0, "exit 43 no_progress"}, {42, 1, true, 0, "exit 42 failed"},
                 {45, 2, true, 0, "exit 43 no_progress"}, {41, 2, true, 0, "exit 41 failed"},
                 {42, 2, false, 0, "exit 42 failed"},     {42, 2, false, 5, "exit 43 no_progress"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct core_params p = params_of(0, 1, 1);
        p.has_record = true;
        p.no_progress_limit = 3;
        p.resume_step = cases[i].resume_step;
        p.attempts_without_commit = cases[i].before;
        struct walk *w = cases[i].attaches ? begin_ranks(&p) : begin_started(&p);
        exits(w, cases[i].code << 8);
        cr_expect_not_null(strstr(w->acts, cases[i].wanted), "%zu: %s", i, w->acts);
    }
}

/* Node 0 learns of the death at once. The later report of the end is no other failure. */
Test(core_death, is_the_first_cause_on_every_node)
{
    begin_two();
    dying(&walks[1], 0, SIGKILL);
    deliver();
    assert_said(&walks[0], "ending: failed: node 1: rank 1, process 1000 ended with signal 9");
    now += S;
    exited(&walks[0], 0, 1 << 8); /* rank 0 misses rank 1 */
    tree_empty(&walks[0]);
    gone(&walks[1], 0);
    found_killed(&walks[1], 0);
    tree_empty(&walks[1]);
    deliver();
    for (int i = 0; i < WALK_NODES; i++) {
        assert_did(&walks[i], "exit 137 failed");
        assert_said(&walks[i], "rank 1, process 1000 ended with signal 9 (Killed): the kernel");
        assert_not_said(&walks[i], "the cause has changed");
    }
}
