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

void list_add(char list[LIST_MAX], const char *word)
{
    check(word);
    if (!str_addf(list, LIST_MAX, "%s%s", list[0] ? " " : "", word))
        completions_fail("a list is too long", list);
}

struct flag *program_add_flag(struct program *program, const char *name, char letter,
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

void program_add_word(struct program *program, const char *name, const char *help, bool takes_file)
{
    if (program->nwords == WORDS_MAX)
        completions_fail("too many words", name);
    check(name);
    check(help);
    program->words[program->nwords++] =
        (struct word){.name = name, .help = help, .takes_file = takes_file};
}

void flag_takes(struct flag *flag, const char *metavar)
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

void write_joined(const char *list, const char *between, FILE *out)
{
    for (; *list; list++)
        if (*list == ' ')
            fputs(between, out);
        else
            fputc(*list, out);
}
