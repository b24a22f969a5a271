/* SPDX-License-Identifier: Apache-2.0
 *
 * The strict reader: what it gives, where values stood, and what it refuses, by its exact words.
 */
#include "base/str.h"
#include "json/json.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct json *read_text(const char *text)
{
    struct err err = {0};
    struct json *root = json_read("t", text, strlen(text), &err);
    cr_assert(root != NULL, "%s", err.text);
    return root;
}

Test(json, gives_every_kind_of_value)
{
    struct json *root = read_text("{\"t\": \"x\", \"i\": -7, \"r\": 1.5, \"b\": true, \"n\": null,"
                                  " \"l\": [1, 2, 3], \"o\": {}}");
    int64_t i = 0;
    bool b = false;
    cr_assert_str_eq(json_text(json_find(root, "t")), "x");
    cr_assert(json_int(json_find(root, "i"), &i) && i == -7);
    cr_assert(json_bool(json_find(root, "b"), &b) && b);
    cr_assert_eq(json_kind(json_find(root, "r")), JSON_IS_REAL);
    cr_assert_eq(json_kind(json_find(root, "n")), JSON_IS_NULL);
    cr_assert_eq(json_kind(json_find(root, "l")), JSON_IS_LIST);
    cr_assert(json_first(json_find(root, "o")) == NULL);
    cr_assert(json_find(root, "absent") == NULL);
    json_free(root);
}

Test(json, getters_refuse_other_kinds_and_leave_ret_alone)
{
    struct json *root = read_text("[\"7\", 7, 7.0, null]");
    int64_t i = 99;
    bool b = true;
    const struct json *text = json_first(root), *number = json_next(text);
    cr_assert(!json_int(text, &i) && !json_int(json_next(number), &i) && !json_int(NULL, &i));
    cr_assert(!json_bool(number, &b) && !json_bool(NULL, &b));
    cr_assert(json_text(number) == NULL && json_text(NULL) == NULL);
    cr_assert(i == 99 && b);
    cr_assert(json_key(text) == NULL);
    json_free(root);
}

Test(json, keeps_the_order_of_the_file)
{
    struct json *root =
        read_text("{\"z\":1,\"a\":2,\"m\":3,\"b\":4,\"y\":5,\"c\":6,\"k\":7,\"d\":8,\"j\":9}");
    char keys[32] = "";
    for (const struct json *member = json_first(root); member; member = json_next(member))
        str_addf(keys, sizeof keys, "%s", json_key(member));
    cr_assert_str_eq(keys, "zambyckdj");
    json_free(root);
}

/* Brackets, quotes and backslashes inside strings must not lead the second walk astray. */
Test(json, says_where_each_value_stood)
{
    struct json *root = read_text("{\n"
                                  "  \"a\\\"]}\": \"x\\\\\",\n"
                                  "  \"l\": [ {}, [ ],\n"
                                  "\t\"\xc3\xa4{\", -1.5e3, {\"in\": [true]} ],\n"
                                  "  \"end\" : null\n"
                                  "}\n");
    static const struct {
        unsigned line, column;
    } items[] = {{3, 10}, {3, 14}, {4, 2}, {4, 8}, {4, 16}};
    cr_assert(json_line(root) == 1 && json_column(root) == 1);
    const struct json *a = json_first(root), *list = json_next(a), *end = json_next(list);
    cr_assert(json_line(a) == 2 && json_column(a) == 3);
    cr_assert(json_line(end) == 5 && json_column(end) == 3);
    size_t n = 0;
    const struct json *last = NULL;
    for (const struct json *item = json_first(list); item; item = json_next(item), n++) {
        cr_assert(n < ARRAY_LEN(items));
        cr_assert(json_line(item) == items[n].line && json_column(item) == items[n].column,
                  "item %zu is at %u:%u", n, json_line(item), json_column(item));
        last = item;
    }
    cr_assert_eq(n, ARRAY_LEN(items));
    const struct json *in = json_find(last, "in");
    cr_assert(json_line(in) == 4 && json_column(in) == 17);
    cr_assert(json_column(json_first(in)) == 24);
    json_free(root);
}

#define BYTES(s) s, sizeof(s) - 1

static const struct {
    const char *data;
    size_t len;
    const char *text;
} bad_texts[] = {
    {BYTES(""), "t:1:1: it is empty; an object is wanted, at least {}"},
    {BYTES(" \n"), "t:1:1: it is empty; an object is wanted, at least {}"},
    {BYTES("7"), "t:1:1: an object, {...}, is wanted, not '7'"},
    {BYTES("{\"a\": 1"), "t:1:8: the file ends before the '}' of the object that begins in line 1"},
    {BYTES("{\"a\":\n [1, "),
     "t:2:6: the file ends before the ']' of the list that begins in line 2"},
    {BYTES("{\"a\""), "t:1:5: a colon behind the key is wanted, not the end of the file"},
    {BYTES("{\"a\": }"), "t:1:7: a value is wanted, not '}'"},
    {BYTES("{\"a\" 1}"), "t:1:6: a colon behind the key is wanted, not '1'"},
    {BYTES("{\"a\": 1}\n x"), "t:2:2: the end of the file is wanted, not 'x'"},
    {BYTES("{\n\"a\": 1,\n\"a\": 2}"), "t:3:1: the key \"a\" is there twice in one object"},
    {BYTES("{\"o\": {\"b\": 1, \"b\": 1}}"), "t:1:16: the key \"b\" is there twice in one object"},
    {BYTES("{\"\\\"\": 1, \"\\\"\": 1}"), "t:1:11: the key \"\\\"\" is there twice in one object"},
    {BYTES("{\"a\": 1,}"), "t:1:8: the comma before '}' is one too many"},
    {BYTES("[1,\n]"), "t:1:3: the comma before ']' is one too many"},
    {BYTES("[1 2]"), "t:1:4: a comma or ']' behind the value is wanted, not '2'"},
    {BYTES("{\"a\": \"\xc3\xa4\" \"b\"}"),
     "t:1:11: a comma or '}' behind the value is wanted, not a string"},
    {BYTES("{'a': 1}"),
     "t:1:2: a key in \"double quotes\" is wanted; strings stand in \"double quotes\""},
    {BYTES("{a: 1}"), "t:1:2: a key in \"double quotes\" is wanted, not 'a'"},
    {BYTES("{} // end"), "t:1:4: comments are no JSON; the end of the file is wanted"},
    {BYTES("[01]"),
     "t:1:2: '01' is no number as JSON writes it: -12 or 0.5, without a leading + or "
     "0; with a unit it is a \"string\""},
    {BYTES("[25s]"), "t:1:2: '25s' is no number as JSON writes it: -12 or 0.5, without a leading + "
                     "or 0; with a unit it is a \"string\""},
    {BYTES("[NaN]"), "t:1:2: 'NaN' is no value: a string stands in \"double quotes\"; words are "
                     "true, false and null alone"},
    {BYTES("[99999999999999999999]"),
     "t:1:2: the number 99999999999999999999 does not fit into 64 bits"},
    {BYTES("[1e999]"), "t:1:2: the number 1e999 does not fit into 64 bits"},
    {BYTES("[1234567890123456789012345]"),
     "t:1:2: the number 123456789012345678901234... does not fit into 64 bits"},
    {BYTES("[\"a\0b\"]"), "t:1:4: a NUL byte; this is no text"},
    {BYTES("[\"a\\u0000\"]"), "t:1:4: \\u0000, a NUL, is not allowed in a string"},
    {BYTES("[\"\\ud800x\"]"), "t:1:3: \\ud800 is half of a character; the other half is missing"},
    {BYTES("[\"\\u12g4\"]"), "t:1:3: four hexadecimal digits are wanted behind \\u"},
    {BYTES("[\"\\x\"]"), "t:1:3: no such escape in a string; a backslash is written \\\\"},
    {BYTES("[\"a\nb\"]"), "t:1:2: the string that begins here is not closed in its line"},
    {BYTES("[\"a"), "t:1:2: the string that begins here is not closed"},
    {BYTES("[\"\t\"]"), "t:1:3: a control character (0x09) in a string; write \\u0009"},
    {BYTES("{}\n\0"), "t:2:1: a NUL byte; this is no text"},
    {BYTES("[\"\xff\"]"), "t:1:3: the byte 0xff is not UTF-8"},
    {BYTES("[\"\xed\xa0\x80\"]"), "t:1:3: the byte 0xed is not UTF-8"},
    {BYTES("\xef\xbb\xbf{}"), "t:1:1: it begins with a byte order mark; save it as plain UTF-8"},
};

Test(json, refuses_what_is_not_strict_and_says_where)
{
    for (size_t i = 0; i < ARRAY_LEN(bad_texts); i++) {
        struct err err = {0};
        struct json *root = json_read("t", bad_texts[i].data, bad_texts[i].len, &err);
        cr_expect(root == NULL, "row %zu was read", i);
        cr_expect_str_eq(err.text, bad_texts[i].text, "row %zu: %s", i, err.text);
        cr_expect_eq(err.code, ERR_USAGE);
        json_free(root);
    }
}

Test(json, depth_is_bounded)
{
    size_t len = 200000;
    char *text = malloc(len);
    memset(text, '[', len);
    struct err err = {0};
    cr_assert(json_read("t", text, len, &err) == NULL);
    cr_assert(strstr(err.text, "more than 100 lists and objects lie in each other") != NULL, "%s",
              err.text);
    free(text);
}

/* What the syntax allows must be read: two readers must not differ. */
Test(json, reads_what_is_strict)
{
    static const char *const good[] = {
        " {\t}\r\n", "[]", "[-0, 0.5, 1e2, 1E+2, -1.5e-3, 9223372036854775807]",
        "[\"\\ud83d\\ude00\", \"\\\"\\\\\\/\\b\\f\\n\\r\\t\", \"\xf0\x9f\x98\x80\"]",
        "{\"\": {\"a\": [true, false, null]}}"};
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        json_free(read_text(good[i]));
}

static char *make_file(char *path, off_t size)
{
    strcpy(path, "/tmp/test_json.XXXXXX");
    int fd = mkstemp(path);
    cr_assert(fd >= 0 && write(fd, "[1]", 3) == 3 && ftruncate(fd, size) == 0);
    close(fd);
    return path;
}

Test(json, reads_a_file_up_to_its_limit)
{
    char path[64], want[128];
    struct err err = {0};
    struct json *root = json_read_file(make_file(path, 3), 3, &err);
    cr_assert(root != NULL, "%s", err.text);
    json_free(root);
    cr_assert(json_read_file(path, 2, &err) == NULL);
    snprintf(want, sizeof want, "cannot read %s: it has 3 bytes, the limit is 2", path);
    cr_assert_str_eq(err.text, want);
    unlink(path);
}

/* A file of a terabyte is refused by its size, not by reading it. */
Test(json, looks_at_the_size_first)
{
    char path[64];
    struct err err = {0};
    make_file(path, (off_t)1 << 40);
    cr_assert(json_read_file(path, 1 << 20, &err) == NULL);
    cr_assert(strstr(err.text, "it has 1099511627776 bytes, the limit is 1048576") != NULL, "%s",
              err.text);
    unlink(path);
}

Test(json, a_fifo_without_a_writer_does_not_hold_us)
{
    char path[] = "/tmp/test_json.XXXXXX", fifo[64];
    struct err err = {0};
    cr_assert(mkdtemp(path) != NULL);
    snprintf(fifo, sizeof fifo, "%s/fifo", path);
    cr_assert(mkfifo(fifo, 0600) == 0);
    cr_assert(json_read_file(fifo, 1 << 20, &err) == NULL);
    cr_assert(strstr(err.text, "it is not a regular file") != NULL, "%s", err.text);
    unlink(fifo);
    rmdir(path);
}
