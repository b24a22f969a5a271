/* SPDX-License-Identifier: Apache-2.0
 *
 * test_core_standing: how one node handles a notice that comes before the first step: it starts,
 * trains and saves before the deadline, or leaves at once.
 */
#include "noticewalk.h"

#include "base/str.h"

#include <stdlib.h>

TestSuite(core_standing, .fini = walks_end);

static struct walk *begin_unstepped(bool trains_on, int64_t save)
{
    struct walk *w = begin(trains_on, save);
    steps[0] = 0;
    return w;
}

/* Hours ahead, as GCE and Azure tell it: the job trains, and saves before the deadline. */
Test(core_standing, a_notice_that_stands_before_the_first_step_is_trained_up_to)
{
    for (int trains_on = 0; trains_on < 2; trains_on++) {
        struct walk *w = begin_unstepped(trains_on, 0);
        int64_t at = now;
        told_end(w, "7", 100 * S);
        assert_acts(w, "read");
        for (int i = 0; i < 5; i++)
            wake_and_read(w, 0);
        assert_acts(w, "read");
        wake_and_read(w, 3);
        assert_acts(w, "read; gate 4; read");
        steps_are_read(w);
        assert_acts(w, "gate 4 decided");
        save(w, 4, 1, S / 2);
        assert_said(w, "the training goes on for 9");
        train(w, at + 98 * S, 100 * MS);
        cr_assert_geq(now, at + 95 * S, "it saves before the last moment");
    }
}

/* A first step that came later could not be saved any more. */
Test(core_standing, a_first_step_is_waited_for_as_long_as_it_can_be_saved)
{
    static const struct {
        int64_t save, latest;
    } cases[] = {{0, 75 * S}, {10 * S, 79 * S}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct walk *w = begin_unstepped(true, cases[i].save);
        int64_t at = now;
        told_end(w, "7", 100 * S);
        while (!strstr(w->acts, "gate leave"))
            wake_and_read(w, 0);
        assert_said(w, "nothing to save: no step was finished in this attempt");
        cr_assert_leq(llabs(now - at - cases[i].latest), S, "it has left after %lld s",
                      (long long)((now - at) / S));
        leave(w);
        assert_acts(w, "0: closed; exit 42 preempted");
    }
}

/* The notice leaves no more than `grace`: to leave at once costs nothing. */
Test(core_standing, a_short_notice_before_the_first_step_ends_the_job)
{
    for (int i = 0; i < 2; i++) {
        struct walk *w = begin_unstepped(true, 0);
        if (i == 0)
            signalled(w, SIGTERM);
        else
            told(w, NOTICE_TERMINATE, "7", NOTICE_LEFT_UNKNOWN);
        decide(w);
        assert_said(w, "nothing to save: no step was finished in this attempt");
    }
}

Test(core_standing, a_second_signal_waits_for_no_first_step)
{
    struct walk *w = begin_unstepped(true, 0);
    told_end(w, "7", 100 * S);
    assert_acts(w, "read");
    terminated(w);
    assert_said(w, "nothing to save: no step was finished in this attempt");
}

/* Earlier attempts took two seconds to start, and one for a save. */
static struct core_params known_params(int nnodes)
{
    struct core_params p = params_of(0, nnodes, 1);
    p.start_ns = 2 * S;
    p.save_ns = S;
    p.end_ns = MS;
    return p;
}

/* Three starts and saves fit: the job does not leave at once, and train_on does not matter. */
Test(core_standing, a_standing_notice_within_the_grace_is_trained_up_to)
{
    struct core_params p = known_params(1);
    p.train_on = TRAIN_ON_NEVER;
    struct walk *w = begin_ranks(&p);
    int64_t at = now;
    steps[0] = 0;
    told_end(w, "7", 20 * S);
    wake_and_read(w, 0);
    wake_and_read(w, 3);
    assert_did(w, "gate 4");
    steps_are_read(w);
    save(w, 4, 1, S);
    assert_said(w, "the training goes on for 1");
    uint64_t last = train(w, at + 19 * S, 10 * MS);
    cr_assert_geq(now, at + 15 * S);
    steps[0] = last - 1;
    steps_are_read(w);
    assert_said(w, "then leaves");
}

Test(core_standing, a_standing_notice_for_which_no_save_fits_ends_the_job)
{
    struct core_params p = known_params(1);
    struct walk *w = begin_ranks(&p);
    steps[0] = 0;
    told_end(w, "7", 8 * S);
    decide(w);
    assert_said(w, "nothing to save: no step was finished in this attempt");
}

/* Node 0 has said that the notice is not near. So a command that dies of SIGTERM may have got it a
 * moment before its pchrun, as without a notice. */
Test(core_standing, a_signal_to_all_is_awaited_under_a_standing_notice)
{
    struct core_params p = known_params(1);
    struct walk *w = begin_ranks(&p);
    steps[0] = 0;
    told_end(w, "7", 20 * S);
    gone(w, 0);
    ends(w, SIGTERM);
    now += 2 * MS;
    terminated(w);
    assert_did(w, "exit 42 preempted");
    assert_said(w, "nothing to save: no step was finished in this attempt");
}

/* A signal comes to one attempt only, so it is no plan. */
Test(core_standing, a_signal_before_the_first_step_ends_the_job)
{
    struct core_params p = known_params(1);
    struct walk *w = begin_ranks(&p);
    steps[0] = 0;
    signalled(w, SIGTERM);
    decide(w);
    assert_said(w, "nothing to save: no step was finished in this attempt");
}

/* A rank that ends with 1 long before the deadline, and one near it. */
static struct walk *fail_with(struct core_params *p, int64_t left,
                              const struct restart_policy *restart)
{
    p->train_on = TRAIN_ON_ALWAYS;
    p->restart = *restart;
    struct walk *w = begin_ranks(p);
    steps[0] = 0;
    told_end(w, "7", left);
    gone(w, 0);
    exited(w, 0, 1 << 8);
    steps_are_read(w);
    tree_empty(w);
    return w;
}

static struct walk *fail_before(int64_t left, const struct restart_policy *restart)
{
    struct core_params p = params_of(0, 1, 1);
    return fail_with(&p, left, restart);
}

Test(core_standing, a_failure_long_before_the_deadline_is_a_failure)
{
    struct walk *w = fail_before(3600 * S, &(struct restart_policy){0});
    assert_did(w, "exit 1 failed");
    w = fail_before(20 * S, &(struct restart_policy){0});
    assert_did(w, "exit 42 preempted_unsaved");
    struct core_params p = known_params(1);
    w = fail_with(&p, 20 * S, &(struct restart_policy){0});
    assert_did(w, "exit 1 failed");
    w = fail_with(&p, 8 * S, &(struct restart_policy){0});
    assert_did(w, "exit 42 preempted_unsaved");
}

/* The notice is known to the next generation, which trains and saves before the deadline. */
Test(core_standing, a_job_restarts_in_place_while_a_notice_is_far)
{
    const struct restart_policy policy = {.max = 3, .start_max = 3, .window_ns = 60 * S};
    struct walk *w = fail_before(200 * S, &policy);
    int64_t at = now;
    assert_said(w, "restarting in place");
    assert_said(w, "generation 1 begins");
    w->acts[0] = '\0';
    started(w, 0);
    attaches(w, 0, 0, 1);
    wake_and_read(w, 3);
    steps_are_read(w);
    steps_are_read(w);
    save(w, 4, 1, S / 2);
    assert_said(w, "the training goes on for 1");
    train(w, at + 198 * S, 100 * MS);
    cr_assert_geq(now, at + 190 * S, "the last save is made before the last moment");
    w = fail_before(20 * S, &policy);
    assert_not_said(w, "restarting in place");
}
