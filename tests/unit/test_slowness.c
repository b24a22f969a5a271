/* SPDX-License-Identifier: Apache-2.0
 *
 * test_slowness: which ranks of a node are slow, by the median of the job.
 */
#include "core/common/slowness.h"

#include "unit.h"

#include "base/clock.h"

#include <string.h>

#define MS NS_PER_MS

static struct ranks ranks;
static struct peer_own view;
static struct page_own pages[CORE_SLOTS_MAX];

static void begin(void)
{
    ranks = (struct ranks){.n = 4};
    for (int i = 0; i < ranks.n; i++) {
        ranks.members[i] = (struct member){.slot = i, .rank = 10 + i, .local_rank = i};
        pages[i] = (struct page_own){100 * MS, 200 * MS};
    }
    view = (struct peer_own){0};
}

TestSuite(slowness, .init = begin);

/* The pages are read, and the job has this median. Returns the named rank, -1: none. */
static int read_and_name(uint64_t median_ms)
{
    struct event event = {.type = EV_STEPS, .steps = {.own_by_slot = pages}};
    slowness_read(&ranks, &event, median_ms * MS);
    view = slowness_view(&ranks, &view);
    return view.slow ? view.rank : -1;
}

static int with_rank_2(uint64_t own_ms)
{
    pages[2].own_ns = own_ms * MS;
    return read_and_name(100);
}

/* The rank has measured twice. */
static int twice_with_rank_2(uint64_t own_ms)
{
    (void)with_rank_2(own_ms + 1);
    return with_rank_2(own_ms);
}

Test(slowness, begins_at_one_limit_and_ends_at_a_lower_one)
{
    cr_assert_eq(twice_with_rank_2(129), -1);
    cr_assert_eq(twice_with_rank_2(130), 12);
    cr_assert(view.slow == 1 && view.rank_ns == 130 * MS && view.known == 4);
    cr_assert_eq(view.local_rank, 2);
    cr_assert_eq(slowness_of(&ranks.members[2], 100 * MS), 130);
    cr_assert_eq(with_rank_2(120), 12);
    cr_assert_eq(with_rank_2(119), -1);
    cr_assert_eq(slowness_of(&ranks.members[2], 100 * MS), 0);
    cr_assert_eq(twice_with_rank_2(129), -1);
}

/* The machines slow down, and rank 12 is the first that has measured it. */
Test(slowness, one_time_above_the_limit_names_no_rank)
{
    for (int i = 0; i < 3; i++)
        cr_assert_eq(with_rank_2(150), -1, "the same time, read again");
    cr_assert_eq(read_and_name(150), -1);
    cr_assert_eq(with_rank_2(151), -1, "it was not above the limit in between");
    cr_assert_eq(with_rank_2(152), 12);
}

Test(slowness, less_than_a_tenth_of_a_step_does_not_matter)
{
    pages[2].whole_ns = 600 * MS;
    cr_assert_eq(twice_with_rank_2(158), -1);
    cr_assert_eq(twice_with_rank_2(160), 12);
    pages[2].whole_ns = 6000 * MS;
    cr_assert_eq(with_rank_2(160), 12, "a long step, such as with a save, is no news");
}

Test(slowness, a_name_stays_while_it_is_slow)
{
    cr_assert_eq(twice_with_rank_2(150), 12);
    pages[1].own_ns = 301 * MS;
    cr_assert_eq(with_rank_2(150), 12);
    pages[1].own_ns = 300 * MS;
    cr_assert_eq(with_rank_2(150), 12);
    cr_assert_eq(view.slow, 2);
    cr_assert_eq(with_rank_2(100), 11);
    pages[3].own_ns = 149 * MS, pages[1].own_ns = 100 * MS;
    (void)with_rank_2(151);
    pages[3].own_ns = 150 * MS;
    cr_assert_eq(with_rank_2(150), 13 - (pages[2].own_ns >= pages[3].own_ns));
}

Test(slowness, nothing_is_known_without_marks)
{
    memset(pages, 0, sizeof pages);
    cr_assert_eq(read_and_name(0), -1);
    cr_assert(view.known == 0 && view.median_ns == 0 && !slowness_is_known(&ranks));
    pages[1].own_ns = 500 * MS;
    cr_assert_eq(read_and_name(0), -1, "the chief knows no median yet");
    cr_assert(view.known == 1 && view.median_ns == 500 * MS && slowness_is_known(&ranks));
}

Test(slowness, a_rank_that_has_left_is_not_slow)
{
    cr_assert_eq(twice_with_rank_2(150), 12);
    ranks.members[2].is_ended = true;
    cr_assert_eq(with_rank_2(150), -1);
    cr_assert_eq(view.known, 3);
    ranks.members[2].is_ended = false;
    ranks.members[2].slot = -1;
    cr_assert_eq(with_rank_2(150), -1);
}

/* --- the median --- */

struct values {
    int n;
    uint64_t of[5];
};

static uint64_t count_values(const void *of, uint64_t most)
{
    const struct values *values = of;
    uint64_t n = 0;
    for (int i = 0; i < values->n; i++)
        n += values->of[i] <= most;
    return n;
}

#define MEDIAN(n, ...) slowness_median(count_values, &(struct values){n, {__VA_ARGS__}})

Test(slowness, median)
{
    cr_assert_eq(MEDIAN(0, 0), 0);
    cr_assert_eq(MEDIAN(1, 7), 7);
    cr_assert_eq(MEDIAN(1, 1), 1);
    cr_assert_eq(MEDIAN(1, PAGE_OWN_MAX), PAGE_OWN_MAX);
    cr_assert_eq(MEDIAN(2, 9, 7), 7, "of an even number the lower");
    cr_assert_eq(MEDIAN(3, 9, 7, 8), 8);
    cr_assert_eq(MEDIAN(4, 1, PAGE_OWN_MAX, 3, 2), 2);
    cr_assert_eq(MEDIAN(5, 5, 5, 5, 1, 9), 5);
}
