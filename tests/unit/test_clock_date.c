/* SPDX-License-Identifier: Apache-2.0
 *
 * clock_date: moments that are written as dates, and texts that are none.
 */
#include "base/clock.h"
#include "base/str.h"

#include <criterion/criterion.h>
#include <inttypes.h>

static int64_t seconds_of(const char *text)
{
    int64_t ns;
    return date_parse(text, &ns) ? ns / NS_PER_S : -1;
}

Test(clock_date, formats)
{
    static const struct {
        const char *text;
        int64_t seconds;
    } cases[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2026-04-11T22:26:58Z", 1775946418},
        {"2026-04-11t22:26:58z", 1775946418},
        {"2026-04-11 22:26:58Z", 1775946418},
        {" 2026-04-11T22:26:58Z\n", 1775946418},
        {"2026-04-11T22:26:58.999999999999Z", 1775946418},
        {"2026-04-12T00:26:58+02:00", 1775946418},
        {"2026-04-11T17:26:58-0500", 1775946418},
        {"Sat, 11 Apr 2026 22:26:58 GMT", 1775946418},
        {"Mon, 11 Apr 2026 22:26:58 GMT", 1775946418}, /* the wrong weekday, as a manual has it */
        {"sat, 11 apr 2026 22:26:58 gmt", 1775946418},
        {"11 Apr 2026 22:26:58 GMT", 1775946418},
        {"21 Jan 2019 09:00:43 GMT", 1548061243},
        {"1 Feb 2019 00:00:00 UTC", 1548979200},
        {"2024-02-29T00:00:00Z", 1709164800},
        {"2016-12-31T23:59:60Z", 1483228800},
        {"2200-01-01T00:00:00Z", INT64_C(7258118400)},
        {"1969-12-31T23:59:59Z", 0},
        {"0001-01-01T00:00:00Z", 0},
        {"1802-06-01T00:00:00Z", 0},
        {"9999-12-31T23:59:59Z", INT64_MAX / NS_PER_S},
        {"2262-04-12T00:00:00Z", INT64_MAX / NS_PER_S},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        cr_expect_eq(seconds_of(cases[i].text), cases[i].seconds, "%s is %" PRId64, cases[i].text,
                     seconds_of(cases[i].text));
}

Test(clock_date, fraction)
{
    int64_t ns;
    cr_assert(date_parse("1970-01-01T00:00:01.25Z", &ns));
    cr_assert_eq(ns, NS_PER_S + NS_PER_S / 4);
}

Test(clock_date, nonsense)
{
    static const char *const texts[] = {
        "",
        " ",
        "0",
        "-1",
        "NaN",
        "1775946418",
        "tomorrow",
        "2026-04-11",
        "2026-04-11T22:26:58",
        "2026-04-11T22:26Z",
        "2026-4-11T22:26:58Z",
        "2026-13-11T22:26:58Z",
        "2026-00-11T22:26:58Z",
        "2026-02-29T00:00:00Z",
        "2026-04-31T00:00:00Z",
        "2026-04-00T00:00:00Z",
        "2026-04-11T24:00:00Z",
        "2026-04-11T22:60:58Z",
        "2026-04-11T22:26:61Z",
        "2026-04-11T22:26:58.Z",
        "2026-04-11T22:26:58+24:00",
        "2026-04-11T22:26:58+02",
        "2026-04-11T22:26:58Zulu",
        "2026-04-11T22:26:58Z x",
        "-2026-04-11T22:26:58Z",
        "12026-04-11T22:26:58Z",
        "Sat 11 Apr 2026 22:26:58 GMT",
        "Sat, 11 April 2026 22:26:58 GMT",
        "11 Apr 26 22:26:58 GMT",
        "11 Apr 2026 22:26:58",
        "11 Apr 2026 22:26:58 CEST",
        "31 Feb 2026 22:26:58 GMT",
        ", 11 Apr 2026 22:26:58 GMT",
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        cr_expect_eq(seconds_of(texts[i]), -1, "\"%s\" is taken", texts[i]);
}

Test(clock_date, seconds)
{
    cr_assert_eq(date_from_seconds(5), 5 * NS_PER_S);
    cr_assert_eq(date_from_seconds(-5), 0);
    cr_assert_eq(date_from_seconds(INT64_MAX), INT64_MAX);
}
