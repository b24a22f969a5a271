/* SPDX-License-Identifier: Apache-2.0
 *
 * completions: what a shell must know about a program to complete its command line.
 *
 * Each program has a generator, which runs at build time. It fills this struct in from the
 * program's own struct args, which meson.build names as ARGS. Then it copies a shell's template
 * (*.in), and fills in the parts that depend on the program. It frees nothing, and ends at the
 * first fault.
 */
#pragma once

#include "base/args.h"

enum { FLAGS_MAX = 256, WORDS_MAX = 64, NAME_MAX_BYTES = 72, HELP_MAX = 256, LIST_MAX = 1024 };

/* How a value is completed. */
enum value {
    VALUE_NONE,    /* the flag takes none */
    VALUE_TEXT,    /* not at all: a number, a time, a name */
    VALUE_FILE,    /* of any kind */
    VALUE_FOLDER,  /* a directory */
    VALUE_PROGRAM, /* a command, or a file */
    VALUE_WORD,    /* one of `list` */
    VALUE_LIST,    /* some of `list`, with commas between them */
};

/* The texts of the tables hold no character that a shell treats specially within single quotes or
 * braces, except the apostrophe. main.c checks this. */
struct flag {
    char name[NAME_MAX_BYTES],
        also[NAME_MAX_BYTES]; /* without the dashes; "": there is no second */
    char letter;              /* 0: none */
    bool is_repeated;         /* it may be given more than once */
    enum value value;
    const char *metavar;
    char list[LIST_MAX];     /* words with a blank between them */
    char not_with[LIST_MAX]; /* the same: program.words that do not take this flag; "": all do */
    char help[HELP_MAX];
};

/* The first argument that is no flag. */
struct word {
    const char *name, *help;
    bool takes_file; /* as the second argument */
};

struct program {
    const char *name;
    bool is_prefix; /* the arguments are another command; there are no words */
    struct flag flags[FLAGS_MAX];
    size_t nflags;
    struct word words[WORDS_MAX];
    size_t nwords;
};

/* Says so on standard error and ends the generator. */
_Noreturn void completions_fail(const char *what, const char *text);

/* Fills *ret in, which is all 0, from the description of a program's command line. */
void program_describe(const struct args *args, struct program *ret);

/* The writer of the part @name@ in the template of one shell. The list ends with a name that is
 * NULL. All shells have @program@, and @function@: the program's name, as shells allow it in names.
 */
struct part {
    const char *name;
    void (*write)(const struct program *program, FILE *out);
};
extern const struct part bash_parts[], zsh_parts[], fish_parts[];

/* A list with something else between its words. */
void write_joined(const char *list, const char *between, FILE *out);
