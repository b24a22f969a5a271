/* SPDX-License-Identifier: Apache-2.0
 * See str.h.
 */
#include "base/str.h"

#include "base/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool str_copy(char *dst, size_t size, const char *src)
{
    size_t len = src ? strlen(src) : 0;
    size_t n = len < size ? len : size - 1;
    if (src && n > 0)
        memcpy(dst, src, n);
    dst[n] = '\0';
    return n == len;
}

/* True for a continuation byte of a UTF-8 character. */
static bool is_inside(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

size_t str_fitting(const char *text, size_t max)
{
    size_t n = strnlen(text, max);
    while (n > 0 && is_inside(text[n]))
        n--;
    return n;
}

void str_fit(char *dst, size_t size, const char *src)
{
    static const char gap[] = "...";
    size_t len = strlen(src), head = (size - sizeof gap) / 2, tail = size - sizeof gap - head;
    if (str_copy(dst, size, src))
        return;
    head = str_fitting(src, head);
    while (tail > 0 && is_inside(src[len - tail]))
        tail--;
    memcpy(dst + head, gap, sizeof gap - 1);
    memcpy(dst + head + sizeof gap - 1, src + len - tail, tail + 1);
}

char *str_one_line(char *s)
{
    static const char blanks[] = " \t\r\n";
    char *to = s;
    for (const char *from = s + strspn(s, blanks); *from;) {
        size_t word = strcspn(from, blanks), gap = strspn(from + word, blanks);
        bool breaks = strcspn(from + word, "\r\n") < gap;
        size_t kept = !from[word + gap] ? 0 : breaks ? 1 : gap;
        memmove(to, from, word + kept);
        to += word;
        if (breaks && kept)
            *to = ' ';
        to += kept;
        from += word + gap;
    }
    *to = '\0';
    return s;
}

bool str_addf(char *dst, size_t size, const char *fmt, ...)
{
    size_t used = strnlen(dst, size - 1);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(dst + used, size - used, fmt, ap);
    va_end(ap);
    return n >= 0 && (size_t)n < size - used;
}

bool str_fill_in(char *dst, size_t size, const char *template, const struct str_part *parts)
{
    bool fits = true;
    while (*template && fits) {
        const struct str_part *part = parts;
        while (part->name && !str_starts(template, part->name))
            part++;
        size_t len = part->name ? strlen(part->name) : 1 + strcspn(template + 1, "{");
        fits = part->name ? str_addf(dst, size, "%s", part->value)
                          : str_addf(dst, size, "%.*s", (int)len, template);
        template += len;
    }
    return fits;
}

bool str_is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

bool str_is_one_of(const char *s, const char *const *list)
{
    while (*list && !str_is(s, *list))
        list++;
    return *list;
}

size_t str_count(char *const *list)
{
    size_t n = 0;
    while (list && list[n])
        n++;
    return n;
}

bool str_starts(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_is_url(const char *s)
{
    size_t scheme = strspn(s, STR_LETTERS STR_DIGITS "+.-");
    return scheme > 0 && str_starts(s + scheme, "://");
}

const char *str_variable(char *const *env, const char *name)
{
    for (size_t len = strlen(name); *env; env++)
        if (str_starts(*env, name) && (*env)[len] == '=')
            return *env + len + 1;
    return NULL;
}

bool str_is_of(const char *s, const char *set)
{
    return *s && !s[strspn(s, set)];
}

bool str_is_word(const char *s)
{
    return str_is_of(s, STR_LETTERS STR_DIGITS "-_=./:,+@");
}

bool str_add_word(char *dst, size_t size, const char *word)
{
    if (str_is_word(word))
        return str_addf(dst, size, "%s", word);
    bool ok = str_addf(dst, size, "'");
    for (size_t len; *word; word += len) {
        len = *word == '\'' ? 1 : strcspn(word, "'");
        ok = str_addf(dst, size, "%s%.*s", *word == '\'' ? "'\\'" : "", (int)len, word) && ok;
    }
    return str_addf(dst, size, "'") && ok;
}

bool str_is_control(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {0x00, 0x1f},       {0x7f, 0x9f},     {0xad, 0xad}, /* a soft hyphen */
        {0x61c, 0x61c},                                     /* bidirectional texts */
        {0x180e, 0x180e},   {0x200b, 0x200b}, {0x200e, 0x200f}, {0x2028, 0x202e},
        {0x2060, 0x206f},   {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, /* annotations */
        {0xe0000, 0xe007f},                                     /* tags */
    };
    for (size_t i = 0; i < ARRAY_LEN(ranges); i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    return false;
}

char *str_printable(char *s)
{
    char *to = s;
    for (const char *from = s; *from;) {
        unsigned valid = str_utf8_len(from), len = valid ? valid : 1;
        if (valid && str_is_control(str_utf8_code(from, len)))
            *to++ = '?';
        else
            for (unsigned i = 0; i < len; i++)
                *to++ = from[i];
        from += len;
    }
    *to = '\0';
    return s;
}

uint32_t str_utf8_code(const char *text, unsigned len)
{
    const unsigned char *s = (const unsigned char *)text;
    uint32_t code = len == 1 ? s[0] : s[0] & (0x7fU >> len);
    for (unsigned i = 1; i < len; i++)
        code = code << 6 | (s[i] & 0x3f);
    return code;
}

unsigned str_utf8_len(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80)
        return 1;
    unsigned len = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return 0;
    for (unsigned i = 1; i < len; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return len;
}

bool str_is_utf8(const char *text)
{
    unsigned len = 1;
    while (*text && (len = str_utf8_len(text)) > 0)
        text += len;
    return len > 0;
}

uint64_t str_hash(const char *text)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (; *text; text++)
        sum = (sum ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return sum;
}

int str_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool str_to_i64(const char *s, int64_t min, int64_t max, int64_t *ret)
{
    if (!((*s >= '0' && *s <= '9') || (*s == '-' && s[1] >= '0' && s[1] <= '9')))
        return false;
    char *end;
    errno = 0;
    long long v = strtoll(s, &end, 10);
    if (errno || *end || v < min || v > max)
        return false;
    *ret = v;
    return true;
}

static const struct unit {
    const char *name;
    int64_t ns;
} units[] = {
    {"d", 86400 * NS_PER_S},
    {"h", 3600 * NS_PER_S},
    {"m", 60 * NS_PER_S},
    {"s", NS_PER_S},
    {"ms", NS_PER_MS},
    {"us", 1000},
    {"ns", 1},
};

bool str_is_whole(const char *s)
{
    return str_is_of(s + (*s == '-'), STR_DIGITS);
}

bool str_to_duration(const char *s, int64_t *ret)
{
    char *unit;
    double number = strtod(s, &unit);
    /* strtod() also reads a sign, spaces, "inf", "1e3" and "0x1". */
    if (s[0] == '.' || unit == s || unit != s + strspn(s, STR_DIGITS "."))
        return false;
    if (*unit == '\0' && number == 0) {
        *ret = 0;
        return true;
    }
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        double ns = number * (double)units[i].ns;
        if (!str_is(unit, units[i].name))
            continue;
        *ret = ns < 9.0e18 ? (int64_t)(ns + 0.5) : INT64_MAX;
        return true;
    }
    return false;
}

char *str_duration(int64_t ns, char *text, size_t size)
{
    size_t i = 0;
    while (ns != 0 && i + 1 < ARRAY_LEN(units) && ns % units[i].ns != 0)
        i++;
    if (ns == 0)
        i = 3; /* "0s" */
    snprintf(text, size, "%" PRId64 "%s", ns / units[i].ns, units[i].name);
    return text;
}

char *str_about(int64_t ns, char *text, size_t size)
{
    static const struct {
        double seconds, from;
        const char *name;
    } about[] = {{86400, 2 * 86400, " days"}, {3600, 2 * 3600, " h"}, {60, 300, " min"}};
    double seconds = (double)ns / 1e9;
    for (size_t i = 0; i < ARRAY_LEN(about); i++)
        if (seconds >= about[i].from) {
            snprintf(text, size, "%.3g%s", seconds / about[i].seconds, about[i].name);
            return text;
        }
    snprintf(text, size, seconds < 0.0005 ? "0 s" : "%.3g s", seconds);
    return text;
}
