/* SPDX-License-Identifier: Apache-2.0
 *
 * options: the table of all options, and functions that find its rows.
 *
 * A row's key a.b_c is its place in the file; --a-b-c and PCHRUN_A_B_C follow from it. All is
 * static and constant. Any thread.
 */
#pragma once

#include "base/args.h"

#include <stddef.h>
#include <stdint.h>

#define OPTION_NAME_MAX 64 /* a key, flag or variable with its NUL */

/* The comment after each type: the C type of the field, and how it stores null. */
enum option_type {
    OPTION_BOOL,     /* bool */
    OPTION_SWITCH,   /* int: 0 false, 1 true, 2 auto */
    OPTION_INT,      /* int; null is -1 */
    OPTION_DURATION, /* int64_t, nanoseconds */
    OPTION_SIZE,     /* int64_t, bytes */
    OPTION_EVERY,    /* struct config_every; null is all 0 */
    OPTION_TEXT,     /* char *, owned; null is NULL */
    OPTION_PATH,     /* as OPTION_TEXT; made absolute */
    OPTION_TEMPLATE, /* as OPTION_PATH; may hold {state_dir} and {node_rank} */
    OPTION_CHOICE,   /* int, an index into `choices` */
    OPTION_CHOICES,  /* unsigned, a bit for each chosen index into `choices` */
    OPTION_SIGNAL,   /* int, a signal number */
    OPTION_LIST,     /* char **, owned, ends with NULL */
    OPTION_CODES,    /* as OPTION_LIST, of exit codes for value_codes() */
    OPTION_COMMAND,  /* as OPTION_LIST; null is NULL */
    OPTION_SIGNALS,  /* struct config_signal [CONFIG_SIGNALS] */
    OPTION_NOTICES,  /* struct config_notice [CONFIG_NOTICES_MAX], and size_t nnotices */
    OPTION_TYPE__COUNT
};

struct option {
    const char *key;
    enum option_type type;
    bool is_nullable;           /* null (in flags and environment the word null) unsets it */
    bool is_binding;            /* must be equal on all nodes */
    bool is_usual;              /* in the short --help, too */
    char letter;                /* short flag, 0: none */
    const char *also;           /* second name, as a flag: "node-rank"; NULL */
    size_t offset;              /* in struct config */
    const char *fallback;       /* the default as text; NULL: null */
    int64_t min, max;           /* of numbers and durations; the most bytes of a text */
    const char *const *choices; /* ends with NULL */
    const char *advice;         /* behind the error of a value that is no number; NULL */
    const char *metavar;        /* for --help; NULL: the metavar of the type */
    const char *help;           /* one short line, no full stop */
};

extern const struct option options[];
extern const size_t options_count;

/* The part of a key before its point; "" without a point. */
struct option_group {
    const char *name, *title;
};
extern const struct option_group option_groups[];
extern const size_t option_groups_count;
const struct option_group *option_group(const struct option *option);

/* The flags that are not options. */
enum special {
    SPECIAL_CONFIG,
    SPECIAL_VERBOSE,
    SPECIAL_QUIET,
    SPECIAL_PRINT_CONFIG,
    SPECIAL_PRINT_SCHEMA,
    SPECIAL_MAKE_KEY,
    SPECIAL_DRILL,
    SPECIAL_DOCTOR,
    SPECIAL_VERSION,
    SPECIAL_HELP,
    SPECIAL__COUNT
};
/* The command line: a row for each special flag, by its number, then a row for each option. */
extern const struct args flags_args;

/* "cluster.join_timeout" or "cluster-join-timeout" as "PCHRUN_CLUSTER_JOIN_TIMEOUT". Returns
 * text. */
char *option_variable(const char *key, char text[OPTION_NAME_MAX]);

/* NULL: unknown. Names must not be abbreviated. */
const struct option *option_by_key(const char *key);
