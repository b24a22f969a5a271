/* SPDX-License-Identifier: Apache-2.0
 *
 * options: the command line of pchrun-watch, from one table. Main thread.
 */
#ifndef PCHRUN_WATCH_OPTIONS_H
#define PCHRUN_WATCH_OPTIONS_H

#include "watch/watch.h"

#include <stddef.h>
#include <stdio.h>

enum options_result {
    OPTIONS_RUN,   /* *ret says what */
    OPTIONS_SHOWN, /* help, version or the list were asked for, and written to `out` */
    OPTIONS_BAD,   /* *err */
};
MUST_CHECK enum options_result options_read(char **argv, FILE *out, struct watch_options *ret,
                                            struct err *err);

/* The table. */
enum option_kind { KIND_TEXT, KIND_TIME, KIND_WORD, KIND_FLAG, KIND_SHOW };
struct option_word {
    const char *word;
    unsigned value;
};
struct option_row {
    const char *name;           /* without the dashes */
    char letter;                /* 0: none */
    const char *metavar, *help; /* metavar: NULL without a value */
    enum option_kind kind;
    size_t offset;                   /* in struct watch_options; KIND_SHOW: what to show */
    bool is_some;                    /* only for some sources, see source_takes() */
    const struct option_word *words; /* of a KIND_WORD, two, ends with NULL */
};
extern const struct option_row option_rows[];
extern const size_t option_rows_count;
/* False: the source does not take this option, which is an error. */
bool source_takes(const struct source *source, const struct option_row *row);

#endif
