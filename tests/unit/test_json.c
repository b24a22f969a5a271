/* SPDX-License-Identifier: Apache-2.0
 *
 * The strict reader: what it gives, and what it refuses, by its exact words.
 */
#include "base/str.h"
#include "folder.h"
#include "json/json.h"

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

#define BYTES(s) s, sizeof(s) - 1

/* jansson says what it met; the advice behind that is ours. */
#define CUT    "; it is empty or cut off: write at least {}, and close each quote and bracket"
#define BEHIND "; remove all that follows the last bracket"
#define TWICE  "; write each key of an object once"
#define BITS   "; a number must fit into 64 bits"
#define UTF8   "; save it as UTF-8 text"
#define WRITE                                                                              \
    "; write a comma between two values but none after the last, each string in \"double " \
    "quotes\", and no comment"

static const struct {
    const char *data;
    size_t len;
    const char *text;
} bad_texts[] = {
    {BYTES(""), "t:1:1: '[' or '{' expected near end of file" CUT},
    {BYTES(" \n"), "t:2:1: '[' or '{' expected near end of file" CUT},
    {BYTES("7"), "t:1:1: '[' or '{' expected near '7'" WRITE},
    {BYTES("{\"a\": 1"), "t:1:7: '}' expected near end of file" CUT},
    {BYTES("{\"a\":\n [1, "), "t:2:5: ']' expected near end of file" CUT},
    {BYTES("{\"a\""), "t:1:4: ':' expected near end of file" CUT},
    {BYTES("{\"a\": }"), "t:1:7: unexpected token near '}'" WRITE},
    {BYTES("{\"a\" 1}"), "t:1:6: ':' expected near '1'" WRITE},
    {BYTES("{\"a\": 1}\n x"), "t:2:2: end of file expected near 'x'" BEHIND},
    {BYTES("{\n\"a\": 1,\n\"a\": 2}"), "t:3:3: duplicate object key near '\"a\"'" TWICE},
    {BYTES("{\"o\": {\"b\": 1, \"b\": 1}}"), "t:1:18: duplicate object key near '\"b\"'" TWICE},
    {BYTES("{\"\\\"\": 1, \"\\\"\": 1}"), "t:1:14: duplicate object key near '\"\\\"\"'" TWICE},
    {BYTES("{\"a\": 1,}"), "t:1:9: string or '}' expected near '}'" WRITE},
    {BYTES("[1,\n]"), "t:2:1: unexpected token near ']'" WRITE},
    {BYTES("[1 2]"), "t:1:4: ']' expected near '2'" WRITE},
    {BYTES("{\"a\": \"\xc3\xa4\" \"b\"}"), "t:1:13: '}' expected near '\"b\"'" WRITE},
    {BYTES("{'a': 1}"), "t:1:2: string or '}' expected near '''" WRITE},
    {BYTES("{a: 1}"), "t:1:2: string or '}' expected near 'a'" WRITE},
    {BYTES("{} // end"), "t:1:4: end of file expected near '/'" BEHIND},
    {BYTES("{\"a\": 1, // b\n\"c\": 1}"), "t:1:10: string or '}' expected near '/'" WRITE},
    {BYTES("[01]"), "t:1:2: invalid token near '0'" WRITE},
    {BYTES("[25s]"), "t:1:4: ']' expected near 's'" WRITE},
    {BYTES("[NaN]"), "t:1:4: invalid token near 'NaN'" WRITE},
    {BYTES("[99999999999999999999]"), "t:1:21: too big integer near '99999999999999999999'" BITS},
    {BYTES("[1e999]"), "t:1:6: real number overflow near '1e999'" BITS},
    {BYTES("[1234567890123456789012345]"), "t:1:26: too big integer" BITS},
    {BYTES("[\"a\0b\"]"), "t:1:3: control character 0x0 near '\"a'" WRITE},
    {BYTES("[\"a\\u0000\"]"), "t:1:10: \\u0000 is not allowed without JSON_ALLOW_NUL near "
                              "'\"a\\u0000\"'; a string cannot hold a NUL"},
    {BYTES("[\"\\ud800x\"]"), "t:1:10: invalid Unicode '\\uD800' near '\"\\ud800x\"'" WRITE},
    {BYTES("[\"\\u12g4\"]"), "t:1:7: invalid escape near '\"\\u12g'" WRITE},
    {BYTES("[\"\\x\"]"), "t:1:4: invalid escape near '\"\\x'" WRITE},
    {BYTES("[\"\\\n\"]"), "t:2:1: invalid escape near '\"\\?'" WRITE},
    {BYTES("[\"a\nb\"]"), "t:1:3: unexpected newline near '\"a'" WRITE},
    {BYTES("[\"a"), "t:1:3: premature end of input near '\"a'" CUT},
    {BYTES("[\"\t\"]"), "t:1:2: control character 0x9 near '\"'" WRITE},
    {BYTES("{}\n\0"), "t:2:1: end of file expected near end of file" BEHIND},
    {BYTES("[\"\xff\"]"), "t:1:2: unable to decode byte 0xff near '\"'" UTF8},
    {BYTES("[\"\xed\xa0\x80\"]"), "t:1:2: unable to decode byte 0xed near '\"'" UTF8},
    {BYTES("\xef\xbb\xbf{}"), "t:1:1: '[' or '{' expected near '?'; save it as UTF-8 "
                              "without a byte order mark"},
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
    cr_assert(strstr(err.text, "maximum parsing depth reached") != NULL, "%s", err.text);
    free(text);
}

Test(json, reads_what_is_strict)
{
    static const char *const good[] = {
        " {\t}\r\n", "[]", "[-0, 0.5, 1e2, 1E+2, -1.5e-3, 9223372036854775807]",
        "[\"\\ud83d\\ude00\", \"\\\"\\\\\\/\\b\\f\\n\\r\\t\", \"\xf0\x9f\x98\x80\"]",
        "{\"\": {\"a\": [true, false, null]}}"};
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        json_free(read_text(good[i]));
}

static void make_file(off_t size)
{
    folder_put("file", "[1]");
    cr_assert_eq(truncate("file", size), 0);
}

TestSuite(json_file, .init = folder_enter, .fini = folder_remove);

Test(json_file, is_read_up_to_its_limit)
{
    struct err err = {0};
    make_file(3);
    struct json *root = json_read_file("file", 3, &err);
    cr_assert(root != NULL, "%s", err.text);
    json_free(root);
    cr_assert(json_read_file("file", 2, &err) == NULL);
    cr_assert_str_eq(err.text, "cannot read file: it has 3 bytes, the limit is 2");
}

/* A file of a terabyte is refused by its size, not by reading it. */
Test(json_file, is_looked_at_by_its_size_first)
{
    struct err err = {0};
    make_file((off_t)1 << 40);
    cr_assert(json_read_file("file", 1 << 20, &err) == NULL);
    cr_assert(strstr(err.text, "it has 1099511627776 bytes, the limit is 1048576") != NULL, "%s",
              err.text);
}

Test(json_file, that_is_a_fifo_without_a_writer_does_not_hold_us)
{
    struct err err = {0};
    cr_assert(mkfifo("file", 0600) == 0);
    cr_assert(json_read_file("file", 1 << 20, &err) == NULL);
    cr_assert(strstr(err.text, "it is not a regular file") != NULL, "%s", err.text);
}
