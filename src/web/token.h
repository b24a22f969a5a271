/* SPDX-License-Identifier: Apache-2.0
 *
 * token: reads the file of --token-file: one line of letters, digits and "-._~". Only its owner,
 * who is this user or root, may read or write the file. Owns nothing. Main thread.
 */
#pragma once

#include "web/guard.h"

/* The error names the command that makes or repairs the file. */
MUST_CHECK bool token_read(const char *path, char ret[GUARD_TOKEN_MAX + 1], struct err *err);
