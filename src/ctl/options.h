/* SPDX-License-Identifier: Apache-2.0
 *
 * options: the command line of pchctl, from two tables: the commands, and the options with the
 * commands that take them. Any thread.
 */
#ifndef PCHRUN_CTL_OPTIONS_H
#define PCHRUN_CTL_OPTIONS_H

#include "wire/control.h"

#include <stdint.h>
#include <stdio.h>

/* What was not given: NULL, -1, false; the times are the command's own then. */
struct ctl_options {
    enum control_verb verb;
    const char *job, *run_dir; /* which job is meant */
    int node;
    bool is_json, watches, follows, cancels;
    int64_t interval_ns, wait_ns;
    int64_t in_ns; /* of a notice: until its end */
    const char *text;
};

enum options_result {
    OPTIONS_RUN,   /* *ret says what */
    OPTIONS_SHOWN, /* help or the version were asked for, and written to `out` */
    OPTIONS_BAD,   /* *err */
};
MUST_CHECK enum options_result options_read(char **argv, FILE *out, struct ctl_options *ret,
                                            struct err *err);

#endif
