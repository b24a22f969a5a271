/* SPDX-License-Identifier: Apache-2.0
 *
 * options: the command line of pchctl, from two tables: the commands, and the options. Any thread.
 */
#pragma once

#include "base/args.h"
#include "wire/control.h"

/* Not given: NULL, -1 or false; times get the command's default. */
struct ctl_options {
    enum control_verb verb;
    const char *job, *run_dir; /* which job is meant */
    int node;
    bool is_json, watches, follows, cancels;
    int64_t interval_ns, wait_ns;
    int64_t in_ns; /* of a notice: the time until its deadline */
    const char *text;
};

extern const struct args ctl_args;

/* argv ends with NULL. `out` gets what --help and --version print. */
MUST_CHECK enum args_end ctl_options_read(char **argv, FILE *out, struct ctl_options *ret,
                                          struct err *err);
