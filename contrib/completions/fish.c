/* SPDX-License-Identifier: Apache-2.0
 * See completions.h: writes the parts of fish.in and fish-command.in.
 */
#include "completions.h"

static void write_text(const char *text, FILE *out)
{
    fputc('\'', out);
    for (; *text; text++)
        fprintf(out, "%s%c", *text == '\'' ? "\\" : "", *text);
    fputc('\'', out);
}

/* When it is offered. */
static void write_condition(const struct program *program, const struct flag *flag, FILE *out)
{
    if (program->is_prefix)
        fprintf(out, " -n 'not __%s_command'", program->name);
    else if (flag->not_with[0])
        fprintf(out, " -n 'not __fish_seen_subcommand_from %s'", flag->not_with);
}

static void write_value(const struct flag *flag, FILE *out)
{
    switch (flag->value) {
    case VALUE_NONE:
        break;
    case VALUE_TEXT:
        fprintf(out, " -x");
        break;
    case VALUE_FILE:
        fprintf(out, " -r -F");
        break;
    case VALUE_FOLDER:
        fprintf(out, " -x -a '(__fish_complete_directories)'");
        break;
    case VALUE_PROGRAM:
        fprintf(out, " -r -F -a '(__fish_complete_command)'");
        break;
    case VALUE_WORD:
        fprintf(out, " -x -a '%s'", flag->list);
        break;
    case VALUE_LIST:
        fprintf(out, " -x -a '(__fish_append , %s)'", flag->list);
        break;
    }
}

static void write_flags(const struct program *program, FILE *out)
{
    for (size_t i = 0; i < program->nflags; i++) {
        const struct flag *flag = &program->flags[i];
        fprintf(out, "complete -c %s", program->name);
        write_condition(program, flag, out);
        fprintf(out, " -l %s", flag->name);
        if (flag->also[0])
            fprintf(out, " -l %s", flag->also);
        if (flag->letter)
            fprintf(out, " -s %c", flag->letter);
        write_value(flag, out);
        fprintf(out, " -d ");
        write_text(flag->help, out);
        fputc('\n', out);
    }
}

static void write_words(const struct program *program, FILE *out)
{
    fprintf(out, "set -l known");
    for (size_t i = 0; i < program->nwords; i++)
        fprintf(out, " %s", program->words[i].name);
    fprintf(out, "\n");
    for (size_t i = 0; i < program->nwords; i++) {
        const struct word *word = &program->words[i];
        fprintf(out, "complete -c %s -n \"not __fish_seen_subcommand_from $known\" -a %s -d ",
                program->name, word->name);
        write_text(word->help, out);
        fprintf(out, "\n");
        if (word->takes_file)
            fprintf(out, "complete -c %s -n '__fish_seen_subcommand_from %s' -F\n", program->name,
                    word->name);
    }
}

/* For a program whose arguments end with another command: the flags that take a value. */
static void write_takers(const struct program *program, FILE *out)
{
    for (size_t i = 0; i < program->nflags; i++) {
        const struct flag *flag = &program->flags[i];
        if (flag->value == VALUE_NONE)
            continue;
        fprintf(out, " --%s", flag->name);
        if (flag->also[0])
            fprintf(out, " --%s", flag->also);
        if (flag->letter)
            fprintf(out, " -%c", flag->letter);
    }
}
const struct part fish_parts[] = {
    {"flags", write_flags}, {"words", write_words}, {"takers", write_takers}, {NULL, NULL}};
