/* SPDX-License-Identifier: Apache-2.0
 * See body.h: notices that people and their programs write, as JSON or as text, and Kubernetes's
 * file of annotations.
 */
#include "base/buf.h"
#include "base/str.h"
#include "watch/answers/body.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A hundred years, so that the time fits into 64 bits. */
#define SECONDS_MAX 3.2e9

/* "deadline" is a date; "deadline_seconds" counts from since_ns. */
static void read_moment(const struct json *root, int64_t since_ns, struct events *ret,
                        struct event *event)
{
    const struct json *seconds = json_find(root, "deadline_seconds");
    const struct json *date = json_find(root, "deadline");
    double left;
    if (date) {
        bodytext_set_time(ret, event, "deadline", date);
    } else if (seconds &&
               (!json_number(seconds, &left) || !(left > -SECONDS_MAX && left < SECONDS_MAX))) {
        events_lack_time(ret, event, "deadline_seconds",
                         "no number of seconds within a hundred years");
    } else if (seconds) {
        int64_t ns = (int64_t)(left * 1e9);
        event->at_ns = ns > 0 && since_ns > INT64_MAX - ns ? INT64_MAX : since_ns + ns;
    }
}

/* An id may be a number, as in the lines that pchrun reads. */
static const char *notice_read_id(const struct json *root, char number[24], struct events *ret)
{
    const struct json *value = json_find(root, "id");
    int64_t n;
    if (!json_int(value, &n))
        return bodytext_at(root, "id", ret);
    snprintf(number, 24, "%" PRId64, n);
    return number;
}

static bool read_object(const struct json *root, int64_t since_ns, struct events *ret,
                        struct err *err)
{
    enum notice_type type;
    char key[EVENT_ID_MAX], number[24];
    if (!notice_type_of(bodytext_at(root, "type", NULL), &type))
        return err_set(err, ERR_PROTOCOL, 0,
                       "\"type\" is none of \"terminate\", \"checkpoint\", \"log\" and "
                       "\"cancel\"");
    if (type == NOTICE_CANCEL)
        return true;
    const char *id = notice_read_id(root, number, ret);
    struct event *event = events_add(ret, type, event_id(key, "", id));
    str_fit(event->text, sizeof event->text, bodytext_at(root, "text", ret));
    read_moment(root, since_ns, ret, event);
    return true;
}

static void notice_read_words(const char *data, size_t len, struct events *ret)
{
    struct event *event = events_add(ret, NOTICE_TERMINATE, "");
    size_t n = len < sizeof event->text ? len : sizeof event->text - 1;
    memcpy(event->text, data, n); /* a NUL in the data ends the text */
    event->text[strcspn(event->text, "\n")] = '\0';
    str_printable(event->text);
}

bool body_notice(const char *data, size_t len, int64_t since_ns, struct events *ret,
                 struct err *err)
{
    while (len > 0 && isspace((unsigned char)*data))
        data++, len--;
    if (len == 0 || *data != '{') {
        notice_read_words(len ? data : "", len, ret);
        return true;
    }
    JSON_CLEANUP struct json *root = bodytext_json(data, len, JSON_IS_OBJECT, err);
    return root && read_object(root, since_ns, ret, err);
}

/* ---- annotations ---- */

/* "\x41" and "\u0041": a character by its hexadecimal digits. A character beyond one byte becomes
 * UTF-8. */
static bool put_code(struct buf *value, const char **at, const char *end, int digits)
{
    uint32_t code = 0;
    for (int i = 0; i < digits; i++, ++*at) {
        int digit = *at < end ? str_hex_digit(**at) : -1;
        if (digit < 0)
            return false;
        code = code << 4 | (uint32_t)digit;
    }
    if (digits == 2 || code < 0x80)
        return buf_add(value, &(uint8_t){(uint8_t)code}, 1);
    if (code > 0x10ffff)
        return false;
    uint8_t utf8[4];
    unsigned n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (unsigned i = n; i-- > 1; code >>= 6)
        utf8[i] = (uint8_t)(0x80 | (code & 0x3f));
    utf8[0] = (uint8_t)(0xf00 >> n | code);
    return buf_add(value, utf8, n);
}

static bool put_escape(struct buf *value, const char **at, const char *end)
{
    static const char names[] = "abfnrtv\\\"'", meanings[] = "\a\b\f\n\r\t\v\\\"'";
    if (*at == end)
        return false;
    char c = *(*at)++;
    const char *found = c ? strchr(names, c) : NULL;
    if (found)
        return buf_add(value, &meanings[found - names], 1);
    return (c == 'x' && put_code(value, at, end, 2)) || (c == 'u' && put_code(value, at, end, 4)) ||
           (c == 'U' && put_code(value, at, end, 8));
}

/* Reads the text after an opening quote up to the closing quote, which must end the line. */
static bool unquote(const char *at, const char *end, struct buf *value)
{
    while (at < end && *at != '"') {
        bool ok = *at == '\\' ? (at++, put_escape(value, &at, end)) : buf_add(value, at++, 1);
        if (!ok)
            return false;
    }
    return at + 1 == end;
}

bool body_annotation(const char *data, size_t len, const char *key, struct buf *value,
                     struct err *err)
{
    size_t key_len = strlen(key);
    const char *at = data, *all_end = data + len;
    while (at < all_end) {
        const char *newline = memchr(at, '\n', (size_t)(all_end - at));
        const char *end = newline ? newline : all_end;
        if ((size_t)(end - at) > key_len + 1 && memcmp(at, key, key_len) == 0 &&
            at[key_len] == '=' && at[key_len + 1] == '"')
            return (unquote(at + key_len + 2, end, value) && buf_add(value, "", 1)) ||
                   err_set(err, ERR_PROTOCOL, 0,
                           "the value of the annotation %.80s is wrongly quoted, or too long", key);
        at = newline ? newline + 1 : all_end;
    }
    return true;
}
