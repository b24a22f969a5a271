/* SPDX-License-Identifier: Apache-2.0
 *
 * test_core_notices: how one node handles notices: two saves in a long grace, one save in a short
 * one, deadlines that move, advice, withdrawal.
 */
#include "noticewalk.h"

#include "base/str.h"
#include "core/common/grace.h"
#include "wire/gate.h"

#include <stdio.h>
#include <stdlib.h>

TestSuite(core_notices, .fini = walks_end);

/* Two seconds later SIGTERM comes again, and the steps are read for it. */
static void told_again(struct walk *w)
{
    w->acts[0] = '\0';
    now += 2 * S;
    steps[0] = 9;
    signalled(w, SIGTERM);
    assert_said(w, "SIGTERM again: saving now, without more training");
    steps_are_read(w);
}

/* A walk up to the decision for a notice that leaves `left`. */
static struct walk *begin_noticed(bool trains_on, int64_t save, int64_t left)
{
    struct walk *w = begin(trains_on, save);
    told(w, NOTICE_TERMINATE, "7", left);
    decide(w);
    return w;
}

Test(core_notices, a_long_grace_has_two_saves)
{
    struct walk *w = begin_noticed(true, 0, 100 * S);
    int64_t at = now;
    assert_acts(w, "read; gate 5; read; gate 5 decided");
    save(w, 5, 1, S / 2);
    assert_acts(w, "gate open; prepare 5; commit 5; committed 5; 0: go on, committed");
    assert_said(w, "the training goes on for 97");
    uint64_t last = train(w, at + 98 * S, 100 * MS);
    cr_assert_geq(now, at + 97 * S, "it saves before the last moment");
    steps[0] = last - 1;
    steps_are_read(w);
    assert_said(w, "every rank saves step 9");
    w->acts[0] = '\0';
    save(w, last, 2, S / 2);
    assert_did(w, "0: leave, committed; gate leave");
    leave(w);
    assert_acts(w, "0: closed; exit 42 preempted");
}

/* The reserve stays for a machine that is busy in its last minute. */
Test(core_notices, a_save_that_took_next_to_nothing_has_the_reserve)
{
    struct walk *w = begin_noticed(true, 0, 100 * S);
    int64_t at = now;
    save(w, 5, 1, 20 * MS);
    train(w, at + 98 * S + S / 2, 100 * MS);
    cr_assert_geq(now, at + 98 * S);
}

Test(core_notices, a_short_grace_has_one)
{
    struct walk *w = begin(true, 12 * S);
    told(w, NOTICE_TERMINATE, "", NOTICE_LEFT_UNKNOWN);
    decide(w);
    assert_acts(w, "read; gate 5; read; gate 5 decided last");
}

/* The first save takes longer than expected. So there is no time for another one. */
Test(core_notices, a_save_that_takes_long_is_the_last)
{
    struct walk *w = begin_noticed(true, 0, 25 * S);
    assert_acts(w, "read; gate 5; read; gate 5 decided");
    save(w, 5, 1, 13 * S);
    assert_acts(
        w, "gate open; prepare 5; read; commit 5; committed 5; 0: leave, committed; gate leave");
    leave(w);
    assert_acts(w, "0: closed; exit 42 preempted");
}

/* A save of two fifths of the grace leaves time for a second one, and for some training before it.
 * The spare time is then short, also if earlier attempts have measured saves. */
Test(core_notices, a_long_save_has_a_second_one)
{
    static const int64_t known[] = {0, 10 * S};
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        struct walk *w = begin_noticed(true, known[i], 25 * S);
        int64_t at = now;
        save_awake(w, 5, 1, 10 * S);
        assert_said(w, "the training goes on for 2");
        w->acts[0] = '\0';
        uint64_t step = train(w, at + 14 * S, 100 * MS);
        decide(w);
        assert_did(w, "decided last");
        save_awake(w, step, 2, 10 * S);
        leave(w);
        assert_did(w, "exit 42 preempted");
    }
}

/* One save was measured, and the next may take twice as long, if the grace allows it. */
Test(core_notices, a_second_save_may_take_twice_as_long)
{
    struct walk *w = begin_noticed(true, 0, 60 * S);
    int64_t at = now;
    save(w, 5, 1, 5 * S);
    w->acts[0] = '\0';
    uint64_t step = train(w, at + 49 * S, 100 * MS);
    decide(w);
    save(w, step, 2, 10 * S);
    leave(w);
    assert_did(w, "exit 42 preempted");
    cr_assert_geq(now, at + 55 * S, "it has left after %lld s", (long long)((now - at) / S));
}

/* The time of a save in the record counts as one that was measured. With it, the first save of this
 * attempt is the second. */
Test(core_notices, a_save_of_an_earlier_attempt_was_measured)
{
    struct walk *w = begin_noticed(true, 5 * S, 60 * S);
    int64_t at = now;
    save_awake(w, 5, 1, 5 * S);
    train(w, at + 52 * S, 100 * MS);
    cr_assert_geq(now, at + 50 * S, "it saves after %lld ms", (long long)((now - at) / MS));
}

/* Trains until the next save, also through a bell. */
static uint64_t train_to_save(struct walk *w, int64_t until)
{
    uint64_t step = train(w, until, 100 * MS);
    while (gate_is_bell(w->gate)) {
        steps[0] = step;
        says(w, 0, (struct procmsg){.type = PROCMSG_WAITING, .step = step, .word = w->gate});
        decide(w);
        step = gate_step(w->gate);
    }
    return step;
}

/* A save of checkpoint.every would begin 18 s after the notice, and end when the last one should be
 * under way. So it is left to the last one. */
Test(core_notices, a_usual_save_that_would_delay_the_last_one_is_left_to_it)
{
    struct core_params p = params_of(0, 1, 1);
    p.train_on = TRAIN_ON_ALWAYS;
    p.end_ns = MS;
    p.every_ns = 6 * S;
    struct walk *w = begin_ranks(&p);
    steps[0] = 4;
    told(w, NOTICE_TERMINATE, "7", 25 * S);
    int64_t at = now;
    decide(w);
    save_awake(w, 5, 1, 3 * S);
    uint64_t step = train_to_save(w, at + 10 * S);
    cr_assert_geq(now, at + 9 * S);
    save_awake(w, step, 2, 3 * S);
    step = train_to_save(w, at + 21 * S);
    cr_assert_geq(now, at + 19 * S, "it saves after %lld ms", (long long)((now - at) / MS));
    decide(w);
    save_awake(w, step, 3, 3 * S);
    leave(w);
    assert_did(w, "exit 42 preempted");
}

Test(core_notices, who_shall_not_train_on_saves_once)
{
    struct walk *w = begin_noticed(false, 0, 3600 * S);
    assert_acts(w, "read; gate 5; read; gate 5 decided last");
}

/* One save tells nothing of how saves vary: the next may take twice as long. */
Test(core_notices, a_second_save_has_the_time_of_two_while_one_was_seen)
{
    struct walk *w = begin_noticed(true, 0, 20 * S);
    int64_t at = now;
    save(w, 5, 1, S);
    uint64_t last = train(w, at + 18 * S, 10 * MS);
    cr_assert_geq(now, at + 17 * S);
    steps[0] = last - 1;
    steps_are_read(w);
    assert_said(w, "then leaves");
    w->acts[0] = '\0';
    save(w, last, 2, 2 * S);
    assert_did(w, "0: leave, committed; gate leave");
}

/* --- is the deadline known? --- */

static struct walk *begin_auto(bool is_guess)
{
    struct core_params p = params_of(0, 1, 1);
    p.train_on = TRAIN_ON_AUTO;
    p.is_guess = p.signals[SIGTERM].is_guess = is_guess;
    struct walk *w = begin_ranks(&p);
    steps[0] = 4;
    assert_acts(w, "0: WELCOME");
    return w;
}

/* docker stop kills after 10 s, and a Spot node of GKE after 15. */
Test(core_notices, by_a_guess_the_job_does_not_train_on)
{
    struct walk *w = begin_auto(true);
    signalled(w, SIGTERM);
    decide(w);
    assert_said(w, "the deadline is a guess (25 s), so the job saves and leaves at once; to train "
                   "on set grace or save.train_on");
    assert_acts(w, "read; gate 5; read; gate 5 decided last");
    save(w, 5, 1, S / 10);
    assert_did(w, "0: leave, committed; gate leave");
    leave(w);
    assert_acts(w, "0: closed; exit 42 preempted");
}

Test(core_notices, up_to_a_known_deadline_it_trains_on)
{
    struct walk *w = begin_auto(false);
    signalled(w, SIGTERM);
    decide(w);
    assert_said(w, "the deadline is known (25 s), so the job trains on if there is time; with "
                   "save.train_on false it saves and leaves at once");
    save(w, 5, 1, S / 10);
    assert_said(w, "the training goes on");
}

Test(core_notices, a_deadline_that_a_source_names_is_known)
{
    struct walk *w = begin_auto(true);
    told(w, NOTICE_TERMINATE, "7", 100 * S);
    decide(w);
    assert_said(w, "the deadline is known (100 s)");
    save(w, 5, 1, S / 10);
    assert_said(w, "the training goes on");
    w->acts[0] = '\0';
    now += 2 * S;
    steps[0] = 9;
    signalled(w, SIGTERM); /* the earlier deadline decides, and it is a guess */
    assert_said(w, "the deadline is a guess (25 s)");
    decide(w);
    assert_did(w, "decided last");
}

Test(core_notices, a_guess_that_is_withdrawn_leaves_the_known_deadline)
{
    struct walk *w = begin_auto(true);
    told(w, NOTICE_TERMINATE, "7", 100 * S);
    told(w, NOTICE_TERMINATE, "8", NOTICE_LEFT_UNKNOWN);
    steps_are_read(w);
    assert_said(w, "the deadline is a guess (25 s)");
    told(w, NOTICE_CANCEL, "8", 0);
    steps_are_read(w);
    save(w, 5, 1, S / 10);
    assert_said(w, "the training goes on");
}

Test(core_notices, who_wants_to_trains_on_by_a_guess)
{
    struct core_params p = params_of(0, 1, 1);
    p.train_on = TRAIN_ON_ALWAYS;
    p.signals[SIGTERM].is_guess = true;
    struct walk *w = begin_ranks(&p);
    steps[0] = 4;
    signalled(w, SIGTERM);
    decide(w);
    assert_said(w, "the deadline is a guess (25 s), but save.train_on is true");
    save(w, 5, 1, S / 10);
    assert_said(w, "the training goes on");
}

Test(core_notices, a_second_signal_ends_the_training)
{
    struct walk *w = begin(true, 0);
    signalled(w, SIGTERM);
    decide(w);
    save(w, 5, 1, S / 10);
    assert_said(w, "the training goes on");
    told_again(w);
    assert_did(w, "gate");
    w->acts[0] = '\0';
    steps_are_read(w);
    assert_did(w, "decided last");
}

Test(core_notices, a_sooner_deadline_moves_the_plan)
{
    struct walk *w = begin_noticed(true, S, 100 * S);
    save(w, 5, 1, S / 2);
    w->acts[0] = '\0';
    told(w, NOTICE_TERMINATE, "8", S);
    assert_said(w, "cloud, 1 s left");
    wake(w);
    assert_acts(w, "gate 6; read");
    steps_are_read(w);
    assert_acts(w, "gate 6 decided last");
}

Test(core_notices, one_that_is_withdrawn_is_forgotten)
{
    struct walk *w = begin_noticed(true, 0, 100 * S);
    save(w, 5, 1, S / 2);
    told(w, NOTICE_CANCEL, "8", NOTICE_LEFT_UNKNOWN);
    told(w, NOTICE_CANCEL, "7", NOTICE_LEFT_UNKNOWN);
    assert_said(w, "withdrawn: this node has no notice any more");
    w->acts[0] = '\0';
    cr_assert_eq(core_wake_at(w->core), CLOCK_NEVER, "idle costs nothing");
    closes(w, 0);
    ends(w, 0);
    assert_acts(w, "0: closed; gate leave; exit 0 completed");
}

Test(core_notices, advice_is_a_save_and_no_more)
{
    struct walk *w = begin(true, 0);
    told(w, NOTICE_CHECKPOINT, "7", NOTICE_LEFT_UNKNOWN);
    assert_said(w, "cloud checkpoint: save and go on");
    assert_acts(w, "gate 1; read");
    steps_are_read(w);
    steps_are_read(w);
    assert_acts(w, "gate 5; read; gate 5 decided");
    save(w, 5, 1, S / 2);
    assert_acts(w, "gate open; prepare 5; commit 5; committed 5; 0: go on, committed");
    told(w, NOTICE_CHECKPOINT, "7", NOTICE_LEFT_UNKNOWN);
    told(w, NOTICE_CHECKPOINT, "8", NOTICE_LEFT_UNKNOWN);
    assert_said(w, "the job has just saved for such a notice");
    told(w, NOTICE_LOG, "9", NOTICE_LEFT_UNKNOWN);
    assert_acts(w, "");
}

/* The deadline has passed by some clock, or is nonsense: the notice counts from now. */
Test(core_notices, a_deadline_that_has_passed_leaves_the_usual_grace)
{
    struct walk *w = begin(false, 0);
    told(w, NOTICE_TERMINATE, "7", -50 * S);
    assert_said(w, "cloud, 25 s left");
}

Test(core_notices, a_deadline_far_away_is_held_to_a_year)
{
    struct walk *w = begin(true, S);
    told(w, NOTICE_TERMINATE, "7", INT64_MAX);
    assert_said(w, "cloud, 366 days left");
    decide(w);
    assert_acts(w, "read; gate 5; read; gate 5 decided");
}

/* A program that does not attach gets the signal when it has the usual grace, not hours before. But
 * it gets the signal before its time is over, however short that grace is. */
Test(core_notices, who_does_not_attach_is_told_in_time)
{
    static const struct {
        int64_t grace, left, told;
    } cases[] = {{25 * S, 3600 * S, 3575 * S}, {S, 100 * S, 94 * S}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct core_params p = params_of(0, 1, 1);
        p.grace_ns = cases[i].grace;
        p.train_on = TRAIN_ON_ALWAYS;
        p.save_mode = SAVE_FORWARD;
        struct walk *w = begin_started(&p);
        int64_t at = now;
        told_end(w, "7", cases[i].left);
        assert_acts(w, "read");
        wake(w);
        assert_acts(w, "gate leave; SIGTERM to children");
        cr_assert_eq(now, at + cases[i].told);
        if (cases[i].grace == S) {
            wake(w);
            assert_acts(w, "SIGKILL to tree");
            cr_assert_gt(now, at + 99 * S);
        }
    }
}

/* The time kept back for stopping is a share of the new deadline, not of the former one. */
Test(core_notices, a_sooner_deadline_leaves_time_for_the_save)
{
    struct walk *w = begin_noticed(true, S / 10, 3600 * S);
    save(w, 5, 1, S / 10);
    w->acts[0] = '\0';
    for (int i = 0; i < 60; i++) {
        wake(w);
        steps[0]++;
        steps_are_read(w);
    }
    told_end(w, "8", 3 * S / 2);
    decide(w);
    assert_did(w, "decided last");
}

/* No rank knows yet that the save was to be the last. */
Test(core_notices, one_that_is_withdrawn_before_the_decision_leaves_the_other)
{
    struct walk *w = begin(true, 0);
    told_end(w, "7", 3600 * S);
    assert_acts(w, "read; gate 5; read");
    told(w, NOTICE_TERMINATE, "8", S / 100);
    told(w, NOTICE_CANCEL, "8", NOTICE_LEFT_UNKNOWN);
    steps_are_read(w);
    assert_acts(w, "gate 5 decided");
}

/* The second signal counts, whichever notice leaves less time. */
Test(core_notices, a_second_signal_counts_beside_another_notice)
{
    struct walk *w = begin(true, S / 10);
    signalled(w, SIGTERM);
    told(w, NOTICE_TERMINATE, "7", 20 * S);
    decide(w);
    save(w, 5, 1, S / 10);
    told_again(w);
    steps_are_read(w);
    assert_did(w, "decided last");
    now += 2 * S;
    signalled(w, SIGTERM);
    assert_said(w, "third SIGTERM: giving up the save, stopping now");
}

/* However many sources say something. */
Test(core_notices, a_signal_is_never_forgotten)
{
    struct walk *w = begin(true, S / 10);
    signalled(w, SIGTERM);
    for (int i = 0; i < 2 * GRACE_NOTICES_MAX; i++) {
        char id[8] = {(char)('a' + i)};
        told(w, NOTICE_TERMINATE, id, 20 * S - i * MS);
    }
    decide(w);
    save(w, 5, 1, S / 10);
    told(w, NOTICE_CANCEL, "", NOTICE_LEFT_UNKNOWN);
    assert_not_said(w, "withdrawn");
    assert_said(w, "SIGTERM, 24.9 s left now");
}

/* The time of a save does not count as the time of a step: no rank trains meanwhile. */
Test(core_notices, a_save_is_no_slow_step)
{
    struct walk *w = begin_noticed(true, 0, 120 * S);
    save(w, 5, 1, 20 * S);
    assert_said(w, "the training goes on for 66");
}

/* Rank 1 stands in its save until rank 0 comes, and no pace is known yet. That wait does not show
 * how long rank 0 needs for a step. */
Test(core_notices, a_wait_for_a_rank_in_a_save_is_no_slow_step)
{
    struct core_params p = params_of(0, 1, 2);
    p.train_on = TRAIN_ON_ALWAYS;
    struct walk *w = begin_ranks(&p);
    steps[0] = 1;
    steps[1] = 4;
    told(w, NOTICE_TERMINATE, "7", 40 * S);
    decide(w);
    steps[1] = 5;
    serves(w, 1, 5, 1);
    saves_and_waits(w, 1, 5, 1);
    for (int64_t until = now + 7 * S; now < until;)
        wake_and_read(w, 1);
    save(w, 5, 1, S / 2);
    assert_said(w, "the training goes on for 2");
}

/* Two ranks train until a gate is set, `time` at most. */
static void train_both(struct walk *w, int64_t time, int64_t step_time)
{
    int64_t from = now;
    uint64_t first[] = {steps[0], steps[1]};
    while (now < from + time && !strstr(w->acts, "gate")) {
        wake(w);
        for (int i = 0; i < 2; i++)
            steps[i] = first[i] + (uint64_t)((now - from) / step_time);
        steps_are_read(w);
    }
}

/* Rank 0 is 24 steps behind, and the pace has just risen. It needs the time of 24 quick steps to
 * come up. By the slow steps of before, the last save would begin after 64 s. */
Test(core_notices, a_rank_that_is_behind_has_the_pace_of_the_same_time)
{
    struct core_params p = params_of(0, 1, 2);
    p.train_on = TRAIN_ON_ALWAYS;
    struct walk *w = begin_ranks(&p);
    steps[0] = steps[1] = 4;
    told(w, NOTICE_TERMINATE, "7", 100 * S);
    decide(w);
    steps[1] = 5;
    serves(w, 1, 5, 1);
    saves_and_waits(w, 1, 5, 1);
    save(w, 5, 1, S / 2);
    w->acts[0] = '\0';
    int64_t at = now;
    steps[1] = 29;
    train_both(w, 61 * S + S / 2, S);
    train_both(w, 38 * S, 20 * MS);
    cr_assert_geq(now, at + 90 * S, "it saves after %lld s", (long long)((now - at) / S));
}

/* pchrun did not run for most of a save: that says nothing about saves. */
Test(core_notices, a_pause_in_a_save_is_no_slow_save)
{
    struct walk *w = begin_noticed(true, 0, 100 * S);
    save(w, 5, 1, S / 2);
    w->log[0] = '\0';
    signalled(w, SIGUSR2);
    decide(w);
    save(w, 6, 2, 10 * S);
    assert_said(w, "pchrun did not run for 9");
    assert_said(w, "the training goes on for 87");
}

/* A source that gives and withdraws a notice all the time does not keep the job saving. */
Test(core_notices, one_that_is_withdrawn_in_the_save_and_comes_again)
{
    struct walk *w = begin_noticed(true, 0, 100 * S);
    told(w, NOTICE_CANCEL, "7", NOTICE_LEFT_UNKNOWN);
    save(w, 5, 1, S);
    w->acts[0] = '\0';
    told_end(w, "8", 100 * S);
    assert_acts(w, "read");
}

/* The pace may have dropped since: whatever the pace was, the save step is the next one at which
 * all can stop.
 */
Test(core_notices, the_save_step_is_one_above_the_furthest_rank)
{
    struct walk *w = begin_noticed(true, 0, 100 * S);
    save(w, 5, 1, S / 10);
    for (int i = 0; i < 5; i++) { /* 200 steps a second */
        wake(w);
        steps[0] += 200;
        steps_are_read(w);
    }
    now += S / 2; /* a step is under way that takes longer than all before it */
    steps[0] += 1;
    told(w, NOTICE_TERMINATE, "8", S / 6);
    w->acts[0] = '\0';
    decide(w);
    decide(w);
    assert_did(w, "gate 1007 decided last");
}

/* A save that has begun may also use the time that was kept back for stopping. */
Test(core_notices, a_save_has_the_time_until_just_before_the_deadline)
{
    struct walk *w = begin_noticed(false, S, 32 * S);
    int64_t at = now;
    steps[0] = 5;
    serves(w, 0, 5, 1);
    w->acts[0] = '\0';
    while (!strstr(w->acts, "gate leave"))
        wake(w);
    cr_assert_eq(now, at + 32 * S - S / 4, "%lld", (long long)(now - at));
}

/* The machine was suspended in a save, and runs again when the deadline has passed. */
static struct walk *begin_suspended(void)
{
    struct walk *w = begin_noticed(false, S, 32 * S);
    w->acts[0] = '\0';
    passes(w, 100 * S);
    assert_said(w, "pchrun did not run for 99s");
    assert_did_not(w, "gate leave");
    return w;
}

/* A save that ends then is still worth a commit. */
Test(core_notices, a_deadline_that_passed_unseen_leaves_time_for_a_save)
{
    struct walk *w = begin_suspended();
    save(w, 5, 1, S);
    leave(w);
    assert_did(w, "exit 42 preempted");
}

/* The training has ended, and the news of it comes with all other news. */
Test(core_notices, a_deadline_that_passed_unseen_does_not_hide_the_end)
{
    struct walk *w = begin_suspended();
    says(w, 0, (struct procmsg){.type = PROCMSG_DONE, .step = 4});
    leave(w);
    assert_did(w, "exit 0 completed");
}

/* Only the commit was missing. The news of it comes first, and does not end the job either. */
Test(core_notices, a_commit_behind_a_deadline_that_passed_unseen_does_not_hide_the_end)
{
    struct walk *w = begin_noticed(true, S, 32 * S);
    serves(w, 0, 5, 1);
    now += S;
    saves_and_waits(w, 0, 5, 1);
    written(w, EV_PREPARED);
    now += 100 * S;
    written(w, EV_COMMITTED);
    assert_did(w, "0: go on, committed");
    says(w, 0, (struct procmsg){.type = PROCMSG_DONE, .step = 9});
    leave(w);
    assert_did(w, "exit 0 completed");
}

/* The machine was suspended when the node had just heard of the notice. */
Test(core_notices, a_deadline_that_passed_before_the_steps_were_read_does_not_hide_the_end)
{
    struct walk *w = begin(true, 0);
    told(w, NOTICE_TERMINATE, "7", 32 * S);
    now += 100 * S;
    steps_are_read(w);
    assert_said(w, "pchrun did not run for 99s");
    says(w, 0, (struct procmsg){.type = PROCMSG_DONE, .step = 4});
    leave(w);
    assert_did(w, "exit 0 completed");
}

Test(core_notices, a_deadline_that_passed_unseen_ends_the_job_soon)
{
    struct walk *w = begin_suspended();
    int64_t at = now;
    while (!strstr(w->acts, "gate leave"))
        wake(w);
    cr_assert_eq(now, at + 2 * S, "%lld", (long long)(now - at));
    assert_said(w, "the save was not committed in time");
}

/* After a save a moment ago there is little to lose; but not for the whole of a long grace. */
Test(core_notices, a_save_a_moment_ago_puts_off_the_first_one)
{
    struct walk *w = begin(true, 0);
    says(w, 0, (struct procmsg){.type = PROCMSG_WAITING, .step = 4});
    feed(w, (struct event){.type = EV_SAVE_ASKED});
    decide(w);
    save(w, 5, 1, S);
    int64_t kept = now;
    w->acts[0] = '\0';
    told_end(w, "7", 100 * S);
    assert_acts(w, "read");
    assert_said(w, "the training goes on for 96");
    train(w, kept + 21 * S, 100 * MS);
    cr_assert_geq(now, kept + 20 * S);
}

/* A scheduler starts the job for ever: the attempts do not count, but are not without end. */
Test(core_notices, a_hundred_attempts_before_the_first_step)
{
    static const struct {
        int before, limit;
        const char *wanted;
    } cases[] = {{98, 3, "exit 42 preempted_unsaved"},
                 {99, 3, "exit 43 no_progress"},
                 {99, 0, "exit 42 preempted_unsaved"},
                 {199, 200, "exit 43 no_progress"},
                 {198, 200, "exit 42 preempted_unsaved"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct core_params p = params_of(0, 1, 1);
        p.no_progress_limit = cases[i].limit;
        p.attempts_without_step = cases[i].before;
        struct walk *w = begin_ranks(&p);
        terminated(w);
        leave(w);
        cr_expect_not_null(strstr(w->acts, cases[i].wanted), "%zu: %s", i, w->acts);
        cr_expect_eq(!strstr(w->log, "this attempt does not count"),
                     strstr(cases[i].wanted, "no_progress") != NULL, "%zu: %s", i, w->log);
    }
}

/* --- notices that have ended enough attempts --- */

static void repeated(struct walk *w, const char *id, int64_t left)
{
    struct notice notice = {
        .type = NOTICE_TERMINATE, .source = "cloud", .left_ns = left, .is_repeated = true};
    str_copy(notice.id, sizeof notice.id, id);
    feed(w, (struct event){.type = EV_NOTICE, .notice = &notice});
}

/* The notice with the earliest deadline comes first. Each notice has one save; a withdrawn notice
 * has none. */
Test(core_notices, a_repeated_notice_has_one_save_before_its_deadline)
{
    struct walk *w = begin(true, 0);
    int64_t at = now;
    repeated(w, "7", 100 * S);
    repeated(w, "7", 100 * S);
    repeated(w, "8", 30 * S);
    repeated(w, "9", 60 * S);
    told(w, NOTICE_CANCEL, "9", NOTICE_LEFT_UNKNOWN);
    assert_acts(w, "");
    static const int64_t due[] = {15, 75};
    for (uint32_t i = 0; i < ARRAY_LEN(due); i++) {
        while (!strstr(w->log, "the deadline of a repeated notice is near"))
            wake(w);
        cr_assert_eq(now, at + due[i] * S);
        steps[0] += 10;
        w->acts[0] = w->log[0] = '\0';
        decide(w);
        decide(w);
        assert_said(w, "every rank saves step");
        save(w, steps[0] + 1, i + 1, S / 2);
        assert_did(w, "0: go on, committed");
        w->log[0] = '\0';
    }
    cr_assert_eq(core_wake_at(w->core), CLOCK_NEVER);
}

/* The save is early enough for a save that takes long, as far as there is time. */
Test(core_notices, a_repeated_notice_leaves_time_for_the_save)
{
    static const struct {
        int64_t save, due;
    } cases[] = {{30 * S, 40 * S}, {80 * S, 0}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct walk *w = begin(true, cases[i].save);
        int64_t at = now;
        repeated(w, "7", 100 * S);
        if (cases[i].due)
            wake(w);
        assert_said(w, "the deadline of a repeated notice is near");
        cr_assert_eq(now, at + cases[i].due);
    }
}

/* No earlier attempt has told how long a save takes: the first save of this attempt does. */
Test(core_notices, a_repeated_notice_leaves_time_for_a_save_as_it_was_seen)
{
    struct walk *w = begin(true, 0);
    signalled(w, SIGUSR2);
    decide(w);
    save(w, 5, 1, 20 * S);
    int64_t at = now;
    repeated(w, "7", 100 * S);
    while (!strstr(w->log, "the deadline of a repeated notice is near"))
        wake(w);
    cr_assert_eq(now, at + 60 * S);
}

/* --- the time that the processes take to end --- */

/* The rank trains in a grace of `grace` up to the last save, which takes half a second as all saves
 * do. Returns the time that the last save leaves for the end. */
static int64_t save_last(struct walk *w, int64_t grace)
{
    told(w, NOTICE_TERMINATE, "7", grace);
    int64_t at = now;
    decide(w);
    save(w, 5, 1, S / 2);
    uint64_t last = train(w, at + grace, 10 * MS);
    steps[0] = last - 1;
    steps_are_read(w);
    steps_are_read(w);
    save(w, last, 2, S / 2);
    assert_did(w, "0: leave, committed; gate leave");
    return at + grace - now;
}

/* The last save leaves the time for the end, and hardly more: the rest belongs to the training. */
Test(core_notices, the_last_save_leaves_time_for_the_end)
{
    static const struct {
        int64_t known, grace, least;
    } cases[] = {
        {MS, 25 * S, 625 * MS},
        {S * 3 / 2, 25 * S, 625 * MS + S * 3 / 2 * 8 / 7},
        {6 * S, 25 * S, 625 * MS + 6 * S * 8 / 7},
        {0, 25 * S, 625 * MS + 2 * S * 8 / 7},         /* not measured yet */
        {0, 6 * S, 375 * MS + S * 3 / 2 * 8 / 7},      /* nor here: a quarter of a short grace */
        {500 * S, 60 * S, S * 3 / 2 + 20 * S * 8 / 7}, /* pchrun itself waits no longer than 20 s */
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct walk *w = begin_with(true, S / 2, cases[i].known);
        int64_t left = save_last(w, cases[i].grace);
        cr_expect_geq(left, cases[i].least, "case %zu: %lld ms", i, (long long)(left / MS));
        cr_expect_lt(left, cases[i].least + S, "case %zu: %lld ms", i, (long long)(left / MS));
    }
}

/* The time for the end is never taken from the save: it begins at once, and has all of the grace.
 */
Test(core_notices, a_short_grace_belongs_to_the_save)
{
    struct walk *w = begin_with(true, 2 * S, 8 * S);
    told(w, NOTICE_TERMINATE, "7", 5 * S);
    decide(w);
    assert_acts(w, "read; gate 5; read; gate 5 decided last");
    save(w, 5, 1, 4600 * MS);
    assert_did(w, "0: leave, committed; gate leave");
}

/* The time is measured from the order to leave to the end of the last process. A slower end counts
 * at once, a quicker one by a quarter. */
Test(core_notices, the_time_to_end_is_measured)
{
    static const struct {
        int64_t known, took;
        const char *noted;
    } cases[] = {
        {0, S, "the end took 1000 ms\n"},
        {S, S * 3 / 2, "the end took 1500 ms\n"},
        {2 * S, S, "the end took 1750 ms\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct walk *w = begin_with(true, S / 2, cases[i].known);
        save_last(w, 25 * S);
        now += cases[i].took;
        leave(w);
        assert_did(w, "exit 42 preempted");
        assert_said(w, cases[i].noted);
    }
}

/* The rank is killed when an eighth of the time is left. Returns how long it had lived. */
static int64_t kill_at_the_end(struct walk *w)
{
    int64_t left_at = now;
    w->acts[0] = '\0';
    while (!strstr(w->acts, "SIGKILL to")) {
        cr_assert_leq(now, left_at + 25 * S, "no SIGKILL: %s", w->acts);
        wake(w);
    }
    int64_t lived = now - left_at;
    now += 300 * MS; /* its memory is freed */
    closes(w, 0);
    ends(w, SIGKILL);
    return lived;
}

/* An end by SIGKILL proves only that the rank takes at least so long. Twice that time is planned
 * for then, up to a quarter of the grace. */
Test(core_notices, an_end_that_the_deadline_cuts_short_only_raises_the_known_time)
{
    static const int64_t known[] = {S, 5 * S, 7 * S}, most = 25 * S / 4;
    char text[64];
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        struct walk *w = begin_with(true, S / 2, known[i]);
        save_last(w, 25 * S);
        int64_t lived = kill_at_the_end(w), noted = lived;
        cr_assert_gt(lived, known[i], "the known time was planned for");
        if (lived < most)
            noted = clock_min(2 * lived, most);
        snprintf(text, sizeof text, "the end took %lld ms\n", (long long)(noted / MS));
        assert_said(w, text);
    }
    struct walk *w = begin_with(true, 3 * S / 2, S);
    told(w, NOTICE_TERMINATE, "7", 5 * S);
    decide(w);
    save(w, 5, 1, 4600 * MS); /* the save is late, so the rank has less than the known second */
    cr_assert_lt(kill_at_the_end(w), S);
    assert_not_said(w, "the end took");
}
