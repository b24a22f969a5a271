/* SPDX-License-Identifier: Apache-2.0
 *
 * codes: a list of exit codes as text, "2" or "64-78" each. Pure functions.
 */
#ifndef PCHRUN_BASE_CODES_H
#define PCHRUN_BASE_CODES_H

#include "base/err.h"

#include <stdbool.h>

enum { CODES_MAX = 256 };

/* Sets the codes that `list` (ends with NULL) names and keeps the others. ERR_USAGE: names a
 * malformed text. */
MUST_CHECK bool codes_read(char *const *list, bool codes[CODES_MAX], struct err *err);

#endif
