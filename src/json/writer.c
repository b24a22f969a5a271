/* SPDX-License-Identifier: Apache-2.0
 * See writer.h.
 */
#include "json/writer.h"

#include "base/str.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void writer_init(struct writer *w, size_t max, enum writer_style style)
{
    *w = (struct writer){.style = style, .is_empty = true};
    buf_init(&w->buf, max);
}

void writer_free(struct writer *w)
{
    buf_free(&w->buf);
}

static void writer_put(struct writer *w, const char *data, size_t len)
{
    if (!w->has_failed && !buf_add(&w->buf, data, len))
        w->has_failed = true;
}

static void puts_raw(struct writer *w, const char *text)
{
    writer_put(w, text, strlen(text));
}

static void new_line(struct writer *w)
{
    if (w->style != WRITER_PRETTY)
        return;
    writer_put(w, "\n", 1);
    for (unsigned i = 0; i < w->depth; i++)
        writer_put(w, "  ", 2);
}

static void put_char(struct writer *w, const char *s, unsigned len)
{
    char escape[8];
    unsigned char c = (unsigned char)*s;
    if (len == 0) {
        w->has_replaced = true;
        puts_raw(w, "\xef\xbf\xbd"); /* U+FFFD */
    } else if (c == '"' || c == '\\') {
        writer_put(w, (char[]){'\\', *s}, 2);
    } else if (c == '\n') {
        writer_put(w, "\\n", 2);
    } else if (c == '\t') {
        writer_put(w, "\\t", 2);
    } else if (c < 0x20 || c == 0x7f) {
        snprintf(escape, sizeof escape, "\\u%04x", c);
        puts_raw(w, escape);
    } else {
        writer_put(w, s, len);
    }
}

static void put_string(struct writer *w, const char *text)
{
    writer_put(w, "\"", 1);
    while (*text) {
        unsigned len = str_utf8_len(text);
        put_char(w, text, len);
        text += len > 0 ? len : 1;
    }
    writer_put(w, "\"", 1);
}

/* Writes comma, newline and key before a value. */
static void writer_begin(struct writer *w, const char *key)
{
    assert(w->depth == 0 ? w->is_empty : (key != NULL) == (w->closers[w->depth - 1] == '}'));
    if (!w->is_empty)
        puts_raw(w, w->style == WRITER_PRETTY ? "," : ", ");
    if (w->depth > 0)
        new_line(w);
    w->is_empty = false;
    if (!key)
        return;
    put_string(w, key);
    writer_put(w, ": ", 2);
}

static void open_container(struct writer *w, const char *key, const char *brackets)
{
    writer_begin(w, key);
    assert(w->depth < WRITER_DEPTH_MAX);
    writer_put(w, brackets, 1);
    w->closers[w->depth++] = brackets[1];
    w->is_empty = true;
}

void writer_object(struct writer *w, const char *key)
{
    open_container(w, key, "{}");
}

bool writer_object_if(struct writer *w, const char *key, bool is_there)
{
    if (is_there)
        writer_object(w, key);
    else
        writer_null(w, key);
    return is_there;
}

void writer_list(struct writer *w, const char *key)
{
    open_container(w, key, "[]");
}

void writer_end(struct writer *w)
{
    assert(w->depth > 0);
    w->depth--;
    if (!w->is_empty)
        new_line(w);
    writer_put(w, &w->closers[w->depth], 1);
    w->is_empty = false;
}

void writer_text(struct writer *w, const char *key, const char *text)
{
    writer_begin(w, key);
    if (text)
        put_string(w, text);
    else
        puts_raw(w, "null");
}

void writer_int(struct writer *w, const char *key, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    writer_begin(w, key);
    puts_raw(w, text);
}

void writer_int_if(struct writer *w, const char *key, int64_t value, bool is_known)
{
    if (is_known)
        writer_int(w, key, value);
    else
        writer_null(w, key);
}

void writer_real(struct writer *w, const char *key, double value)
{
    char text[32];
    if (!isfinite(value)) {
        writer_null(w, key);
        return;
    }
    snprintf(text, sizeof text, "%.6g", value);
    writer_begin(w, key);
    puts_raw(w, text);
}

void writer_bool(struct writer *w, const char *key, bool value)
{
    writer_begin(w, key);
    puts_raw(w, value ? "true" : "false");
}

void writer_null(struct writer *w, const char *key)
{
    writer_text(w, key, NULL);
}

void writer_json(struct writer *w, const char *key, const struct json *value)
{
    int64_t whole;
    double number;
    bool flag;
    if (json_kind(value) == JSON_IS_OBJECT || json_kind(value) == JSON_IS_LIST) {
        open_container(w, key, json_kind(value) == JSON_IS_OBJECT ? "{}" : "[]");
        for (const struct json *item = json_first(value); item; item = json_next(item))
            writer_json(w, json_key(item), item);
        writer_end(w);
    } else if (json_int(value, &whole)) {
        writer_int(w, key, whole);
    } else if (json_number(value, &number)) {
        writer_real(w, key, number);
    } else if (json_bool(value, &flag)) {
        writer_bool(w, key, flag);
    } else {
        writer_text(w, key, json_text(value));
    }
}

const char *writer_done(struct writer *w, size_t *ret_len)
{
    assert(w->depth == 0 && !w->is_empty);
    writer_put(w, "\n", 2); /* and the NUL */
    if (w->has_failed)
        return NULL;
    if (ret_len)
        *ret_len = buf_len(&w->buf) - 1;
    return (const char *)buf_bytes(&w->buf);
}
