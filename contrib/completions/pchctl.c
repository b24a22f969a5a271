/* SPDX-License-Identifier: Apache-2.0
 * See completions.h: pchctl's command line.
 */
#include "completions.h"

#include "ctl/options.h"

void program_describe(struct program *program)
{
    program->name = "pchctl";
    for (unsigned i = 0; i < CONTROL__COUNT; i++)
        if (option_commands[i].help)
            program_add_word(program, control_name((enum control_verb)i), option_commands[i].help,
                             false);
    for (size_t i = 0; i < option_rows_count; i++) {
        const struct option_row *row = &option_rows[i];
        struct flag *flag = program_add_flag(program, row->name, row->letter, row->help);
        flag_takes(flag, row->metavar);
        for (unsigned verb = 0; verb < CONTROL__COUNT; verb++)
            if (option_commands[verb].help && !(row->commands & OPTION_FOR(verb)))
                list_add(flag->not_with, control_name((enum control_verb)verb));
    }
}
