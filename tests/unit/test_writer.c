/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON writer: its two styles, its escapes, its bound; what it writes, the reader reads.
 */
#include "base/str.h"
#include "json/json.h"
#include "json/writer.h"

#include <criterion/criterion.h>
#include <string.h>

static void write_sample(struct writer *w)
{
    writer_object(w, NULL);
    writer_text(w, "job", "run7");
    writer_null(w, "notice");
    writer_object(w, "round");
    writer_int(w, "save_step", INT64_MAX);
    writer_bool(w, "decided", true);
    writer_end(w);
    writer_list(w, "ranks");
    for (int i = 0; i < 2; i++) {
        writer_object(w, NULL);
        writer_int(w, "rank", i);
        writer_end(w);
    }
    writer_end(w);
    writer_list(w, "none");
    writer_end(w);
    writer_object(w, "nothing");
    writer_end(w);
    writer_end(w);
}

Test(writer, writes_one_line)
{
    struct writer w;
    size_t len;
    writer_init(&w, 4096, WRITER_LINE);
    write_sample(&w);
    const char *text = writer_done(&w, &len);
    cr_assert(text != NULL);
    cr_assert_str_eq(
        text, "{\"job\": \"run7\", \"notice\": null, \"round\": {\"save_step\": "
              "9223372036854775807, \"decided\": true}, \"ranks\": [{\"rank\": 0}, {\"rank\": "
              "1}], \"none\": [], \"nothing\": {}}\n");
    cr_assert_eq(len, strlen(text));
    writer_free(&w);
}

Test(writer, writes_a_value_that_was_read)
{
    static const char line[] = "{\"t\": \"x\", \"i\": -7, \"r\": 1.5, \"b\": true, \"n\": null, "
                               "\"l\": [1, {\"in\": []}], \"o\": {}}\n";
    struct writer w;
    struct err err;
    struct json *root = json_read("t", line, sizeof line - 1, &err);
    cr_assert(root != NULL, "%s", err.text);
    writer_init(&w, 4096, WRITER_LINE);
    writer_json(&w, NULL, root);
    json_free(root);
    cr_assert_str_eq(writer_done(&w, NULL), line);
    writer_free(&w);
}

Test(writer, writes_indented)
{
    struct writer w;
    writer_init(&w, 4096, WRITER_PRETTY);
    write_sample(&w);
    const char *text = writer_done(&w, NULL);
    cr_assert(text != NULL);
    cr_assert_str_eq(text, "{\n"
                           "  \"job\": \"run7\",\n"
                           "  \"notice\": null,\n"
                           "  \"round\": {\n"
                           "    \"save_step\": 9223372036854775807,\n"
                           "    \"decided\": true\n"
                           "  },\n"
                           "  \"ranks\": [\n"
                           "    {\n"
                           "      \"rank\": 0\n"
                           "    },\n"
                           "    {\n"
                           "      \"rank\": 1\n"
                           "    }\n"
                           "  ],\n"
                           "  \"none\": [],\n"
                           "  \"nothing\": {}\n"
                           "}\n");
    writer_free(&w);
}

/* Every byte but NUL, one at a time and in UTF-8, comes back as it went in. */
Test(writer, what_it_writes_is_read_back)
{
    static const char *const texts[] = {"",
                                        "plain",
                                        "\"\\/\b\f\n\r\t\x01\x1f\x7f",
                                        "\xc3\xa4\xe2\x82\xac",
                                        "\xed\x9f\xbf\xee\x80\x80",
                                        "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf",
                                        "a/b c{}[]:,"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct writer w;
        struct err err = {0};
        size_t len;
        writer_init(&w, 4096, WRITER_LINE);
        writer_object(&w, NULL);
        writer_text(&w, texts[i], texts[i]);
        writer_end(&w);
        const char *text = writer_done(&w, &len);
        cr_assert(text != NULL && !w.has_replaced);
        struct json *root = json_read("t", text, len, &err);
        cr_assert(root != NULL, "row %zu: %s in %s", i, err.text, text);
        cr_expect_str_eq(json_text(json_first(root)), texts[i]);
        cr_expect_str_eq(json_key(json_first(root)), texts[i]);
        json_free(root);
        writer_free(&w);
    }
}

/* Paths and error texts may hold any bytes. The output stays JSON, and the loss is reported. */
Test(writer, replaces_what_is_not_utf8)
{
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"a\xff", "[\"a\xef\xbf\xbd\"]\n"},
        {"\xc3", "[\"\xef\xbf\xbd\"]\n"},
        {"\xc0\x80", "[\"\xef\xbf\xbd\xef\xbf\xbd\"]\n"},
        {"\xe0\x80\x80", "[\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"]\n"},
        {"\xed\xa0\x80", "[\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"]\n"},
        {"\xf4\x90\x80\x80", "[\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"]\n"},
        {"\xe2\x82x", "[\"\xef\xbf\xbd\xef\xbf\xbdx\"]\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct writer w;
        writer_init(&w, 4096, WRITER_LINE);
        writer_list(&w, NULL);
        writer_text(&w, NULL, rows[i].in);
        writer_end(&w);
        const char *text = writer_done(&w, NULL);
        cr_assert(text != NULL);
        cr_expect_str_eq(text, rows[i].out, "row %zu", i);
        cr_expect(w.has_replaced);
        writer_free(&w);
    }
}

/* The bound holds the text, its newline and the NUL, to the byte. */
Test(writer, fails_beyond_its_bound_and_not_below)
{
    for (size_t max = 0; max < 12; max++) {
        struct writer w;
        writer_init(&w, max, WRITER_LINE);
        writer_list(&w, NULL);
        writer_int(&w, NULL, 123);
        writer_end(&w);
        cr_expect_eq(writer_done(&w, NULL) != NULL, max >= strlen("[123]\n") + 1, "max %zu", max);
        writer_free(&w);
    }
}
