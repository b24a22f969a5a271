/* SPDX-License-Identifier: Apache-2.0
 * The budgets of restarts in place, by themselves; the walk from one generation to the next is the
 * simulator's.
 */
#include "base/clock.h"
#include "base/str.h"
#include "core/common/restart.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>

#define S NS_PER_S

static struct restart_policy policy;
static struct restart budget;
static char text[128];

/* Three an hour, two at the start. */
static void set_up(void)
{
    policy = (struct restart_policy){.max = 3,
                                     .window_ns = 3600 * S,
                                     .start_max = 2,
                                     .backoff_ns = S,
                                     .backoff_max_ns = 4 * S,
                                     .no_progress = 0};
    budget = (struct restart){.policy = &policy, .random = 7};
}

/* The pause in seconds, -1: no restart. `text` says why. */
static double fail_at(int64_t at, struct restart_failure failure)
{
    int64_t pause = 0;
    failure.now = at * S;
    if (!restart_allows(&budget, &failure, &pause, text, sizeof text))
        return -1;
    char because[sizeof text];
    if (!restart_is_final(&budget, &failure, because, sizeof because))
        return (double)pause / S;
    str_copy(text, sizeof text, because);
    return -1;
}

static const struct peer_cause no_cause;
static const struct restart_failure crash = {
    .code = 1, .has_ranks = true, .repeats = "", .cause = &no_cause};
static const struct restart_failure start = {
    .code = 1, .is_start = true, .repeats = "", .cause = &no_cause};

TestSuite(restart, .init = set_up);

Test(restart, none_is_wanted)
{
    policy.max = 0;
    cr_expect_eq(fail_at(1, crash), -1);
    cr_expect_str_empty(text);
}

Test(restart, pauses_double_and_are_bounded)
{
    policy.max = 6;
    cr_expect_eq(fail_at(1, crash), 0);
    cr_expect_str_eq(text, "1 of 6");
    static const double most[] = {1, 2, 4, 4, 4};
    for (int i = 0; i < 5; i++) {
        double pause = fail_at(2 + i, crash);
        cr_expect(pause > 0.74 * most[i] && pause <= most[i], "%g", pause);
    }
    cr_expect_str_eq(text, "6 of 6");
    cr_expect_eq(fail_at(9, crash), -1);
    cr_expect_str_eq(text, "the 6 restarts of restart.max are spent");
}

Test(restart, two_jobs_do_not_come_back_at_once)
{
    struct restart other = {.policy = &policy, .random = 8};
    fail_at(1, crash);
    double ours = fail_at(2, crash);
    struct restart_failure failure = crash;
    int64_t pause;
    cr_assert(restart_allows(&other, &failure, &pause, text, sizeof text));
    cr_assert(restart_allows(&other, &failure, &pause, text, sizeof text));
    cr_expect_neq(ours, (double)pause / S);
}

Test(restart, window_slides)
{
    for (int i = 0; i < 3; i++)
        cr_expect_geq(fail_at(1000 * i, crash), 0);
    cr_expect_eq(fail_at(3599, crash), -1);
    cr_expect_geq(fail_at(3600, crash), 0); /* the first failure is an hour ago */
    cr_expect_eq(fail_at(3601, crash), -1);
    cr_expect_geq(fail_at(4600, crash), 0);
}

Test(restart, without_a_window_all_count)
{
    policy.window_ns = 0;
    for (int i = 0; i < 3; i++)
        cr_expect_geq(fail_at(1000000 * i, crash), 0);
    cr_expect_eq(fail_at(9000000, crash), -1);
}

Test(restart, failures_at_the_start_have_their_own_budget)
{
    cr_expect_eq(fail_at(1, start), 0);
    cr_expect_str_eq(text, "1 of 2 after a failure at the start");
    cr_expect_gt(fail_at(2, start), 0);
    cr_expect_eq(fail_at(3, start), -1);
    cr_expect_str_eq(text, "it has failed at its start 3 times in a row (restart.start_max)");
    budget = (struct restart){.policy = &policy, .random = 7};
    fail_at(1, start);
    fail_at(2, start);
    cr_expect_geq(fail_at(3, crash), 0, "it had come to train in between");
    cr_expect_geq(fail_at(4, start), 0);
    cr_expect_str_eq(text, "1 of 2 after a failure at the start");
    cr_expect_eq(budget.n, 1, "of the three an hour one is spent");
}

Test(restart, fatal_codes)
{
    policy.is_fatal[3] = true;
    cr_expect_geq(fail_at(1, crash), 0);
    struct restart_failure fatal = crash;
    fatal.code = 3;
    cr_expect_eq(fail_at(2, fatal), -1);
    cr_expect_str_eq(text, "3 is one of restart.fatal_codes");
    fatal.code = 300;
    cr_expect_geq(fail_at(3, fatal), 0);
}

Test(restart, what_repeats)
{
    struct restart_failure known = start;
    known.repeats = "ImportError";
    cr_expect_eq(fail_at(1, known), -1);
    cr_expect_str_eq(text, "ImportError repeats at each start");
    policy.max = 0;
    cr_expect_eq(fail_at(2, known), -1);
    cr_expect_str_empty(text, "no restart was wanted");
}

Test(restart, generations_without_a_commit)
{
    policy.no_progress = 2;
    struct restart_failure good = crash, unknown = crash;
    good.has_commit = true;
    unknown.has_ranks = false;
    cr_expect_geq(fail_at(1, crash), 0);
    cr_expect_geq(fail_at(2, good), 0);
    cr_expect_geq(fail_at(3, crash), 0);
    budget = (struct restart){.policy = &policy, .random = 7};
    fail_at(1, crash);
    cr_expect_eq(fail_at(2, crash), -1);
    cr_expect_str_eq(text, "2 generations in a row brought no commit "
                           "(restart.no_progress_after)");
    budget = (struct restart){.policy = &policy, .random = 7};
    fail_at(1, unknown);
    fail_at(2, unknown);
    cr_expect_geq(fail_at(3, unknown), 0, "of a program that does not attach nothing is known");
}

/* --- the same failure twice --- */

#define TEXT "process 7 ended with exit code 1: ValueError: loss 3.5 of <Batch at 0x7fa0>"

static const struct peer_cause bad_batch = {
    .fault = FAULT_EXIT, .rank = 2, .code = 1, .text = TEXT};

static struct restart_failure at_step(const struct peer_cause *cause, uint64_t step)
{
    struct restart_failure ret = crash;
    ret.cause = cause;
    ret.step = step;
    ret.commit_step = 5;
    return ret;
}

/* True: the second failure is final after the first one. */
static bool is_twice(struct restart_failure first, struct restart_failure second)
{
    budget = (struct restart){.policy = &policy, .random = 7};
    cr_assert_geq(fail_at(1, first), 0);
    restart_note(&budget, &first);
    return fail_at(2, second) < 0;
}

static bool differs(struct peer_cause cause)
{
    return !is_twice(at_step(&bad_batch, 9), at_step(&cause, 9));
}

Test(restart, the_same_failure_twice_is_final)
{
    struct peer_cause again;
    struct restart_failure second = at_step(&again, 9);
    again = (struct peer_cause){
        .fault = FAULT_EXIT,
        .rank = 0, /* of ranks that all fail at this step, any may be the first */
        .code = 1,
        .text = "process 18 ended with exit code 1: ValueError: loss 4.25 of <Batch at 0x7bcf1>"};
    cr_expect(is_twice(at_step(&bad_batch, 9), second));
    cr_expect_str_eq(text, "the same failure came twice at step 9, with no commit between; a "
                           "restart cannot mend it");
    budget.last.fault = FAULT_NONE;
    cr_expect_geq(fail_at(3, second), 0, "the budget is not spent");
}

Test(restart, another_failure_is_not_the_same)
{
    struct restart_failure first = at_step(&bad_batch, 9), second = first;
    second.step = 10;
    cr_expect_not(is_twice(first, second), "another step");
    second = first;
    second.commit_step = 8;
    cr_expect_not(is_twice(first, second), "a commit between");
    struct peer_cause other = bad_batch;
    other.code = 3;
    cr_expect(differs(other), "another code");
    other = bad_batch;
    other.fault = FAULT_SILENT;
    cr_expect(differs(other), "another kind");
    other = bad_batch;
    other.text[strlen(TEXT) - 1] = '\0';
    cr_expect(differs(other), "another text");
}

/* A start may fail because of its environment. The step of a program that does not attach is not
 * known. */
Test(restart, only_a_failure_in_the_training_counts)
{
    struct restart_failure first = at_step(&bad_batch, 9), second = first;
    second.is_start = true;
    cr_expect_not(is_twice(first, second), "at the start");
    cr_expect_not(is_twice(second, first));
    second = first;
    second.has_ranks = false;
    cr_expect_not(is_twice(first, second), "of a program that does not attach");
    cr_expect_not(is_twice(second, first));
    second = at_step(&no_cause, 9);
    budget = (struct restart){.policy = &policy, .random = 7};
    restart_note(&budget, &first);
    restart_note(&budget, &second);
    cr_expect_eq(fail_at(1, first), -1, "another failure came between, and no commit");
}

Test(restart, only_the_programs_own_failure_counts)
{
    for (unsigned fault = FAULT_NONE; fault <= FAULT_GAVE_UP; fault++) {
        struct peer_cause cause = {.fault = (uint8_t)fault, .code = 134};
        bool is_own = fault == FAULT_EXIT || fault == FAULT_SIGNAL || fault == FAULT_SILENT;
        cr_expect_eq(is_twice(at_step(&cause, 9), at_step(&cause, 9)), is_own, "%u", fault);
        cause.code = 128 + SIGKILL;
        cr_expect_not(is_twice(at_step(&cause, 9), at_step(&cause, 9)), "%u", fault);
    }
}
