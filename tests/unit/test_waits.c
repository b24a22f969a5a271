/* SPDX-License-Identifier: Apache-2.0
 *
 * test_waits: the part of a step in which a process does not wait, under a clock of the test's own.
 */
#include "base/clock.h"
#include "base/str.h"
#include "libpch/job.h"
#include "unit.h"

/* Steps until `to`, each of so many milliseconds: its own part, and a marked wait. */
static void make_steps(struct waits *waits, struct page_process *page, uint64_t to, int own_ms,
                       int wait_ms)
{
    static int64_t now = NS_PER_S;
    for (uint64_t step = page->step; step < to; page->step = ++step) {
        now += own_ms * NS_PER_MS;
        waits_begin(waits, page, now);
        now += wait_ms * NS_PER_MS;
        waits_end(waits, now);
    }
}

/* Two windows of 20 steps, after the step in which the first wait was seen. One long step in each
 * counts for nothing, and a slow window alone neither. */
Test(waits, own_part_of_a_step_is_its_time_without_waits)
{
    struct waits waits = {.n = 0};
    struct page_process page = {.step = 0};
    make_steps(&waits, &page, 30, 100, 200);
    make_steps(&waits, &page, 31, 9000, 200);
    make_steps(&waits, &page, 41, 100, 200);
    cr_expect_eq(page.own_ns, 0);
    make_steps(&waits, &page, 42, 100, 200);
    cr_expect_eq(page.own_ns, 100 * NS_PER_MS + 1);
    cr_expect_eq(page.whole_ns, 300 * NS_PER_MS + 1);
    make_steps(&waits, &page, 62, 400, 25);
    cr_expect_lt(page.own_ns, 150 * NS_PER_MS);
    make_steps(&waits, &page, 82, 400, 25);
    cr_expect_geq(page.own_ns, 350 * NS_PER_MS);
}

/* One word is exact at any time, also while the process waits. */
Test(waits, data_that_is_waited_for_adds_up)
{
    uint64_t word = page_loading_ns(0, 5);
    cr_expect_eq(page_loading_ns(word, 1000), 0);
    word = page_loading_begin(word, 1000);
    cr_expect_eq(page_loading_ns(word, 1000), 0);
    cr_expect_eq(page_loading_ns(word, 1030), 30);
    word = page_loading_begin(word, 1040);
    word = page_loading_ns(word, 1070);
    cr_expect_eq(page_loading_ns(word, 2000), 70);
    word = page_loading_ns(page_loading_begin(word, 3000), 3001);
    cr_expect_eq(page_loading_ns(word, 4000), 71);
    cr_expect_eq(page_loading_ns(PAGE_IS_LOADING | 500, 400), 0, "a page that is not of libpch");
}

/* Short steps: a window has five seconds, too. */
Test(waits, a_rank_that_is_held_up_for_a_second_has_no_slow_window)
{
    struct waits waits = {.n = 0};
    struct page_process page = {.step = 0};
    for (uint64_t second = 0; second < 24; second++) {
        make_steps(&waits, &page, second * 20 + 20, second % 4 == 0 ? 20 : 10, 40);
        cr_expect(page.own_ns == 0 || page.own_ns < 13 * NS_PER_MS, "%llu", ull(page.own_ns));
    }
    cr_expect_geq(page.own_ns, 11 * NS_PER_MS);
}
