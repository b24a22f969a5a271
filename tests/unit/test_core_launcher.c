/* SPDX-License-Identifier: Apache-2.0
 *
 * test_core_launcher: walks of one command that is a launcher, whose workers attach from below it:
 * what the launcher does when a worker dies, and which process is reported as the cause.
 */
#include "walk.h"

TestSuite(core_launcher, .fini = walks_end);

enum { FIRST_SLOT = 10 }; /* no pid of a worker is the command's */

static struct walk *begin_launcher(int workers)
{
    struct core_params p = params_of(0, 1, 1);
    p.expected_procs = PROCMSG_UNKNOWN;
    struct walk *w = begin_started(&p);
    for (int rank = 0; rank < workers; rank++)
        attaches(w, FIRST_SLOT + rank, rank, workers);
    w->acts[0] = '\0';
    return w;
}

/* The launcher has sent the rank SIGTERM, which the rank's shield has caught. */
static void is_told_to_end(struct walk *w, int rank)
{
    says(w, FIRST_SLOT + rank, (struct procmsg){.type = PROCMSG_NOTICE, .number = SIGTERM});
}

static void fails_with(struct walk *w, int rank, int status)
{
    struct procmsg msg = {.type = PROCMSG_CLOSE, .number = (uint32_t)status};
    says(w, FIRST_SLOT + rank, msg);
}

/* The launcher ends the other workers, as torchrun does. They must not take the signal for a
 * notice, nor live on. */
Test(core_launcher, ends_its_workers_when_one_has_died)
{
    struct walk *w = begin_launcher(3);
    gone(w, FIRST_SLOT + 1);
    now += 100 * MS;
    is_told_to_end(w, 0);
    assert_acts(w, "SIGTERM to ranks");
    struct core_report report = report_of(w);
    cr_assert_not(report.notice.is_live);
    gone(w, FIRST_SLOT);
    gone(w, FIRST_SLOT + 2);
    ends(w, 1 << 8);
    assert_acts(w, "gate leave; exit 1 failed");
    report = report_of(w);
    cr_assert_eq(report.first_cause.rank, 1);
    cr_assert_eq(report.first_cause.pid, 1000 + FIRST_SLOT + 1);
    assert_said(w, "rank 1, process 1011 ended at step 0 without pch_done or pch_close (in "
                   "Python: done or close), and its "
                   "command, process "
                   "1000, with 1");
}

Test(core_launcher, ends_its_workers_when_one_has_failed)
{
    struct walk *w = begin_launcher(2);
    fails_with(w, 1, 7);
    is_told_to_end(w, 0);
    now += S;
    gone(w, FIRST_SLOT);
    ends(w, 1 << 8);
    assert_acts(w, "11: closed; SIGTERM to ranks; gate leave; exit 7 failed");
    cr_assert_eq(report_of(w).first_cause.rank, 1);
}

/* The worker's own reason is reported, and nothing of the launcher's replaces it. */
Test(core_launcher, of_whom_a_worker_says_why)
{
    struct walk *w = begin_launcher(2);
    says(w, FIRST_SLOT + 1,
         (struct procmsg){.type = PROCMSG_ERROR, .number = 1, .text = "bad loss"});
    fails_with(w, 1, 1);
    now += S;
    gone(w, FIRST_SLOT);
    ends(w, 1 << 8);
    struct core_report report = report_of(w);
    cr_assert_eq(report.first_cause.rank, 1);
    cr_assert_str_eq(
        report.first_cause.text,
        "process 1011 exited with 1 at step 0, and its command, process 1000, with 1: bad loss");
}

/* A rank that has saved may fail afterwards. The other ranks are allowed to finish their saves. */
Test(core_launcher, does_not_end_them_in_a_preemption)
{
    struct walk *w = begin_launcher(2);
    signalled(w, SIGTERM);
    w->acts[0] = '\0';
    fails_with(w, 1, 1);
    is_told_to_end(w, 0);
    assert_did_not(w, "SIGTERM");
}

/* A scheduler has sent the signal to all its processes. */
Test(core_launcher, whose_workers_are_told_of_a_preemption)
{
    struct walk *w = begin_launcher(2);
    is_told_to_end(w, 0);
    cr_assert(report_of(w).notice.is_live);
    assert_did_not(w, "SIGTERM to");
}

/* A scheduler has signalled the shell around the ranks, too, and the shell has died. The ranks live
 * on, and save. */
Test(core_launcher, that_dies_of_a_notice_to_all)
{
    struct walk *w = begin_launcher(2);
    exited(w, 0, SIGTERM);
    assert_acts(w, "");
    is_told_to_end(w, 0);
    passes(w, 2 * S);
    assert_did_not(w, "gate leave");
    assert_said(
        w,
        "process 1000 has died of SIGTERM, perhaps a notice to all processes; its ranks still run");
    /* The launcher does not count as ended while a rank is left. */
    w->acts[0] = '\0';
    closes(w, FIRST_SLOT);
    assert_did_not(w, "SIGTERM to");
    closes(w, FIRST_SLOT + 1);
    wake(w);
    assert_did(w, "SIGTERM to tree");
}

/* The ranks are not hurried: they may finish their work after the last save. */
Test(core_launcher, whose_death_does_not_hurry_its_ranks)
{
    struct walk *w = begin_launcher(1);
    steps[FIRST_SLOT] = 4;
    exited(w, 0, SIGTERM);
    terminated(w);
    steps_are_read(w);
    assert_acts(w, "read; gate 5; read; gate 5 decided last");
    steps[FIRST_SLOT] = 5;
    serves(w, FIRST_SLOT, 5, 1);
    saves_and_waits(w, FIRST_SLOT, 5, 1);
    committed(w);
    assert_acts(w, "gate open; prepare 5; commit 5; committed 5; 10: leave, committed; gate leave");
    passes(w, S);
    assert_acts(w, "");
    closes(w, FIRST_SLOT);
    tree_empty(w);
    assert_acts(w, "10: closed; exit 42 preempted");
}

/* As a script with a trap does. */
Test(core_launcher, that_says_that_it_died_of_a_notice)
{
    struct walk *w = begin_launcher(1);
    exited(w, 0, (128 + SIGTERM) << 8);
    assert_acts(w, "");
}

/* No notice follows, so the signal was sent to the launcher alone. */
Test(core_launcher, that_is_killed)
{
    struct walk *w = begin_launcher(2);
    int64_t at = now;
    exited(w, 0, SIGTERM);
    assert_acts(w, "");
    wake(w);
    cr_assert_eq(now, at + S);
    assert_acts(w, "gate leave");
    wake(w);
    assert_acts(w, "SIGTERM to tree");
    struct core_report report = report_of(w);
    cr_assert_str_eq(report.first_cause.text, "process 1000 ended with signal 15 (Terminated)");
}

/* No scheduler uses this signal as a notice. */
Test(core_launcher, that_is_killed_by_another_signal)
{
    struct walk *w = begin_launcher(2);
    exited(w, 0, SIGKILL);
    assert_acts(w, "gate leave");
    wake(w);
    assert_acts(w, "SIGTERM to tree");
    struct core_report report = report_of(w);
    cr_assert_str_eq(report.first_cause.text, "process 1000 ended with signal 9 (Killed)");
}
