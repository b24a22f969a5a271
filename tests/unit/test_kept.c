/* SPDX-License-Identifier: Apache-2.0
 *
 * kept: the numbers and ids of the kept lines, and from which line a reader goes on.
 */
#include "web/kept.h"

#include "base/str.h"

#include "unit.h"

#include <stdio.h>

static struct kept kept;

static bool add(const char *text)
{
    return kept_add(&kept, text, strlen(text));
}

static void add_many(int from, int to)
{
    char text[32];
    for (int i = from; i <= to; i++) {
        snprintf(text, sizeof text, "line %d", i);
        cr_assert(add(text));
    }
}

/* The number of the line that follows the line `number`. */
static uint64_t after(uint64_t number)
{
    char id[KEPT_ID_SIZE];
    return kept_after(&kept, kept_id(&kept, number, id));
}

Test(kept, a_line_is_kept_once)
{
    kept_init(&kept, 0xabc);
    cr_expect(kept_first(&kept) == 1 && kept_after(&kept, NULL) == 1);
    cr_expect(add("one") && add("two") && !add("one") && !add("two") && add("three"));
    cr_expect(kept.last == 3 && str_is(kept_at(&kept, 2)->text, "two"));
    cr_expect(add("on") && add("one more"));
    kept_free(&kept);
    cr_expect_eq(kept.last, 0);
}

Test(kept, a_reader_goes_on_after_its_last_line)
{
    char id[KEPT_ID_SIZE];
    kept_init(&kept, 0xabc);
    add_many(1, 5);
    cr_expect_str_eq(kept_id(&kept, 3, id), "abc-3");
    cr_expect(after(3) == 4 && after(5) == 6);
    static const char *const others[] = {NULL,
                                         "",
                                         "3",
                                         "abd-3",
                                         "abc-",
                                         "abc-x",
                                         "abc-6",
                                         "abc-0",
                                         "abc-3x",
                                         "abc--1",
                                         "abc-99999999999999999999"};
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        cr_expect_eq(kept_after(&kept, others[i]), 1, "%zu", i);
    kept_free(&kept);
}

Test(kept, the_oldest_lines_go)
{
    kept_init(&kept, 1);
    add_many(1, KEPT_MAX);
    cr_expect(kept_first(&kept) == 1 && after(1) == 2);
    add_many(KEPT_MAX + 1, KEPT_MAX + 10);
    cr_expect(kept_first(&kept) == 11 && kept.last == KEPT_MAX + 10);
    cr_expect(str_is(kept_at(&kept, 11)->text, "line 11"));
    cr_expect(after(5) == 11 && after(11) == 12);
    cr_expect(add("line 5"), "it is not kept any more");
    kept_free(&kept);
}
