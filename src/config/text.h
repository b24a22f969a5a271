/* SPDX-License-Identifier: Apache-2.0
 *
 * text: checks every text of the configuration, and makes paths absolute. Owns nothing; errors are
 * ERR_USAGE. Main thread.
 */
#ifndef PCHRUN_CONFIG_TEXT_H
#define PCHRUN_CONFIG_TEXT_H

#include "base/err.h"

#include <stdint.h>

/* min to max bytes, and no control character. */
MUST_CHECK bool text_check(const char *text, int64_t min, int64_t max, struct err *err);
MUST_CHECK bool text_check_utf8(const char *text, struct err *err);
/* Makes a path absolute and drops a leading "./". `folder` is absolute; NULL: the current one. The
 * caller frees the result. NULL: see errno. */
char *text_absolute(const char *folder, const char *path);

#endif
