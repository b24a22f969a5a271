/* SPDX-License-Identifier: Apache-2.0
 * See completions.h: pchrun's command line, from the option table.
 */
#include "completions.h"

#include "base/str.h"
#include "config/noticelist.h"
#include "config/options.h"
#include "config/signames.h"
#include "config/values.h"

#include <string.h>

static void take_words(struct flag *flag, enum value value, const char *const *words)
{
    flag->value = value;
    for (; *words; words++)
        list_add(flag->list, *words);
}

static void add_special(struct program *program, enum special number)
{
    const struct option_special *special = &option_specials[number];
    struct flag *flag = program_add_flag(program, special->name, special->letter, special->help);
    flag_takes(flag, special->metavar);
    flag->is_repeated = number == SPECIAL_VERBOSE || number == SPECIAL_QUIET;
    if (special->words)
        take_words(flag, VALUE_WORD, special->words);
}

static void take_value(struct flag *flag, const struct option *option)
{
    flag_takes(flag, value_metavar(option));
    switch (option->type) {
    case OPTION_CHOICE:
        take_words(flag, VALUE_WORD, option->choices);
        break;
    case OPTION_SIGNAL:
        flag->value = VALUE_WORD;
        for (unsigned i = 0; signame_at(i); i++)
            list_add(flag->list, signame_at(i));
        break;
    case OPTION_NOTICES:
        take_words(flag, VALUE_LIST, notice_kind_names);
        list_add(flag->list, "none");
        flag->is_repeated = true;
        break;
    case OPTION_LIST:
    case OPTION_SIGNALS:
        flag->is_repeated = true;
        break;
    default:
        break;
    }
}

static void add_option(struct program *program, const struct option *option)
{
    char name[OPTION_NAME_MAX], opposite[OPTION_NAME_MAX + 4] = "no-";
    struct flag *flag =
        program_add_flag(program, option_flag(option->key, name), option->letter, option->help);
    if (option->also)
        str_copy(flag->also, sizeof flag->also, option->also);
    if (option->type != OPTION_BOOL) {
        take_value(flag, option);
        return;
    }
    str_addf(opposite, sizeof opposite, "%s", name);
    flag = program_add_flag(program, opposite, 0, "not: ");
    str_addf(flag->help, sizeof flag->help, "%s", option->help);
}

void program_describe(struct program *program)
{
    program->name = "pchrun";
    program->is_prefix = true;
    for (int i = 0; i < SPECIAL__COUNT; i++)
        add_special(program, (enum special)i);
    for (size_t i = 0; i < options_count; i++)
        add_option(program, &options[i]);
}
