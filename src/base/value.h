/* SPDX-License-Identifier: Apache-2.0
 *
 * value: values as users write them, within limits: numbers, choices, durations, sizes, exit codes.
 * Owns nothing. Errors are the user's (ERR_USAGE), and leave *ret alone. Any thread.
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
/* A number of bytes and its unit: K, M, G or T, each 1024 times the one before; 0 needs none. */
MUST_CHECK bool value_size(const char *text, int64_t min, int64_t max, int64_t *ret,
                           struct err *err);
/* "64M": the largest unit that leaves a whole number. Returns text. */
char *value_size_text(int64_t bytes, char *text, size_t size);

enum { VALUE_CODES_MAX = 256 };
/* Sets codes[n] for each exit code n in `list` ("2", "64-78"; ends with NULL); keeps the others. */
MUST_CHECK bool value_codes(char *const *list, bool codes[VALUE_CODES_MAX], struct err *err);
