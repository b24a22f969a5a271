/* SPDX-License-Identifier: Apache-2.0
 *
 * test_core_walk: short walks through the core of one node: events in, the actions that follow
 * compared as text. tests/sim checks that the promises hold in every case. These tests check the
 * actions and their order.
 */
#include "walk.h"

#include "base/str.h"
#include "wire/gate.h"

TestSuite(core_walk, .fini = walks_end);

/* --- a plain command --- */

/* The ranks of a launcher resume from a save of four. A process that attaches and leaves is no
 * rank.
 */
Test(core_walk, ranks_that_train_without_all_parts)
{
    struct core_params p = params_of(0, 1, 1);
    p.expected_procs = -1;
    p.resume_step = 10;
    p.saved_world = p.least_world = 4;
    struct walk *w = begin_started(&p);
    attaches(w, 0, 0, 1);
    assert_did(w, "read");
    steps_are_read(w);
    closes(w, 0);
    attaches(w, 0, 0, 1);
    wake(w);
    steps_are_read(w);
    assert_not_said(w, "failed");
    steps[0] = 11;
    wake(w);
    steps_are_read(w);
    assert_said(w, "failed: step 10 was saved by 4 ranks, each to its own path; this job has 1");
}

Test(core_walk, a_command_that_succeeds)
{
    struct walk *w = begin_alone(1);
    ends(w, 0);
    assert_acts(w, "gate leave; exit 0 completed");
    cr_assert_str_eq(w->log, "", "a wrapper of a success says nothing");
}

/* Its user learns in time that a notice would save nothing. */
Test(core_walk, a_command_that_does_not_attach_is_told_of_once)
{
    struct walk *w = begin_alone(1);
    int64_t since = now;
    wake(w);
    cr_assert_eq(now - since, 60 * S);
    assert_said(w, "no process has called pch_open() (in Python: pch.attach) within 1 min");
    cr_assert_eq(core_wake_at(w->core), CLOCK_NEVER, "idle costs nothing");
}

Test(core_walk, a_command_that_attaches_or_need_not_is_not_told_of)
{
    struct core_params p = params_of(0, 1, 1);
    p.save_mode = SAVE_SIGNAL;
    struct walk *w = begin_started(&p);
    cr_assert_eq(core_wake_at(w->core), CLOCK_NEVER);
    w = begin_attached(1);
    cr_assert_eq(core_wake_at(w->core), CLOCK_NEVER);
}

/* It ended before the minute was over. The first run is too short; a drill tells by itself. */
Test(core_walk, a_command_that_never_attached_is_told_of_at_its_end)
{
    const char *said = "no process has called pch_open() (in Python: pch.attach): a notice would "
                       "have saved nothing; see --instrument and --save-mode signal";
    struct core_params p = params_of(0, 1, 1), drill = p, asked = p;
    drill.is_drill = true;
    asked.save_mode = SAVE_SIGNAL;
    const struct core_params *all[] = {&p, &drill, &asked, &p};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        struct walk *w = begin_started(all[i]);
        passes(w, i == 0 ? 4 * S : 30 * S);
        ends(w, 0);
        assert_acts(w, "gate leave; exit 0 completed");
        if (i < ARRAY_LEN(all) - 1)
            assert_not_said(w, "pch_open");
        else
            assert_said(w, said);
    }
}

Test(core_walk, a_command_that_fails_is_not_told_that_it_never_attached)
{
    struct walk *w = begin_alone(1);
    passes(w, 30 * S);
    ends(w, 1 << 8);
    assert_not_said(w, "pch_open");
}

/* The report of node 0 says where the next start resumes, if there may be one. */
Test(core_walk, a_job_that_may_be_started_again)
{
    struct core_params p = params_of(0, 1, 1), drill = p, resumed = p;
    drill.is_drill = true;
    resumed.resume_step = 8;
    const struct {
        const struct core_params *params;
        bool attaches;
        int status;
        bool tells_next;
    } cases[] = {
        {&p, true, 1 << 8, true},        {&p, false, 1 << 8, false},  {&drill, true, 1 << 8, false},
        {&resumed, false, 1 << 8, true}, {&resumed, false, 0, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct walk *w = begin_started(cases[i].params);
        cr_assert_not(report_of(w).tells_next);
        if (cases[i].attaches) {
            attaches(w, 0, 0, 1);
            closes(w, 0);
        }
        ends(w, cases[i].status);
        cr_expect_eq(report_of(w).tells_next, cases[i].tells_next, "case %zu", i);
    }
}

Test(core_walk, a_command_that_fails)
{
    struct walk *w = begin_alone(2);
    exited(w, 1, 7 << 8);
    assert_acts(w, "gate leave; SIGTERM to tree");
    assert_said(w, "sending SIGTERM to all processes that are left");
    ends(w, SIGTERM);
    assert_acts(w, "exit 7 failed");
    struct core_report report = report_of(w);
    cr_assert(report.first_cause.fault && report.first_cause.code == 7);
    cr_assert_eq(report.first_cause.rank, 1, "its place says which rank it is");
}

Test(core_walk, the_rank_of_a_command_is_not_made_up)
{
    struct core_params p = params_of(0, 1, 1);
    p.expected_procs = 8; /* the command is a launcher */
    struct walk *w = begin_started(&p);
    exited(w, 0, 1 << 8);
    cr_assert_eq(report_of(w).first_cause.rank, -1);
}

Test(core_walk, equal_signals_within_a_second_are_one)
{
    struct walk *w = begin_alone(1);
    signalled(w, SIGINT);
    now += S;
    signalled(w, SIGINT);
    assert_acts(w, "SIGINT to children");
    signalled(w, SIGHUP);
    assert_acts(w, "SIGHUP to children");
    now += 1;
    signalled(w, SIGINT);
    assert_acts(w, "SIGINT to children");
    signalled(w, SIGUSR1);
    signalled(w, SIGUSR1);
    signalled(w, SIGWINCH);
    signalled(w, SIGWINCH);
    assert_acts(w, "SIGUSR1 to children; SIGUSR1 to children; SIGWINCH to children; "
                   "SIGWINCH to children");
}

/* --- leftovers --- */

Test(core_walk, leftovers_are_swept)
{
    struct walk *w = begin_alone(1);
    exited(w, 0, 0);
    assert_acts(w, "");
    wake(w);
    assert_acts(w, "SIGTERM to tree");
    wake(w);
    assert_acts(w, "SIGKILL to tree");
    wake(w);
    assert_acts(w, "gate leave; exit 0 completed");
    assert_said(w, "processes that cannot be killed are left behind");
}

Test(core_walk, leftovers_are_left)
{
    struct core_params p = params_of(0, 1, 2);
    p.leftovers = LEFTOVERS_LEAVE;
    struct walk *w = begin_started(&p);
    exited(w, 0, 3 << 8);
    assert_acts(w, "gate leave; SIGTERM to children");
    exited(w, 1, SIGTERM);
    assert_acts(w, "exit 3 failed");
}

Test(core_walk, a_notice_after_the_success_is_too_late)
{
    struct walk *w = begin_alone(1);
    exited(w, 0, 0);
    wake(w);
    assert_acts(w, "SIGTERM to tree");
    terminated(w);
    assert_acts(w, "read");
    tree_empty(w);
    assert_acts(w, "gate leave; exit 0 completed");
}

Test(core_walk, a_late_notice_limits_the_sweep)
{
    struct walk *w = begin_alone(1);
    struct core_params p = params_of(0, 1, 1);
    exited(w, 0, 0);
    wake(w);
    int64_t swept_at = now;
    now += S;
    p.signals[SIGTERM].grace_ns = 2 * S;
    w = begin_started(&p);
    exited(w, 0, 0);
    wake(w);
    assert_acts(w, "SIGTERM to tree");
    terminated(w);
    wake(w);
    assert_acts(w, "read; SIGKILL to tree");
    cr_assert_lt(now - swept_at, 4 * S, "the platform would have come first");
}

/* `sh -c` dies of the signal that is forwarded to it, and its children do not get it. */
Test(core_walk, what_a_stopped_command_leaves_is_asked_at_once)
{
    struct walk *w = begin_alone(1);
    signalled(w, SIGTERM);
    assert_acts(w, "read");
    steps_are_read(w);
    assert_acts(w, "gate leave; SIGTERM to children");
    exited(w, 0, SIGTERM);
    assert_acts(w, "SIGTERM to tree");
    tree_empty(w);
    assert_acts(w, "exit 42 preempted_unknown");
}

/* --- processes that attach --- */

Test(core_walk, a_preemption_from_notice_to_exit)
{
    struct walk *w = begin_alone(1);
    attaches(w, 0, PROCMSG_UNKNOWN, PROCMSG_UNKNOWN);
    assert_acts(w, "0: WELCOME");
    steps[0] = 4;
    signalled(w, SIGTERM);
    assert_acts(w, "read");
    steps_are_read(w);
    assert_acts(w, "gate 5; read");
    steps[0] = 5; /* the rank was faster */
    says(w, 0,
         (struct procmsg){
             .type = PROCMSG_WAITING, .step = 5, .word = gate_make(5, 1, false, false)});
    steps_are_read(w);
    assert_acts(w, "gate 6; 0: LOOK; read");
    steps_are_read(w);
    assert_acts(w, "gate 6 decided last");
    steps[0] = 6;
    serves(w, 0, 6, 1);
    assert_acts(w, "gate open");
    saves_and_waits(w, 0, 6, 1);
    assert_acts(w, "prepare 6");
    written(w, EV_PREPARED);
    assert_acts(w, "commit 6");
    struct core_report report = report_of(w);
    cr_assert_eq(report.commit_step, 0, "not before it is on disk");
    written(w, EV_COMMITTED);
    assert_acts(w, "committed 6; 0: leave, committed; gate leave");
    report = report_of(w);
    cr_assert_eq(report.commit_step, 6);
    gone(w, 0);
    ends(w, 0);
    assert_acts(w, "exit 42 preempted");
}

/* A machine is suspended while killed processes die. After the suspend they have the rest of their
 * time. */
Test(core_walk, a_suspended_machine_does_not_give_up_the_killed)
{
    struct walk *w = begin_alone(1);
    exited(w, 0, SIGABRT);
    wake(w);
    wake(w);
    assert_acts(w, "gate leave; SIGTERM to tree; SIGKILL to tree");
    now = core_wake_at(w->core) + 60 * S;
    passes(w, 0);
    passes(w, 4 * S);
    assert_not_said(w, "cannot be killed");
    passes(w, S);
    assert_said(w, "cannot be killed are left behind");
}

/* However late the node is, it does not leave its processes behind. */
Test(core_walk, who_was_away_ends_its_processes_before_it_leaves)
{
    struct walk *w = begin_alone(2);
    exited(w, 0, SIGABRT);
    assert_acts(w, "gate leave; SIGTERM to tree");
    passes(w, 1000 * S);
    assert_acts(w, "SIGKILL to tree");
    passes(w, 1000 * S);
    assert_acts(w, ""); /* the processes may have stood still, too, or their end is not seen yet */
    tree_empty(w);
    exited(w, 1, SIGKILL);
    assert_acts(w, "exit 134 failed");
}

Test(core_walk, a_success_without_a_word_is_none)
{
    struct walk *w = begin_attached(2);
    closes(w, 0);
    exited(w, 0, 0);
    steps[1] = 3;
    gone(w, 1);
    assert_said(w, "rank 1 (process 1001) has ended at step 3 without pch_done or pch_close (in "
                   "Python: done or close)");
    assert_acts(w, "0: WELCOME; 1: WELCOME; 0: closed");
    tree_empty(w);
    exited(w, 1, 0);
    assert_acts(w, "gate leave; exit 125 failed");
    assert_said(
        w, "process 1001 ended at step 3 without pch_done or pch_close (in Python: done or close)");
}

/* Behind a shell that ends with `|| true`: the rank has said itself that it failed. */
Test(core_walk, a_failure_that_the_command_hides_is_one)
{
    struct walk *w = begin_attached(1);
    tree_empty(w);
    says(w, 0, (struct procmsg){.type = PROCMSG_CLOSE, .step = 5, .number = 3});
    assert_said(w, "rank 0 (process 1000) has exited with 3 at step 5");
    exited(w, 0, 0);
    assert_acts(w, "0: WELCOME; 0: closed; gate leave; exit 3 failed");
    assert_said(w, "rank 0, process 1000 exited with 3 at step 5, and its command with 0");
}

/* As before, but read after the end of the command; and a number that no program exits with. */
Test(core_walk, a_failure_that_is_told_late)
{
    struct walk *w = begin_attached(1);
    ends(w, 0);
    assert_acts(w, "0: WELCOME");
    says(w, 0, (struct procmsg){.type = PROCMSG_CLOSE, .step = 5, .number = INT64_MIN});
    assert_acts(w, "0: closed; gate leave; exit 255 failed");
}

Test(core_walk, a_command_that_fails_is_the_one_that_counts)
{
    struct walk *w = begin_attached(1);
    says(w, 0, (struct procmsg){.type = PROCMSG_CLOSE, .step = 5, .number = 3});
    ends(w, 7 << 8);
    assert_acts(w, "0: WELCOME; 0: closed; gate leave; exit 7 failed");
}

static void says_why(struct walk *w, int slot, int code, const char *why)
{
    struct procmsg msg = {.type = PROCMSG_ERROR, .number = code};
    str_copy(msg.text, sizeof msg.text, why);
    says(w, slot, msg);
}

/* The process's exit code is its own, and comes with its end. */
Test(core_walk, a_reason_is_kept_until_the_failure)
{
    struct walk *w = begin_attached(1);
    says_why(w, 0, 9, "bad loss");
    assert_said(w, "process: rank 0 says why it fails: bad loss");
    assert_acts(w, "0: WELCOME");
    ends(w, 3 << 8);
    assert_acts(w, "gate leave; exit 3 failed");
    assert_said(w, "rank 0, process 1000 ended with exit code 3: bad loss");
}

Test(core_walk, a_reason_is_forgotten_by_who_is_done)
{
    struct walk *w = begin_attached(1);
    says_why(w, 0, 9, "");
    assert_said(w, "rank 0 says why it fails: no reason given");
    says(w, 0, (struct procmsg){.type = PROCMSG_DONE, .step = 4});
    closes(w, 0);
    ends(w, 0);
    assert_acts(w, "0: WELCOME; 0: closed; gate leave; exit 0 completed");
}

Test(core_walk, a_reason_of_who_goes_without_a_word)
{
    struct walk *w = begin_attached(1);
    says_why(w, 0, 9, "bad loss");
    gone(w, 0);
    ends(w, 0);
    assert_acts(w, "0: WELCOME; gate leave; exit 9 failed");
    assert_said(w, "process 1000 ended at step 0, and its command with 0: bad loss");
}

/* The launcher fails since its ranks do: the first that said why is the cause. */
Test(core_walk, a_reason_below_a_launcher)
{
    struct core_params p = params_of(0, 1, 1);
    p.expected_procs = PROCMSG_UNKNOWN;
    struct walk *w = begin_started(&p);
    for (int rank = 0; rank < 3; rank++)
        says(w, rank + 10,
             (struct procmsg){.type = PROCMSG_ATTACH,
                              .rank = rank,
                              .local_rank = rank,
                              .world_size = 3,
                              .local_world_size = 3,
                              .stride = 1});
    says_why(w, 10, 1, "over it");
    closes(w, 10);
    now += S;
    says_why(w, 12, 1, "out of memory");
    now += S;
    says_why(w, 11, 1, "lost my peer");
    w->acts[0] = '\0';
    ends(w, 2 << 8);
    assert_acts(w, "gate leave; exit 2 failed");
    assert_said(w, "rank 2, process 1000 ended with exit code 2: out of memory");
}

Test(core_walk, who_cannot_resume_fails_at_once)
{
    struct walk *w = begin_alone(1);
    attaches(w, 0, 0, 1);
    feed(w, (struct event){.type = EV_PROC_LOST, .proc = {.slot = 0, .why = "its record is gone"}});
    assert_acts(w, "0: WELCOME; gate leave; SIGTERM to tree");
    assert_said(w, "rank 0 cannot resume: its record is gone");
    ends(w, SIGTERM);
    assert_acts(w, "exit 125 failed");
}

Test(core_walk, who_cannot_be_attached_fails_the_job)
{
    struct walk *w = begin_alone(1);
    feed(w, (struct event){.type = EV_PROC_UNATTACHED,
                           .proc = {.slot = -1, .pid = 7, .why = "no memory"}});
    assert_acts(w, "gate leave; SIGTERM to tree");
    assert_said(w, "process 7 could not be attached: no memory");
    ends(w, SIGTERM);
    assert_acts(w, "exit 125 failed");
}

Test(core_walk, who_leaves_early_is_told_of)
{
    struct walk *w = begin_attached(1);
    says(w, 0, (struct procmsg){.type = PROCMSG_CLOSE, .step = 5});
    assert_said(
        w,
        "attach: rank 0 (process 1000) has detached at step 5 without pch_done (in Python: done)");
    attaches(w, 0, 0, 1);
    w->log[0] = '\0';
    says(w, 0, (struct procmsg){.type = PROCMSG_DONE, .step = 9});
    says(w, 0, (struct procmsg){.type = PROCMSG_CLOSE, .step = 9});
    cr_assert_str_eq(w->log, "");
    w->acts[0] = '\0';
    ends(w, 0);
    assert_acts(w, "gate leave; exit 0 completed");
}

/* The rank's end is read a moment after the end of its command, or of the shell that started it. */
Test(core_walk, the_word_of_who_is_still_attached_is_waited_for)
{
    struct walk *w = begin_attached(1);
    ends(w, 0);
    assert_acts(w, "0: WELCOME");
    closes(w, 0);
    assert_acts(w, "0: closed; gate leave; exit 0 completed");
}

/* The rank may be in the middle of its training: the 0 of its command is not the rank's success. */
Test(core_walk, who_stays_attached_lives_elsewhere)
{
    struct walk *w = begin_attached(1);
    ends(w, 0);
    assert_acts(w, "0: WELCOME");
    wake(w);
    assert_acts(w, "read");
    steps[0] = 7;
    steps_are_read(w);
    assert_acts(w, "gate leave; exit 125 failed");
    assert_said(w, "process 1000 is still attached at step 7 without pch_done");
}

Test(core_walk, who_stays_attached_and_is_done_is_left)
{
    struct walk *w = begin_attached(1);
    says(w, 0, (struct procmsg){.type = PROCMSG_DONE, .step = 7});
    ends(w, 0);
    wake(w);
    steps_are_read(w);
    assert_acts(w, "0: WELCOME; read; gate leave; exit 0 completed");
}

/* The rank is being ended. Until then it may still report that it is done. */
Test(core_walk, who_is_being_swept_may_still_be_done)
{
    struct walk *w = begin_attached(1);
    exited(w, 0, 0);
    wake(w);
    assert_acts(w, "0: WELCOME; SIGTERM to tree");
    wake(w);
    assert_acts(w, "read");
    steps_are_read(w);
    assert_acts(w, "");
    closes(w, 0);
    tree_empty(w);
    assert_acts(w, "0: closed; gate leave; exit 0 completed");
}

Test(core_walk, a_second_process_for_a_rank_while_the_others_train)
{
    struct walk *w = begin_attached(1);
    steps[0] = 3;
    attaches(w, 5, 0, 1);
    assert_acts(w, "0: WELCOME; 5: REFUSED; 5: closed; read");
    steps_are_read(w);
    assert_acts(w, "");
    assert_said(w,
                "refused process 1005: rank 0 is attached already, by process 1000; "
                "process 1005 has the same rank (if torchrun or another launcher starts the ranks, "
                "give no -n)");
    closes(w, 0);
    ends(w, 0);
    assert_acts(w, "0: closed; gate leave; exit 0 completed");
}

Test(core_walk, a_second_process_for_a_rank_before_the_training)
{
    struct walk *w = begin_attached(1);
    steps[0] = 0;
    attaches(w, 5, 0, 1);
    steps_are_read(w);
    assert_acts(w, "0: WELCOME; 5: REFUSED; 5: closed; read; gate leave; SIGTERM to tree");
    ends(w, SIGTERM);
    assert_acts(w, "exit 125 failed");
}

/* Without it the job would go on and call the first process every rank. */
Test(core_walk, a_rank_that_the_program_starts_itself_fails_the_job)
{
    struct walk *w = begin_attached(1);
    steps[0] = 3;
    says(w, 5,
         (struct procmsg){.type = PROCMSG_ATTACH,
                          .rank = PROCMSG_UNKNOWN,
                          .local_rank = 1,
                          .world_size = 2,
                          .local_world_size = PROCMSG_UNKNOWN,
                          .stride = 1});
    assert_said(w,
                "refused process 1005: the program starts its ranks itself: process 1005 is local "
                "rank 1 of a world of 2, but the world had 1 when the first process attached; let "
                "pchrun start the ranks: pchrun -n 2 -- command");
    ends(w, SIGTERM);
    assert_said(w, "ending: failed");
}

/* The file system of the evidence may be dead. */
Test(core_walk, evidence_that_does_not_come_holds_no_hang)
{
    struct core_params params = params_of(0, 1, 1);
    params.watchdog = (struct watchdog_plan){.mode = WATCHDOG_ON, .evidence_ns = 3 * S};
    for (int i = 0; i < PAGE_PHASES; i++)
        params.watchdog.limit_ns[i] = 10 * S;
    struct walk *w = begin_ranks(&params);
    int64_t attached = now;
    while (!strstr(w->log, "ending: hang") && now < attached + 60 * S) {
        steps_are_read(w);
        wake(w);
    }
    assert_said(w, "no rank makes progress");
    assert_said(w, "ending: hang");
    cr_assert_leq(now, attached + 10 * S + 3 * S + 6 * S, "the end came late");
}

Test(core_walk, a_checkpoint_waits_for_the_ranks)
{
    struct walk *w = begin_alone(2);
    signalled(w, SIGUSR2);
    assert_said(w, "checkpoint: a save was asked for; it is made when every rank has attached");
    w->log[0] = '\0';
    attaches(w, 0, 0, 2);
    assert_not_said(w, "checkpoint");
    attaches(w, 1, 1, 2);
    assert_acts(w, "0: WELCOME; 1: WELCOME; gate 1; read");
}

Test(core_walk, a_checkpoint_that_cannot_be_made)
{
    struct walk *w = begin_attached(2);
    gone(w, 1);
    signalled(w, SIGUSR2);
    assert_said(w, "no save is made, though one was asked for: a rank has ended");
    attaches(w, 2, 1, 2); /* the successor is not asked for the forgotten save */
    assert_acts(w, "0: WELCOME; 1: WELCOME; 2: WELCOME");
}

/* The record of one round is written for so long that the next has begun: it does not count for the
 * next. */
Test(core_walk, a_record_that_comes_after_its_round)
{
    struct walk *w = begin_attached(1);
    steps[0] = 8;
    signalled(w, SIGUSR2);
    steps_are_read(w);
    steps_are_read(w);
    saves(w, 0, 9, 1);
    assert_acts(w, "0: WELCOME; gate 1; read; gate 9; read; gate 9 decided; gate open; prepare 9");
    passes(w, 31 * S);
    assert_said(w, "save: step 9 is not saved, so it is not committed");
    steps[0] = 20;
    terminated(w);
    steps_are_read(w);
    saves(w, 0, 21, 2);
    w->acts[0] = '\0';
    written(w, EV_PREPARED);
    assert_acts(w, "prepare 21");
    written(w, EV_PREPARED);
    assert_acts(w, "commit 21");
}

Test(core_walk, an_absurd_save_is_a_failed_one)
{
    struct walk *w = begin_attached(1);
    saves_and_waits(w, 0, UINT64_MAX, 0);
    assert_acts(w, "0: WELCOME; 0: go on, not committed");
    assert_said(w, "could not save step 18446744073709551615: this step number is too high");
}

/* --- ranks that only count their steps --- */

static void counts(struct walk *w, int slot)
{
    says(w, slot,
         (struct procmsg){.type = PROCMSG_ATTACH,
                          .flags = PROCMSG_FLAG_COUNTS,
                          .rank = PROCMSG_UNKNOWN,
                          .local_rank = PROCMSG_UNKNOWN,
                          .world_size = PROCMSG_UNKNOWN,
                          .local_world_size = PROCMSG_UNKNOWN});
}

Test(core_walk, a_notice_is_for_who_counts_as_for_who_does_not_attach)
{
    struct walk *w = begin_alone(1);
    counts(w, 0);
    assert_acts(w, "0: WELCOME");
    steps[0] = 7;
    steps_are_read(w);
    terminated(w);
    assert_acts(w, "read; gate leave; SIGTERM to children");
    assert_said(w, "no program has attached by pch_open() (in Python: pch.attach), so none could "
                   "be asked to save; see --instrument and --save-mode signal");
    gone(w, 0);
    ends(w, SIGTERM);
    assert_acts(w, "exit 42 preempted_unknown");
    steps[0] = 0;
}

Test(core_walk, who_counts_is_believed_by_its_exit_code_alone)
{
    struct core_rank_report list[4];
    struct walk *w = begin_alone(1);
    counts(w, 3);
    steps[3] = 9;
    steps_are_read(w);
    cr_assert_eq(core_ranks(w->core, list, 4), 1);
    cr_assert(list[0].is_counting && list[0].is_attached && list[0].step == 9);
    saves_and_waits(w, 3, 9, 0);
    says(w, 3, (struct procmsg){.type = PROCMSG_NOTICE, .number = SIGTERM});
    gone(w, 3);
    ends(w, 0);
    assert_acts(w, "3: WELCOME; gate leave; exit 0 completed");
    steps[3] = 0;
}

Test(core_walk, who_counts_says_why_it_fails)
{
    struct walk *w = begin_alone(1);
    says(w, 0, (struct procmsg){.type = PROCMSG_ATTACH, .flags = PROCMSG_FLAG_COUNTS, .rank = 0});
    says(w, 0, (struct procmsg){.type = PROCMSG_ERROR, .number = 1, .text = "no such batch"});
    says(w, 0, (struct procmsg){.type = PROCMSG_CLOSE, .number = 1});
    ends(w, 1 << 8);
    struct core_report report = report_of(w);
    cr_assert(strstr(report.first_cause.text, "no such batch"), "%s", report.first_cause.text);
}

Test(core_walk, a_counter_takes_no_place_of_a_rank)
{
    struct walk *w = begin_alone(1);
    counts(w, 0);
    attaches(w, 1, 0, 1);
    assert_acts(w, "0: WELCOME; 1: WELCOME");
    counts(w, 2);
    assert_acts(w, "2: WELCOME");
    says(w, 3,
         (struct procmsg){
             .type = PROCMSG_ATTACH, .flags = PROCMSG_FLAG_COUNTS, .step = GATE_STEP_MAX});
    assert_acts(w, "3: REFUSED; 3: closed"); /* and the job goes on */
}

/* --- lines that are failures --- */

static void prints(struct walk *w, const char *line)
{
    feed(w, (struct event){.type = EV_CHILD_BAD, .child = {.index = 0, .line = line}});
}

Test(core_walk, a_line_may_be_a_failure)
{
    struct walk *w = begin_attached(1);
    prints(w, "loss: nan");
    assert_said(w, "process 1000 printed a line that watchdog.log_failure matches: loss: nan");
    steps_are_read(w);
    ends(w, 0);
    struct core_report report = report_of(w);
    cr_assert_eq(report.outcome, OUTCOME_FAILED);
    cr_assert_eq(report.exit_code, 1);
    cr_assert(strstr(report.why, "matches: loss: nan"), "%s", report.why);
    cr_assert_eq(report.first_cause.rank, 0);
}

/* A command that has ended is judged by its exit code, and one that is being ended is not judged.
 */
Test(core_walk, a_line_comes_too_late)
{
    struct walk *w = begin_alone(1);
    terminated(w);
    prints(w, "loss: nan");
    ends(w, SIGTERM);
    assert_did(w, "exit 42 preempted_unknown");
}
