/* SPDX-License-Identifier: Apache-2.0
 *
 * test_inquiry: the whole answer of a helper, or its part until the deadline.
 */
#include "loop/inquiry.h"

#include "unit.h"

#include "base/clock.h"
#include "base/fd.h"

static struct reap reap;
static struct event_base *base;
static struct inquiry inquiry;
static int over;
static bool was_late;

static void on_over(void *ctx, bool is_late)
{
    over++;
    was_late = is_late;
}

static void say_in_parts(const void *arg, int answer)
{
    if (!fd_write_all(answer, "one, ", 5) || usleep(20000) != 0 || !fd_write_all(answer, arg, 3))
        _exit(1);
}

static void say_and_hang(const void *arg, int answer)
{
    say_in_parts(arg, answer);
    for (;;)
        pause();
}

static void begin(void)
{
    struct err err;
    base = watch_open(&err);
    cr_assert_not_null(base);
    inquiry = (struct inquiry){.arg = "two",
                               .base = base,
                               .wait_ns = UNIT_DEADLINE_MS * NS_PER_MS,
                               .max = 100,
                               .on_over = on_over,
                               .helper.reap = &reap};
}

static void end(void)
{
    inquiry_free(&inquiry);
    UNIT_SETTLE(reap);
    watch_close(base);
    cr_expect(unit_no_children());
}

TestSuite(inquiry, .init = begin, .fini = end);

static void ask(helper_fn *fn)
{
    struct err err;
    inquiry.fn = fn;
    cr_assert(inquiry_start(&inquiry, &err), "%s", err.text);
}

static void run(const char *expected)
{
    while (over == 0)
        cr_assert(watch_turn(base));
    cr_expect_eq(over, 1);
    cr_expect_eq(buf_len(&inquiry.text), strlen(expected));
    cr_expect_eq(memcmp(buf_bytes(&inquiry.text), expected, strlen(expected)), 0);
}

Test(inquiry, gets_the_whole_answer)
{
    ask(say_in_parts);
    run("one, two");
    cr_expect_not(was_late);
}

Test(inquiry, keeps_what_a_late_helper_has_said)
{
    inquiry.wait_ns = 2 * NS_PER_S;
    ask(say_and_hang);
    run("one, two");
    cr_expect(was_late);
}

static void say_when_asked(const void *arg, int answer)
{
    char byte;
    if (read(answer, &byte, 1) != 1 || !fd_write_all(answer, arg, 3))
        _exit(1);
}

/* The machine, so pchrun and the helper, stands still for longer than the helper may take. */
Test(inquiry, a_standstill_does_not_count)
{
    inquiry.wait_ns = 2 * NS_PER_S;
    ask(say_when_asked);
    int64_t until = clock_now_ns() + inquiry.wait_ns;
    while (clock_now_ns() <= until)
        usleep(10000);
    cr_assert(watch_turn(base));
    cr_assert_eq(over, 0);
    cr_assert(fd_write_all(inquiry.helper.answer, "", 1));
    run("two");
    cr_expect_not(was_late);
}

Test(inquiry, begins_anew_only_after_the_last_helper_has_ended)
{
    struct err err;
    ask(say_and_hang);
    inquiry_stop(&inquiry);
    cr_expect_not(inquiry_start(&inquiry, &err));
    UNIT_SETTLE(reap);
    over = 0;
    ask(say_in_parts);
    run("one, two");
}
