/* SPDX-License-Identifier: Apache-2.0
 *
 * codes: a list of exit codes as text, "2" or "64-78" each. Pure functions.
 */
#ifndef PCHRUN_CONFIG_CODES_H
#define PCHRUN_CONFIG_CODES_H

#include "base/err.h"

#include <stdbool.h>

enum { CODES_MAX = 256 };

/* ERR_USAGE: it is none. */
MUST_CHECK bool codes_check(const char *text, struct err *err);
/* Sets those that `list` (ends with NULL) names; the others stay as they are. ERR_USAGE: one of its
 * texts is none, and is named. */
MUST_CHECK bool codes_read(char *const *list, bool codes[CODES_MAX], struct err *err);

#endif
