/* SPDX-License-Identifier: Apache-2.0
 * See completions.h.
 */
#include "completions.h"

#include "base/str.h"

#include <stdlib.h>
#include <string.h>

void completions_fail(const char *what, const char *text)
{
    fprintf(stderr, "completions: %s: %s\n", what, text);
    exit(1);
}

static void check(const char *text)
{
    for (const char *p = text; *p; p++)
        if (*p < ' ' || *p > '~' || strchr("\"$`\\", *p))
            completions_fail("a character that is special in shells", text);
}

static void list_add(char list[LIST_MAX], const char *word)
{
    check(word);
    if (!str_addf(list, LIST_MAX, "%s%s", list[0] ? " " : "", word))
        completions_fail("a list is too long", list);
}

static struct flag *program_add_flag(struct program *program, const char *name, char letter,
                                     const char *help)
{
    if (program->nflags == FLAGS_MAX)
        completions_fail("too many flags", name);
    struct flag *flag = &program->flags[program->nflags++];
    check(name);
    check(help);
    flag->letter = letter;
    if (!str_copy(flag->name, sizeof flag->name, name) ||
        !str_copy(flag->help, sizeof flag->help, help))
        completions_fail("a text is too long", help);
    return flag;
}

static void program_add_word(struct program *program, const char *name, const char *help,
                             bool takes_file)
{
    if (program->nwords == WORDS_MAX)
        completions_fail("too many words", name);
    check(name);
    check(help);
    program->words[program->nwords++] =
        (struct word){.name = name, .help = help, .takes_file = takes_file};
}

static void flag_takes(struct flag *flag, const char *metavar)
{
    static const struct {
        const char *metavar;
        enum value value;
    } known[] = {
        {"FILE", VALUE_FILE},
        {"PATH", VALUE_FILE},
        {"DIR", VALUE_FOLDER},
        {"PROGRAM", VALUE_PROGRAM},
    };
    flag->metavar = metavar;
    flag->value = metavar ? VALUE_TEXT : VALUE_NONE;
    for (size_t i = 0; metavar && i < ARRAY_LEN(known); i++)
        if (str_is(metavar, known[i].metavar))
            flag->value = known[i].value;
    if (metavar)
        check(metavar);
}

/* How the value is completed. */
static void take_value(struct flag *flag, const struct args_row *row)
{
    flag_takes(flag, row->metavar);
    if (row->choices)
        flag->value = row->is_list ? VALUE_LIST : VALUE_WORD;
    for (const char *const *word = row->choices; word && *word; word++)
        list_add(flag->list, *word);
}

static void add_row(const struct args *args, struct program *program, const struct args_row *row)
{
    char name[ARGS_NAME_MAX], opposite[ARGS_NAME_MAX + 4] = "no-";
    struct flag *flag =
        program_add_flag(program, args_name(row->name, name), row->letter, row->help);
    struct args_word word;
    str_copy(flag->also, sizeof flag->also, row->also);
    flag->is_repeated = row->is_repeated;
    take_value(flag, row);
    for (size_t i = 0; args->word && (word = args->word(i)).name; i++)
        if (!args_takes(&word, row))
            list_add(flag->not_with, word.name);
    if (row->type != ARGS_YES_NO)
        return;
    str_addf(opposite, sizeof opposite, "%s", name);
    flag = program_add_flag(program, opposite, 0, "not: ");
    str_addf(flag->help, sizeof flag->help, "%s", row->help);
}

void program_describe(const struct args *args, struct program *ret)
{
    struct args_row row;
    struct args_word word;
    ret->name = args->program;
    ret->is_prefix = !args->word && !args->is_alone;
    for (size_t i = 0; args->word && (word = args->word(i)).name; i++)
        program_add_word(ret, word.name, word.help, word.path);
    for (size_t i = 0; (row = args->row(i)).name; i++)
        add_row(args, ret, &row);
}

void write_joined(const char *list, const char *between, FILE *out)
{
    for (; *list; list++)
        if (*list == ' ')
            fputs(between, out);
        else
            fputc(*list, out);
}
