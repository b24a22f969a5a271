/* SPDX-License-Identifier: Apache-2.0
 *
 * str: bounded strings, and numbers as people write them. Owns nothing. Any thread.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* A number of 64 bits, for %llu. */
static inline unsigned long long ull(uint64_t number)
{
    return number;
}

/* Copies as much as fits, and a NUL. Returns false if it was cut. `src` may be NULL (empty). */
bool str_copy(char *dst, size_t size, const char *src);
/* Copies a text for people. If it is too long, "..." replaces the middle, because the end often has
 * the reason. Splits no UTF-8 character. size >= 8. */
void str_fit(char *dst, size_t size, const char *src);
/* Appends; returns false if it was cut. */
bool str_addf(char *dst, size_t size, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* A person may type it into a shell as a word, without quotes. */
bool str_is_word(const char *s);
/* Appends a word of a command that a person may type into a shell: in quotes if it needs them.
 * Returns false if it was cut. */
bool str_add_word(char *dst, size_t size, const char *word);
/* How many of the first `max` bytes of a text to keep, so that no UTF-8 character is split. */
size_t str_fitting(const char *text, size_t max);
/* A part of a template, such as "{rank}", and what replaces it. */
struct str_part {
    const char *name, *value;
};
/* Appends `template`, in which it replaces all `parts` (ended by a NULL); returns false if it was
 * cut. */
bool str_fill_in(char *dst, size_t size, const char *template, const struct str_part *parts);
/* True if `s` is not empty and has only characters of `set`. */
bool str_is_of(const char *s, const char *set);
#define STR_DIGITS  "0123456789"
#define STR_LOWER   "abcdefghijklmnopqrstuvwxyz"
#define STR_UPPER   "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define STR_LETTERS STR_LOWER STR_UPPER
/* Joins lines: one blank replaces each newline and the blanks around it; trims both ends. Returns
 * s. */
char *str_one_line(char *s);
bool str_is(const char *a, const char *b);
/* `list` ends with NULL. */
bool str_is_one_of(const char *s, const char *const *list);
/* The number of texts in a list that ends with NULL. `list` may be NULL. */
size_t str_count(char *const *list);
bool str_starts(const char *s, const char *prefix);
/* True if it begins with a scheme, as in "gs://bucket/run7". */
bool str_is_url(const char *s);
/* The value of a variable in a list of NAME=VALUE that ends with NULL; NULL: not set. */
const char *str_variable(char *const *env, const char *name);
/* True for a control character (what a terminal would obey), and for a character that is not seen
 * itself, but changes the order of the text beside it or hides a text. Those that join letters, as
 * in Persian, are left. */
bool str_is_control(uint32_t code);
/* Replaces each such character by '?', in place; the text may become shorter. Bytes that are not
 * UTF-8 stay. Returns s. */
char *str_printable(char *s);
/* The length of the UTF-8 sequence at `text`; 0: invalid (too short, overlong, a surrogate, or
 * beyond U+10FFFF). Never reads past a NUL. */
unsigned str_utf8_len(const char *text);
/* The code point of the sequence of this length. */
uint32_t str_utf8_code(const char *text, unsigned len);
bool str_is_utf8(const char *text);
/* FNV-1a: the same for the same text, on every machine and in every release. */
uint64_t str_hash(const char *text);
/* The value of a hexadecimal digit; -1: not a digit. */
int str_hex_digit(char c);

/* A whole decimal number within [min, max], and nothing else. */
MUST_CHECK bool str_to_i64(const char *s, int64_t min, int64_t max, int64_t *ret);
/* A duration: a number and a unit (ns, us, ms, s, m, h, d), as "25s", "1.5h" or "250ms"; 0 needs no
 * unit. *ret in nanoseconds; a larger value becomes INT64_MAX. */
MUST_CHECK bool str_to_duration(const char *s, int64_t *ret);
/* True if the text looks like a whole number, of any size. */
bool str_is_whole(const char *s);
/* "250ms", "25s", "10m": the largest unit that leaves a whole number. */
char *str_duration(int64_t ns, char *text, size_t size);

/* "25 s", "3.5 s", "40 min", "2.5 h", "7 days": for people. */
char *str_about(int64_t ns, char *text, size_t size);
