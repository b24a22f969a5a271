/* SPDX-License-Identifier: Apache-2.0
 *
 * options: the command line of pchrun-watch, from one table and that of the sources. Main thread.
 */
#ifndef PCHRUN_WATCH_OPTIONS_H
#define PCHRUN_WATCH_OPTIONS_H

#include "base/args.h"
#include "watch/watch.h"

extern const struct args watch_args;

/* argv ends with NULL. `out` gets what --help, --version and --list print. */
MUST_CHECK enum args_end watch_options_read(char **argv, FILE *out, struct watch_options *ret,
                                            struct err *err);

#endif
