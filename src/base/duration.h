/* SPDX-License-Identifier: Apache-2.0
 *
 * duration: parses a user's duration, within limits. Owns nothing; errors are the user's
 * (ERR_USAGE).
 */
#ifndef PCHRUN_BASE_DURATION_H
#define PCHRUN_BASE_DURATION_H

#include "base/err.h"

#include <stdint.h>

/* *ret in nanoseconds; left alone on an error. */
MUST_CHECK bool duration_parse(const char *text, int64_t min, int64_t max, int64_t *ret,
                               struct err *err);

#endif
