/* SPDX-License-Identifier: Apache-2.0
 *
 * value: values as users write them, within limits: numbers, choices, durations, sizes, exit codes;
 * and the known name that a mistyped one most probably means. Owns nothing. Errors are the user's
 * (ERR_USAGE), and leave *ret alone. Any thread.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* A whole number. */
MUST_CHECK bool value_number(const char *text, int64_t min, int64_t max, int *ret, struct err *err);
/* One of `choices`, which ends with NULL; *ret: its index. */
MUST_CHECK bool value_choice(const char *text, const char *const *choices, int *ret,
                             struct err *err);
/* A duration as str_to_duration() reads it; min, max and *ret in nanoseconds. */
MUST_CHECK bool value_duration(const char *text, int64_t min, int64_t max, int64_t *ret,
                               struct err *err);
/* A number of bytes and its unit: K, M, G or T, each 1024 times the one before; 0 needs no unit. */
MUST_CHECK bool value_size(const char *text, int64_t min, int64_t max, int64_t *ret,
                           struct err *err);
/* "64M": the largest unit that leaves a whole number. Returns text. */
char *value_size_text(int64_t bytes, char *text, size_t size);

enum { VALUE_CODES_MAX = 256 };
/* Sets codes[n] for each exit code n in `list` ("2", "64-78"; ends with NULL); keeps the others. */
MUST_CHECK bool value_codes(char *const *list, bool codes[VALUE_CODES_MAX], struct err *err);

/* A search. `name` is the nearest name so far; "": none is near enough to be suggested. */
struct nearest {
    const char *typed;
    unsigned distance;
    char name[72];
};

struct nearest nearest_to(const char *typed);
/* Compares one known name. `prefix` is put before it in the result, and is not compared. */
void nearest_consider(struct nearest *nearest, const char *prefix, const char *name);
/* How many letters must change to turn a into b. Only the first 64 letters are compared. */
unsigned nearest_distance(const char *a, const char *b);
