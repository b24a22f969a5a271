/* SPDX-License-Identifier: Apache-2.0
 *
 * options: the command line of pchctl, from two tables: the commands, and the options with the
 * commands that take them. Any thread.
 */
#ifndef PCHRUN_CTL_OPTIONS_H
#define PCHRUN_CTL_OPTIONS_H

#include "wire/control.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Not given: NULL, -1 or false; times get the command's default. */
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

/* The two tables. A verb without help is no command of its own. */
struct option_command {
    const char *help;
    int64_t wait_ns; /* how long it waits unless --wait says so */
};
extern const struct option_command option_commands[CONTROL__COUNT];

#define OPTION_FOR(verb) (1U << (verb))
enum option_kind { KIND_FLAG, KIND_TEXT, KIND_NODE, KIND_TIME, KIND_SHOW };
struct option_row {
    const char *name;           /* without the dashes */
    char letter;                /* 0: none */
    const char *metavar, *help; /* metavar: NULL without a value */
    enum option_kind kind;
    size_t offset;     /* in struct ctl_options; KIND_SHOW: what to show */
    unsigned commands; /* those that take it, OPTION_FOR() each */
};
extern const struct option_row option_rows[];
extern const size_t option_rows_count;

#endif
