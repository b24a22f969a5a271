/* SPDX-License-Identifier: Apache-2.0
 * See syntax.h. One function for each rule of the grammar; the first that fails sets the error.
 */
#include "json/syntax.h"

#include "base/str.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct scan {
    const char *name, *data, *at, *end;
    unsigned depth;
    struct err *err;
};

void syntax_pass(char c, struct syntax_place *place)
{
    if (c == '\n')
        *place = (struct syntax_place){place->line + 1, 1};
    else
        place->column += ((unsigned char)c & 0xc0) != 0x80;
}

static struct syntax_place syntax_place_of(const struct scan *s, const char *at)
{
    struct syntax_place place = {1, 1};
    for (const char *p = s->data; p < at; p++)
        syntax_pass(*p, &place);
    return place;
}

PRINTF_LIKE(3, 4)
static bool fault_at(const struct scan *s, const char *at, const char *fmt, ...)
{
    struct syntax_place place = syntax_place_of(s, at);
    char text[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_set(s->err, ERR_USAGE, 0, "%.150s:%u:%u: %s", s->name, place.line, place.column,
                   text);
}

static bool syntax_is_at(const struct scan *s, const char *set)
{
    return s->at < s->end && *s->at && strchr(set, *s->at);
}

static void skip_space(struct scan *s)
{
    while (syntax_is_at(s, " \t\r\n"))
        s->at++;
}

static size_t word_len(const struct scan *s)
{
    size_t n = 0;
    while (s->at + n < s->end && (isalnum((unsigned char)s->at[n]) || strchr("+-._", s->at[n])))
        n++;
    return n;
}

/* Describes the text at this place, for people. */
static const char *found(const struct scan *s, char *text, size_t size)
{
    unsigned char c = s->at < s->end ? (unsigned char)*s->at : 0;
    size_t n = word_len(s);
    if (s->at == s->end)
        str_copy(text, size, "the end of the file");
    else if (c == '"')
        str_copy(text, size, "a string");
    else if (n > 0)
        snprintf(text, size, "'%.*s'", n < 24 ? (int)n : 24, s->at);
    else if (c > 0x20 && c < 0x7f)
        snprintf(text, size, "'%c'", c);
    else
        snprintf(text, size, "the byte 0x%02x", c);
    return text;
}

static bool wanted(const struct scan *s, const char *what)
{
    char text[40];
    if (syntax_is_at(s, "/#"))
        return fault_at(s, s->at, "comments are no JSON; %s is wanted", what);
    if (syntax_is_at(s, "'"))
        return fault_at(s, s->at, "%s is wanted; strings stand in \"double quotes\"", what);
    return fault_at(s, s->at, "%s is wanted, not %s", what, found(s, text, sizeof text));
}

/* --- strings --- */

/* The four digits behind "\u"; -1: they are none. */
static int hex4(const struct scan *s)
{
    int v = 0;
    for (int i = 2; i < 6; i++) {
        int digit = s->at + i < s->end ? str_hex_digit(s->at[i]) : -1;
        if (digit < 0)
            return -1;
        v = 16 * v + digit;
    }
    return v;
}

static bool scan_unicode(struct scan *s)
{
    int first = hex4(s);
    if (first < 0)
        return fault_at(s, s->at, "four hexadecimal digits are wanted behind \\u");
    if (first == 0)
        return fault_at(s, s->at, "\\u0000, a NUL, is not allowed in a string");
    bool is_high = first >= 0xd800 && first < 0xdc00;
    const char *start = s->at;
    s->at += 6;
    if (!is_high && (first < 0xdc00 || first > 0xdfff))
        return true;
    bool has_second = is_high && s->end - s->at >= 6 && s->at[0] == '\\' && s->at[1] == 'u';
    int second = has_second ? hex4(s) : -1;
    if (second < 0xdc00 || second > 0xdfff)
        return fault_at(s, start, "\\u%04x is half of a character; the other half is missing",
                        (unsigned)first);
    s->at += 6;
    return true;
}

static bool scan_escape(struct scan *s)
{
    char c = '\0';
    if (s->at + 1 < s->end)
        c = s->at[1];
    if (c == 'u')
        return scan_unicode(s);
    if (!c || !strchr("\"\\/bfnrt", c))
        return fault_at(s, s->at, "no such escape in a string; a backslash is written \\\\");
    s->at += 2;
    return true;
}

static bool scan_string(struct scan *s)
{
    const char *start = s->at++;
    while (s->at < s->end && *s->at != '"') {
        unsigned char c = (unsigned char)*s->at;
        unsigned n = str_utf8_len_within(s->at, (size_t)(s->end - s->at));
        if (c == '\n' || c == '\r')
            return fault_at(s, start, "the string that begins here is not closed in its line");
        if (c < 0x20)
            return fault_at(s, s->at, "a control character (0x%02x) in a string; write \\u%04x", c,
                            c);
        if (n == 0)
            return fault_at(s, s->at, "the byte 0x%02x is not UTF-8", c);
        if (c == '\\' && !scan_escape(s))
            return false;
        if (c != '\\')
            s->at += n;
    }
    if (s->at == s->end)
        return fault_at(s, start, "the string that begins here is not closed");
    s->at++;
    return true;
}

/* --- numbers and words --- */

static size_t digits(struct scan *s)
{
    const char *start = s->at;
    while (s->at < s->end && isdigit((unsigned char)*s->at))
        s->at++;
    return (size_t)(s->at - start);
}

static bool number_is_well_formed(struct scan *s)
{
    if (syntax_is_at(s, "-"))
        s->at++;
    bool is_zero = syntax_is_at(s, "0");
    size_t n = digits(s);
    if (n == 0 || (is_zero && n > 1))
        return false;
    if (syntax_is_at(s, ".")) {
        s->at++;
        if (digits(s) == 0)
            return false;
    }
    if (!syntax_is_at(s, "eE"))
        return true;
    s->at++;
    if (syntax_is_at(s, "+-"))
        s->at++;
    return digits(s) > 0;
}

static bool scan_number(struct scan *s)
{
    const char *start = s->at;
    size_t len = word_len(s);
    char text[64];
    snprintf(text, sizeof text, "%.*s", len < sizeof text ? (int)len : (int)sizeof text - 1, start);
    if (!number_is_well_formed(s) || s->at != start + len)
        return fault_at(s, start,
                        "'%.24s' is no number as JSON writes it: -12 or 0.5, without a leading + "
                        "or 0; with a unit it is a \"string\"",
                        text);
    errno = 0;
    if (len >= sizeof text)
        errno = ERANGE;
    else if (strpbrk(text, ".eE"))
        errno = strtod(text, NULL) > 1e308 || strtod(text, NULL) < -1e308 ? ERANGE : 0;
    else
        (void)!strtoll(text, NULL, 10);
    if (errno == ERANGE)
        return fault_at(s, start, "the number %.24s%s does not fit into 64 bits", text,
                        len > 24 ? "..." : "");
    return true;
}

static bool scan_word(struct scan *s)
{
    static const char *const words[] = {"true", "false", "null"};
    size_t len = word_len(s);
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (len == strlen(words[i]) && memcmp(s->at, words[i], len) == 0) {
            s->at += len;
            return true;
        }
    return fault_at(s, s->at,
                    "'%.*s' is no value: a string stands in \"double quotes\"; words are true, "
                    "false and null alone",
                    len < 24 ? (int)len : 24, s->at);
}

/* --- values --- */

static bool scan_value(struct scan *s);

static bool scan_member(struct scan *s)
{
    if (!syntax_is_at(s, "\""))
        return wanted(s, "a key in \"double quotes\"");
    if (!scan_string(s))
        return false;
    skip_space(s);
    if (!syntax_is_at(s, ":"))
        return wanted(s, "a colon behind the key");
    s->at++;
    skip_space(s);
    return scan_value(s);
}

/* Objects and lists differ only in the closing bracket and in their items. */
static bool scan_container(struct scan *s)
{
    bool is_object = *s->at == '{';
    const char *start = s->at++, *close = is_object ? "}" : "]";
    if (s->depth++ == SYNTAX_DEPTH_MAX)
        return fault_at(s, start, "more than %d lists and objects lie in each other",
                        SYNTAX_DEPTH_MAX);
    skip_space(s);
    bool is_first = true;
    while (is_first ? !syntax_is_at(s, close) : syntax_is_at(s, ",")) {
        const char *comma = s->at;
        s->at += !is_first;
        skip_space(s);
        if (!is_first && syntax_is_at(s, close))
            return fault_at(s, comma, "the comma before '%s' is one too many", close);
        if (s->at == s->end)
            break;
        if (!(is_object ? scan_member(s) : scan_value(s)))
            return false;
        skip_space(s);
        is_first = false;
    }
    if (s->at == s->end)
        return fault_at(s, s->at, "the file ends before the '%s' of the %s that begins in line %u",
                        close, is_object ? "object" : "list", syntax_place_of(s, start).line);
    if (!syntax_is_at(s, close))
        return wanted(s, is_object ? "a comma or '}' behind the value"
                                   : "a comma or ']' behind the value");
    s->at++;
    s->depth--;
    return true;
}

static bool scan_value(struct scan *s)
{
    if (syntax_is_at(s, "{["))
        return scan_container(s);
    if (syntax_is_at(s, "\""))
        return scan_string(s);
    if (syntax_is_at(s, "-+.0123456789"))
        return scan_number(s);
    return word_len(s) > 0 ? scan_word(s) : wanted(s, "a value");
}

/* --- the whole --- */

static bool check_bytes(const struct scan *s)
{
    size_t len = (size_t)(s->end - s->data);
    if (len >= 3 && memcmp(s->data, "\xef\xbb\xbf", 3) == 0)
        return fault_at(s, s->data, "it begins with a byte order mark; save it as plain UTF-8");
    const char *nul = len > 0 ? memchr(s->data, '\0', len) : NULL;
    return !nul || fault_at(s, nul, "a NUL byte; this is no text");
}

bool syntax_check(const char *name, const char *data, size_t len, struct err *err)
{
    struct scan s = {.name = name, .data = data, .at = data, .end = data + len, .err = err};
    if (!check_bytes(&s))
        return false;
    skip_space(&s);
    if (s.at == s.end)
        return fault_at(&s, data, "it is empty; an object is wanted, at least {}");
    if (!syntax_is_at(&s, "{["))
        return wanted(&s, "an object, {...},");
    if (!scan_value(&s))
        return false;
    skip_space(&s);
    return s.at == s.end || wanted(&s, "the end of the file");
}

bool syntax_twice(const char *name, const char *data, size_t end, struct err *err)
{
    struct scan s = {.name = name, .data = data, .end = data + end, .err = err};
    const char *start = s.end - 1; /* on the closing quote */
    do
        start--;
    while (start > data && (*start != '"' || start[-1] == '\\'));
    return fault_at(&s, start, "the key %.*s is there twice in one object", (int)(s.end - start),
                    start);
}
