/* SPDX-License-Identifier: Apache-2.0
 *
 * duration: a time in the configuration, as text, within the limits of its option. Owns nothing;
 * errors are the user's (ERR_USAGE).
 */
#ifndef PCHRUN_CONFIG_DURATION_H
#define PCHRUN_CONFIG_DURATION_H

#include "config/options.h"

/* *ret in nanoseconds; left alone on an error. */
MUST_CHECK bool duration_parse(const char *text, const struct option *option, int64_t *ret,
                               struct err *err);

#endif
