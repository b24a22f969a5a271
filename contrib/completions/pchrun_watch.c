/* SPDX-License-Identifier: Apache-2.0
 * See completions.h: the command line of pchrun-watch.
 */
#include "completions.h"

#include "watch/options.h"
#include "watch/sources.h"

void program_describe(struct program *program)
{
    program->name = "pchrun-watch";
    for (const struct source *const *source = sources; *source; source++)
        program_add_word(program, (*source)->name, (*source)->help, (*source)->arguments);
    for (size_t i = 0; i < option_rows_count; i++) {
        const struct option_row *row = &option_rows[i];
        struct flag *flag = program_add_flag(program, row->name, row->letter, row->help);
        flag_takes(flag, row->metavar);
        if (row->words)
            flag->value = VALUE_WORD;
        for (const struct option_word *at = row->words; at && at->word; at++)
            list_add(flag->list, at->word);
        for (const struct source *const *source = sources; *source; source++)
            if (!source_takes(*source, row))
                list_add(flag->not_with, (*source)->name);
    }
}
