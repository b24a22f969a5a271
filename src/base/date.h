/* SPDX-License-Identifier: Apache-2.0
 *
 * date: a moment, as clouds write it: "2026-04-11T22:26:58.5+02:00" (RFC 3339), "Sat, 11 Apr 2026
 * 22:26:58 GMT" (RFC 1123) and "11 Apr 2026 22:26:58 GMT". A zone is required; a wrong weekday is
 * ignored. Pure; any thread.
 */
#pragma once

#include "base/err.h"

#include <stdint.h>

/* *ret in nanoseconds since 1970; an earlier date counts as 1970, one from 2262 on as INT64_MAX.
 * Surrounding space is ignored. False: malformed. */
MUST_CHECK bool date_parse(const char *text, int64_t *ret);
/* As date_parse(), but from a number of seconds since 1970. */
int64_t date_from_seconds(int64_t seconds);
