/* SPDX-License-Identifier: Apache-2.0
 *
 * find: finds the supervisor for a command. It looks for private directories of this user (root: of
 * all users) in the usual places, and asks each supervisor for its job and node. Main thread.
 */
#pragma once

#include "ctl/options.h"

#define FIND_DIR_MAX 108 /* bytes of a Unix socket's path */

/* The directory of the supervisor that fits the options. False: none or several fit. *err names the
 * searched places, or the options to choose by; a table of those found is on standard error. */
MUST_CHECK bool find_dir(const struct ctl_options *options, char ret[FIND_DIR_MAX],
                         struct err *err);
