/* SPDX-License-Identifier: Apache-2.0
 *
 * options: the command line of pchrun-watch, from one table. Main thread.
 */
#ifndef PCHRUN_WATCH_OPTIONS_H
#define PCHRUN_WATCH_OPTIONS_H

#include "watch/watch.h"

#include <stdio.h>

enum options_result {
    OPTIONS_RUN,   /* *ret says what */
    OPTIONS_SHOWN, /* help, version or the list were asked for, and written to `out` */
    OPTIONS_BAD,   /* *err */
};
MUST_CHECK enum options_result options_read(char **argv, FILE *out, struct watch_options *ret,
                                            struct err *err);

#endif
