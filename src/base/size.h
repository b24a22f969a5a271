/* SPDX-License-Identifier: Apache-2.0
 *
 * size: parses a user's number of bytes, within limits. Owns nothing; errors are the user's
 * (ERR_USAGE). Any thread.
 */
#ifndef PCHRUN_BASE_SIZE_H
#define PCHRUN_BASE_SIZE_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* A whole number and its unit: K, M, G or T, each 1024 times the one before; 0 needs none. *ret is
 * left alone on an error. */
MUST_CHECK bool size_parse(const char *text, int64_t min, int64_t max, int64_t *ret,
                           struct err *err);
/* "64M": the largest unit that leaves a whole number. Returns text. */
char *size_text(int64_t bytes, char *text, size_t size);

#endif
