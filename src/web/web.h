/* SPDX-License-Identifier: Apache-2.0
 *
 * web: the command line of pchrun-web, and the whole program.
 */
#pragma once

#include "base/args.h"

extern const struct args web_args;

/* argv ends with NULL. Returns the exit code. */
int web_main(char **argv);
