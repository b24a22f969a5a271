/* SPDX-License-Identifier: Apache-2.0
 *
 * test_pace: how fast a rank trains, and since when it stands still, from looks at its step.
 */
#include "procs/steprate.h"

#include "unit.h"

#include "base/clock.h"

#define MS NS_PER_MS
#define S  NS_PER_S

static struct steprate steprate;
static struct core_rank_report rank = {.slot = 3, .pid = 100, .is_attached = true};

static struct steprate_view look(uint64_t step, int64_t now)
{
    return steprate_look(&steprate, &rank, step, now);
}

Test(steprate, a_rank_that_trains)
{
    struct steprate_view view = look(10, 100 * S);
    cr_assert(view.steps_per_s == 0 && view.age_ns == 0 && view.is_least);
    view = look(20, 101 * S);
    cr_assert_float_eq(view.steps_per_s, 10, 0.001);
    cr_assert(view.age_ns == 0 && !view.is_least);
    view = look(20, 101 * S + 300 * MS);
    cr_assert_eq(view.age_ns, 300 * MS);
    cr_assert_float_eq(view.steps_per_s, 10, 0.001);
}

/* Two looks in quick succession would show one step or none. */
Test(steprate, looks_that_are_close_together)
{
    look(10, 100 * S);
    cr_assert_eq(look(11, 100 * S + 10 * MS).steps_per_s, 0);
    cr_assert_eq(look(12, 100 * S + 250 * MS).steps_per_s, 0);
    cr_assert_float_eq(look(16, 102 * S).steps_per_s, 3, 0.001);
}

Test(steprate, a_rank_that_stands_still)
{
    look(10, 100 * S);
    struct steprate_view view = look(10, 160 * S);
    cr_assert(view.age_ns == 60 * S && view.is_least, "since we have looked, at least");
    look(11, 161 * S);
    view = look(11, 200 * S);
    cr_assert(view.age_ns == 39 * S && !view.is_least);
}

/* A rank made steps after the look before, and then stopped. Its age was said to be 0. */
Test(steprate, looks_that_are_far_apart)
{
    look(10, 100 * S);
    look(20, 101 * S);
    struct steprate_view view = look(30, 140 * S);
    cr_assert(view.age_ns == 0 && view.is_least);
    view = look(30, 141 * S);
    cr_assert(view.age_ns == S && view.is_least);
    view = look(31, 142 * S);
    cr_assert(view.age_ns == 0 && !view.is_least);
}

/* A restart in place, or one that resumes at an earlier step. */
Test(steprate, another_process_begins_anew)
{
    look(10, 100 * S);
    look(20, 101 * S);
    rank.pid = 101;
    struct steprate_view view = look(20, 102 * S);
    cr_assert(view.steps_per_s == 0 && view.age_ns == 0 && view.is_least);
    look(30, 103 * S);
    cr_assert_eq(look(5, 104 * S).steps_per_s, 0, "steps go back only then");
}

Test(steprate, who_is_gone_has_none)
{
    look(10, 100 * S);
    struct core_rank_report gone = rank;
    gone.slot = -1;
    struct steprate_view view = steprate_look(&steprate, &gone, 10, 100 * S);
    cr_assert(view.age_ns == -1 && view.steps_per_s == 0 && !view.is_least);
}
