/* SPDX-License-Identifier: Apache-2.0
 *
 * signames: the signals that a user may name, as "USR1" or "SIGUSR1", and why others are refused.
 * Pure; any thread.
 */
#pragma once

#include "base/err.h"

/* False: the signal is unknown, or pchrun cannot handle it. */
MUST_CHECK bool signame_parse(const char *name, int *ret, struct err *err);
/* "USR1"; the number must come from signame_parse(). */
const char *signame(int number);
/* Every allowed name, by index; NULL after the last. */
const char *signame_at(unsigned index);
