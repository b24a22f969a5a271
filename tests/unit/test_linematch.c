/* SPDX-License-Identifier: Apache-2.0
 * The lines that commands print: the step of the newest line, and the first line that is a failure.
 */
#include "tee/linematch.h"

#include "base/str.h"
#include "unit.h"

static regex_t step, failure;
static struct linematch match;
static struct linematch_found found;

static void begin(void)
{
    cr_assert_eq(regcomp(&step, "step ([-0-9a-f]*)", REG_EXTENDED), 0);
    cr_assert_eq(regcomp(&failure, "loss: (nan|inf)", REG_EXTENDED | REG_ICASE), 0);
    match = (struct linematch){.rules = {&step, &failure}, .found = &found};
}

static void end(void)
{
    regfree(&step);
    regfree(&failure);
}

TestSuite(linematch, .init = begin, .fini = end);

static bool add(const char *text)
{
    static int64_t now = 1;
    return linematch_add(&match, text, strlen(text), now++);
}

Test(linematch, the_step_of_the_newest_line)
{
    cr_expect_not(add("epoch 1\n"));
    cr_expect_eq(found.step_at, 0);
    cr_expect(add("step 7 of 9\n"), "the first one is news");
    cr_expect_eq(found.step, 7);
    cr_expect_not(add("step 8\nno number here\nstep 12, loss 3\n\n"));
    cr_expect_eq(found.step, 12);
    cr_expect_not(add("step 3\n"), "steps may go back");
    cr_expect_eq(found.step, 3);
    cr_expect_not(add("step 0\n"));
    cr_expect_eq(found.step, 0);
}

/* A progress bar ends its lines with '\r', and Windows programs end theirs with both. */
Test(linematch, a_line_ends_with_either)
{
    add("step 1\rstep 2\r");
    cr_expect_eq(found.step, 2);
    add("step 3\r\n");
    cr_expect_eq(found.step, 3);
}

Test(linematch, a_line_without_an_end_waits)
{
    cr_expect_not(add("step 1"));
    cr_expect_eq(found.step_at, 0);
    cr_expect(found.is_within);
    cr_expect_not(add("23"));
    cr_expect(add("4\n"));
    cr_expect_eq(found.step, 1234);
    cr_expect_not(found.is_within);
}

Test(linematch, the_end_of_the_stream_ends_the_last_line)
{
    add("step 1\nstep 23");
    cr_expect_not(linematch_end(&match, 9));
    cr_expect(found.step == 23 && found.step_at == 9 && !found.is_within);
    cr_expect_not(add("loss: n"));
    cr_expect_not(add("an"));
    cr_expect(linematch_end(&match, 10));
    cr_expect_str_eq(found.failure, "loss: nan");
    cr_expect_not(linematch_end(&match, 11), "it was matched once");
}

/* However the bytes are cut into pieces, the result is the same. */
Test(linematch, pieces_do_not_matter)
{
    static const char text[] =
        "a\nstep 41\rstep 42 |###  |\r\nx step 43\nLoss: NaN at step 44\nend\n";
    for (size_t piece = 1; piece <= sizeof text; piece++) {
        memset(&found, 0, sizeof found);
        for (size_t i = 0; i < sizeof text - 1; i += piece) {
            size_t n = sizeof text - 1 - i < piece ? sizeof text - 1 - i : piece;
            linematch_add(&match, text + i, n, 1);
        }
        cr_expect_eq(found.step, 44, "%zu", piece);
        cr_expect(found.has_failed);
        cr_expect_str_eq(found.failure, "Loss: NaN at step 44");
    }
}

/* Such a line leaves the last step. */
Test(linematch, numbers_that_are_no_steps)
{
    static const char *const bad[] = {"step -1\n", "step \n", "step 12ab\n", "step 1000000000001\n",
                                      "step 99999999999999999999999999999999\n"};
    add("step 5\n");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        add(bad[i]);
        cr_expect_eq(found.step, 5, "%s", bad[i]);
    }
    add("step 1000000000000\n");
    cr_expect_eq(found.step, LINEMATCH_STEP_MAX);
    add("step 00012\n");
    cr_expect_eq(found.step, 12);
}

/* The beginning of a long line is matched, and the next line is whole again. */
Test(linematch, a_line_that_is_too_long)
{
    static char big[3 * LINEMATCH_MAX];
    memset(big, 'x', sizeof big);
    memcpy(big, "step 6 ", 7);
    memcpy(big + sizeof big - 8, " step 9\n", 8);
    linematch_add(&match, big, sizeof big - 1, 1);
    cr_expect_eq(found.step_at, 0);
    cr_expect(add("\n"));
    cr_expect_eq(found.step, 6);
    memset(big, 'x', 8);
    linematch_add(&match, big, sizeof big, 1);
    cr_expect_eq(found.step, 6);
    add("step 7\n");
    cr_expect_eq(found.step, 7);
}

/* A NUL ends the text of its line. */
Test(linematch, a_line_with_a_nul)
{
    linematch_add(&match, "step 1\0step 2\nstep 3\0\n", 23, 1);
    cr_expect_eq(found.step, 3);
    linematch_add(&match, "\0step 4\n", 8, 1);
    cr_expect_eq(found.step, 3);
}

Test(linematch, the_first_failure_stays)
{
    cr_expect_not(add("loss: 3\n"));
    cr_expect_not(found.has_failed);
    cr_expect(add("\x1b[1mloss: nan\x1b[0m\n"));
    cr_expect_str_eq(found.failure, "?[1mloss: nan?[0m");
    cr_expect_not(add("loss: inf\n"));
    cr_expect_str_eq(found.failure, "?[1mloss: nan?[0m");
}

Test(linematch, each_rule_is_optional)
{
    match.rules.step = NULL;
    cr_expect_not(add("step 1\n"));
    cr_expect(add("step 2, loss: nan\n"));
    cr_expect_eq(found.step_at, 0);
    memset(&found, 0, sizeof found);
    match.rules = (struct linematch_rules){.step = &step};
    cr_expect(add("step 3, loss: nan\n"));
    cr_expect_not(found.has_failed);
}
