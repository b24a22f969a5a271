/* SPDX-License-Identifier: Apache-2.0
 *
 * test_noticeline: the lines that a notice source may print, and the result of all other lines.
 */
#include "notices/noticeline.h"

#include "base/clock.h"
#include "base/str.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 2026-11-21T12:00:00Z */
#define NOW_NS (INT64_C(1795262400) * NS_PER_S)
#define YEAR   NOTICELINE_LEFT_MAX_NS

static struct notice notice;
static struct err err;

static enum noticeline_result read_as(bool is_termination, const char *line)
{
    struct noticeline_reader reader = {"gce", NOW_NS, is_termination};
    memset(&notice, 0x5a, sizeof notice);
    return noticeline_read(&reader, line, strlen(line), &notice, &err);
}

static enum noticeline_result read_line(const char *line)
{
    return read_as(false, line);
}

Test(noticeline, a_whole_one)
{
    cr_assert_eq(read_line("{\"type\": \"terminate\", \"id\": \"e-1\", \"deadline_seconds\": 30, "
                           "\"text\": \"host maintenance\", \"zone\": [1, {\"type\": 2}]}"),
                 NOTICELINE_OK, "%s", err.text);
    cr_expect_eq(notice.type, NOTICE_TERMINATE);
    cr_expect_str_eq(notice.source, "gce");
    cr_expect_str_eq(notice.id, "e-1");
    cr_expect_str_eq(notice.text, "host maintenance");
    cr_expect_eq(notice.left_ns, 30 * NS_PER_S);
}

Test(noticeline, the_least)
{
    static const struct {
        const char *line;
        enum notice_type type;
    } rows[] = {
        {"{\"type\":\"terminate\"}", NOTICE_TERMINATE},
        {"{\"type\":\"checkpoint\"}", NOTICE_CHECKPOINT},
        {"{\"type\":\"log\"}", NOTICE_LOG},
        {" { \"type\" : \"cancel\" } \r", NOTICE_CANCEL},
        {"{\"type\":\"cancel\",\"id\":null,\"text\":null}", NOTICE_CANCEL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cr_assert_eq(read_line(rows[i].line), NOTICELINE_OK, "%s: %s", rows[i].line, err.text);
        cr_expect_eq(notice.type, rows[i].type);
        cr_expect_str_eq(notice.source, "gce");
        cr_expect_str_eq(notice.id, "");
        cr_expect_str_eq(notice.text, "");
        cr_expect_eq(notice.left_ns, NOTICE_LEFT_UNKNOWN);
    }
}

Test(noticeline, deadlines)
{
    static const struct {
        const char *fields;
        int64_t left_ns;
    } rows[] = {
        {"\"deadline_seconds\":0", 0},
        {"\"deadline_seconds\":-0.0", 0},
        {"\"deadline_seconds\":-1e300", 0},
        {"\"deadline_seconds\":-9223372036854775808", 0},
        {"\"deadline_seconds\":0.25", NS_PER_S / 4},
        {"\"deadline_seconds\":1e-30", 0},
        {"\"deadline_seconds\":3e1", 30 * NS_PER_S},
        {"\"deadline_seconds\":1e300", YEAR},
        {"\"deadline_seconds\":9223372036854775807", YEAR},
        {"\"deadline\":\"2026-11-21T12:00:30Z\"", 30 * NS_PER_S},
        {"\"deadline\":\"2026-11-21T13:00:00.500+01:00\"", NS_PER_S / 2},
        {"\"deadline\":\"Sat, 21 Nov 2026 12:02:00 GMT\"", 120 * NS_PER_S},
        {"\"deadline\":\"2026-11-21T11:59:59Z\"", 0},
        {"\"deadline\":\"1970-01-01T00:00:00Z\"", 0},
        {"\"deadline\":\"0001-01-01T00:00:00Z\"", 0},
        {"\"deadline\":\"2200-01-01T00:00:00Z\"", YEAR},
        {"\"deadline\":\"9999-12-31T23:59:60Z\"", YEAR},
        {"\"deadline\":\"2200-01-01T00:00:00Z\",\"deadline_seconds\":7", 7 * NS_PER_S},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char line[200];
        snprintf(line, sizeof line, "{\"type\":\"terminate\",%s}", rows[i].fields);
        cr_assert_eq(read_line(line), NOTICELINE_OK, "%s: %s", line, err.text);
        cr_expect_eq(notice.left_ns, rows[i].left_ns, "%s leaves %lld", line,
                     (long long)notice.left_ns);
    }
}

/* A notice with careless details is still a notice. */
Test(noticeline, what_only_describes_it_may_be_wrong)
{
    static const struct {
        const char *fields, *want;
        int64_t left_ns;
    } rows[] = {
        {"\"deadline_seconds\":\"30\"", "deadline_seconds is not a number", NOTICE_LEFT_UNKNOWN},
        {"\"deadline_seconds\":null", "deadline_seconds is not a number", NOTICE_LEFT_UNKNOWN},
        {"\"deadline_seconds\":[],\"deadline\":\"2026-11-21T12:00:30Z\"",
         "deadline_seconds is not a number", 30 * NS_PER_S},
        {"\"deadline\":30", "deadline is not a time as in 2026-11-21T12:03:04Z",
         NOTICE_LEFT_UNKNOWN},
        {"\"deadline\":\"soon\"", "deadline is not a time as in 2026-11-21T12:03:04Z",
         NOTICE_LEFT_UNKNOWN},
        {"\"deadline\":\"2026-02-30T00:00:00Z\"",
         "deadline is not a time as in 2026-11-21T12:03:04Z", NOTICE_LEFT_UNKNOWN},
        {"\"deadline\":\"2026-11-21T12:00:30\"",
         "deadline is not a time as in 2026-11-21T12:03:04Z", NOTICE_LEFT_UNKNOWN},
        {"\"text\":7,\"deadline_seconds\":30", "text is not a string", 30 * NS_PER_S},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char line[200];
        snprintf(line, sizeof line, "{\"type\":\"terminate\",%s}", rows[i].fields);
        cr_expect_eq(read_line(line), NOTICELINE_PART, "%s", line);
        cr_expect_str_eq(err.text, rows[i].want);
        cr_expect_eq(notice.type, NOTICE_TERMINATE);
        cr_expect_eq(notice.left_ns, rows[i].left_ns, "%s leaves %lld", line,
                     (long long)notice.left_ns);
    }
}

Test(noticeline, what_says_nothing)
{
    static const struct {
        const char *line, *want;
    } rows[] = {
        {"", "line:1:1: '[' or '{' expected near end of file; it is empty or cut off: write at "
             "least {}, "
             "and close each quote and bracket"},
        {"[]", "it is not an object but a list"},
        {"{}", "it has no type"},
        {"{\"type\":1}", "its type is not a string but a number"},
        {"{\"type\":\"preempt\"}",
         "its type \"preempt\" is not one of terminate, checkpoint, log, cancel"},
        {"{\"type\":\"Terminate\"}",
         "its type \"Terminate\" is not one of terminate, checkpoint, log, cancel"},
        {"{\"type\":\"cancel\",\"id\":true}", "its id is not a string but a boolean"},
        {"{\"type\":\"terminate\",\"id\":1.5}",
         "its id is not a string but a number with a fraction or exponent"},
    };
    static const char *const garbage[] = {
        "hello",
        "{\"type\":\"terminate\"",
        "{\"type\":\"terminate\"}}",
        "{'type':'terminate'}",
        "{\"type\":\"terminate\",\"type\":\"cancel\"}",
        "{\"type\":\"terminate\",\"text\":\"\xff\"}",
        "{\"type\":\"terminate\",\"id\":\"\\u0000\"}",
        "{\"type\":\"terminate\",\"id\":\"a\nb\"}",
        "{\"type\":\"terminate\",\"deadline_seconds\":NaN}",
        "{\"type\":\"terminate\",\"deadline_seconds\":Infinity}",
        "{\"type\":\"terminate\",\"deadline_seconds\":1e999}",
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cr_expect_eq(read_line(rows[i].line), NOTICELINE_BAD, "%s is accepted", rows[i].line);
        cr_expect_str_eq(err.text, rows[i].want, "%s: %s", rows[i].line, err.text);
    }
    for (size_t i = 0; i < ARRAY_LEN(garbage); i++)
        cr_expect_eq(read_line(garbage[i]), NOTICELINE_BAD, "%s is accepted", garbage[i]);
}

/* The line of a poll only adds to what its exit status says. */
Test(noticeline, of_a_poll_the_type_may_be_missing)
{
    cr_assert_eq(read_as(true, "{\"id\":\"7\",\"deadline_seconds\":2}"), NOTICELINE_OK);
    cr_expect_eq(notice.type, NOTICE_TERMINATE);
    cr_expect_str_eq(notice.id, "7");
    cr_expect_eq(notice.left_ns, 2 * NS_PER_S);
    cr_assert_eq(read_as(true, "{\"type\":\"checkpoint\"}"), NOTICELINE_OK);
    cr_expect_eq(notice.type, NOTICE_CHECKPOINT);
    cr_expect_eq(read_as(true, "{\"type\":null}"), NOTICELINE_BAD);
}

static enum noticeline_result read_id(const char *before, size_t n, const char *after)
{
    size_t size = n + strlen(before) + strlen(after) + 64;
    char *line = malloc(size), *fill = malloc(n + 1);
    memset(fill, 'x', n);
    fill[n] = '\0';
    snprintf(line, size, "{\"type\":\"terminate\",\"id\":\"%s%s%s\"}", before, fill, after);
    enum noticeline_result result = read_line(line);
    free(line);
    free(fill);
    return result;
}

/* Two ids that begin alike stay two; one id stays the same each time. */
Test(noticeline, ids_that_do_not_fit_stay_distinct)
{
    char first[sizeof notice.id];
    cr_assert_eq(read_id("", 63, ""), NOTICELINE_OK);
    cr_expect_eq(strlen(notice.id), 63);
    cr_expect_eq(strspn(notice.id, "x"), 63);
    cr_assert_eq(read_id("", 64, ""), NOTICELINE_OK);
    cr_expect_eq(strspn(notice.id, "x"), 46);
    cr_expect_eq(notice.id[46], '~');
    cr_expect_eq(strlen(notice.id), 63);
    cr_assert_eq(read_id("", 60000, "1"), NOTICELINE_OK);
    str_copy(first, sizeof first, notice.id);
    cr_assert_eq(read_id("", 60000, "2"), NOTICELINE_OK);
    cr_expect_str_neq(notice.id, first);
    cr_assert_eq(read_id("", 60000, "1"), NOTICELINE_OK);
    cr_expect_str_eq(notice.id, first);
    /* 45 letters, and one letter of two bytes: it is not cut in two */
    cr_assert_eq(read_id("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\xc3\xa4", 30, ""),
                 NOTICELINE_OK);
    cr_expect_eq(strspn(notice.id, "x"), 45);
    cr_expect_eq(notice.id[45], '~');
    cr_expect_eq(read_id("", 1024 * 1024, ""), NOTICELINE_BAD);
    cr_expect_str_eq(err.text, "it is longer than 65536 bytes");
}

Test(noticeline, control_characters_are_not_shown)
{
    char first[sizeof notice.id];
    cr_assert_eq(read_line("{\"type\":\"terminate\",\"id\":\"a\\u001b[31m\",\"text\":\"b\\nc\"}"),
                 NOTICELINE_OK);
    cr_expect_eq(strncmp(notice.id, "a?[31m~", 7), 0, "%s", notice.id);
    cr_expect_str_eq(notice.text, "b?c");
    str_copy(first, sizeof first, notice.id);
    cr_assert_eq(read_line("{\"type\":\"terminate\",\"id\":\"a\\u001a[31m\"}"), NOTICELINE_OK);
    cr_expect_str_neq(notice.id, first);
}

Test(noticeline, numbers_are_ids_too)
{
    cr_assert_eq(read_line("{\"type\":\"cancel\",\"id\":-17}"), NOTICELINE_OK);
    cr_expect_str_eq(notice.id, "-17");
}

Test(noticeline, a_long_text_ends_with_a_whole_character)
{
    char line[400], text[300] = "";
    for (int i = 0; i < 60; i++)
        strcat(text, "\xe2\x82\xac");
    snprintf(line, sizeof line, "{\"type\":\"log\",\"text\":\"%s\"}", text);
    cr_assert_eq(read_line(line), NOTICELINE_OK);
    cr_expect_eq(strlen(notice.text), 93);
    cr_expect_eq(strncmp(notice.text, text, 93), 0);
}
