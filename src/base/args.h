/* SPDX-License-Identifier: Apache-2.0
 *
 * args: the command line of pchrun and of the programs beside it: reads it and prints --help, both
 * from one description of the program, from which contrib/completions is made, too.
 *
 * It reads --name VALUE, --name=VALUE, -n VALUE, -nVALUE and -vn VALUE, with "--" before the first
 * word that may begin with a dash. Names must be complete. getopt_long(3) and argp accept
 * abbreviations, but in a later release an abbreviation could mean another option. Owns nothing:
 * results point into argv. Errors are ERR_USAGE. Any thread.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define ARGS_NAME_MAX 64 /* an option's name with its NUL */

/* The comment after each type says what it writes at `offset`. */
enum args_type {
    ARGS_HELP,    /* nothing: prints --help; the rest of argv is not read, but for a choice */
    ARGS_VERSION, /* nothing: prints the version; else as ARGS_HELP */
    ARGS_LIST,    /* nothing: prints the words; else as ARGS_HELP */
    ARGS_FLAG,    /* bool: true */
    ARGS_TEXT,    /* const char *; not empty, and of at most max bytes; max 0: any */
    ARGS_NUMBER,  /* int, from min to max */
    ARGS_TIME,    /* int64_t: nanoseconds, from min to max */
    ARGS_CHOICE,  /* int: an index into `choices` */
    ARGS_TAKE,    /* nothing: calls `take` of struct args */
    ARGS_YES_NO,  /* as ARGS_TAKE, for --name, --no-name and --name=VALUE */
};

struct args_row {
    const char *name; /* without the dashes; '.' and '_' stand for '-'; NULL: no more rows */
    char letter;      /* 0: none */
    const char *metavar, *help;
    enum args_type type;
    size_t offset; /* in the program's struct of options */
    bool is_some;  /* only words whose `options` name this option take it */
    int64_t min, max;
    const char *const *choices; /* ends with NULL */
    const char *also;           /* a second name */
    const char *fallback;       /* the default, for --help */
    bool is_last;               /* the arguments after this option are not read */
    bool is_repeated;           /* it may be given several times */
    bool is_list;               /* its value is a list of `choices` */
    bool is_usual;              /* it is in the short --help, too */
};

/* The first argument that is no option: a command of pchctl, or a source of pchrun-watch. */
struct args_word {
    const char *name; /* NULL: there are no more words */
    const char *help;
    const char *path;    /* the metavar of a second argument: "PATH", "[PATH]"; NULL: none */
    const char *options; /* the options with is_some that it takes: " name timeout " */
};

struct args {
    const char *program, *version;
    const char *head, *tail; /* of --help */
    /* The last line of a short --help. A short --help shows only the rows with is_usual; "--help
     * all" shows all rows. NULL: --help shows all rows. */
    const char *brief;
    int left, right;                  /* columns of --help; right 0: no line breaks */
    struct args_row (*row)(size_t i); /* at most 64, if there are words */
    /* The heading above a row in --help; NULL: none. Without the function it is "Options". */
    const char *(*title)(size_t row);
    /* NULL: there are no words, and the first argument that is no option begins another command.
     * Then the value of an option cannot begin with a dash, unless = is before it. */
    struct args_word (*word)(size_t i);
    const char *word_kind; /* "command" */
    /* The advice for a flag of another program, whose name has '-' for '_'. NULL: the name is
     * unknown. The function may be NULL. */
    const char *(*foreign)(const char *name);
    bool is_alone;        /* there are no words, and no argument but options */
    const char *too_many; /* advice on an argument too many; NULL: there is none */
    /* Called for ARGS_TAKE and ARGS_YES_NO: the row's number, the option as typed ("-n") and its
     * value; NULL: the row takes no value. */
    bool (*take)(void *options, size_t row, const char *typed, const char *value, struct err *err);
};

enum args_end {
    ARGS_RUN,   /* go on */
    ARGS_SHOWN, /* --help or its like is printed: exit with 0 */
    ARGS_BAD,   /* *err */
};

struct args_reading {
    void *options; /* the program's struct of options, with its defaults */
    FILE *out;     /* gets what --help and its like print */
    /* Filled in for ARGS_RUN: */
    size_t word;      /* the word's number */
    const char *path; /* the second argument; NULL: not given */
    char **command;   /* without words: the arguments from the first non-option on */
};

/* argv ends with NULL. */
MUST_CHECK enum args_end args_read(const struct args *args, char **argv,
                                   struct args_reading *reading, struct err *err);
/* Flushes the standard output, or in tests another one. False: not all could be written. */
MUST_CHECK bool args_flush(FILE *out, struct err *err);

/* "cluster.join_timeout" as "cluster-join-timeout". Returns text. */
char *args_name(const char *name, char text[ARGS_NAME_MAX]);
/* True if the word takes the option. */
bool args_takes(const struct args_word *word, const struct args_row *row);
