/* SPDX-License-Identifier: Apache-2.0
 *
 * test_healthline: the answers of health checks, of which only a clear one counts against the node.
 */
#include "base/str.h"
#include "health/healthline.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>

#define EXITED(code) ((code) << 8)

static struct health_answer answer;

static enum health_verdict read_text(int status, const char *text)
{
    healthline_read(status, "how it ended", text, strlen(text), &answer);
    return answer.verdict;
}

static const char *described(void)
{
    static char text[400];
    return healthline_describe(&answer, text, sizeof text);
}

Test(healthline, a_clear_no)
{
    static const struct {
        const char *text, *described;
    } rows[] = {
        {"{\"healthy\": false, \"component\": \"gpu3\", \"text\": \"Xid 79\"}", "gpu3: Xid 79"},
        {"probing\n\n{\"healthy\": false, \"text\": \"Xid 79\"}\r\n \n", "Xid 79"},
        {"{\"healthy\": false, \"component\": \"gpu3\", \"since\": [1, {}]}", "gpu3"},
        {"{\"healthy\": false, \"text\": \"a\\u001b[31m\"}", "a?[31m"},
        {"{\"healthy\": false}", "the check names no reason"},
        {"{\"healthy\": false, \"text\": 7}", "the check names no reason"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cr_expect_eq(read_text(EXITED(1), rows[i].text), HEALTH_BAD, "%s", rows[i].text);
        cr_expect_str_eq(described(), rows[i].described);
    }
}

Test(healthline, success_is_healthy_whatever_it_prints)
{
    cr_expect_eq(read_text(0, ""), HEALTH_GOOD);
    cr_expect_eq(read_text(0, "{\"healthy\": false}"), HEALTH_GOOD);
    cr_expect_str_empty(described());
}

Test(healthline, anything_else_is_unknown)
{
    static const char *const nonsense[] = {
        "",
        "\n \n",
        "no",
        "{\"healthy\": true}",
        "{\"healthy\": \"false\"}",
        "{\"healthy\": 0}",
        "{\"ok\": false}",
        "[false]",
        "{\"healthy\": false",
        "{\"healthy\": false}\nbye",
    };
    for (size_t i = 0; i < ARRAY_LEN(nonsense); i++) {
        cr_expect_eq(read_text(EXITED(1), nonsense[i]), HEALTH_UNKNOWN, "%s", nonsense[i]);
        cr_expect_str_eq(described(), "how it ended, without a line that says \"healthy\": false");
    }
    static const int statuses[] = {-1, EXITED(2), EXITED(127), 9, 11};
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
        cr_expect_eq(read_text(statuses[i], "{\"healthy\": false}"), HEALTH_UNKNOWN, "%d",
                     statuses[i]);
        cr_expect_str_eq(described(), "how it ended");
    }
}

/* Bytes that no JSON has, and more than there is room for. */
Test(healthline, hostile)
{
    char text[4096];
    healthline_read(EXITED(1), "x", "{\"healthy\":\0false}", 18, &answer);
    cr_expect_eq(answer.verdict, HEALTH_UNKNOWN);
    healthline_read(EXITED(1), "x", "\xff\xfe\n", 3, &answer);
    cr_expect_eq(answer.verdict, HEALTH_UNKNOWN);
    int n = snprintf(text, sizeof text, "{\"healthy\": false, \"component\": \"");
    memset(text + n, 'a', 2000);
    snprintf(text + n + 2000, sizeof text - (size_t)n - 2000,
             "\", \"text\": \"\xc3\xa4\xc3\xa4\"}");
    cr_expect_eq(read_text(EXITED(1), text), HEALTH_BAD);
    cr_expect_lt(strlen(answer.component), sizeof answer.component);
}
