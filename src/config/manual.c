/* SPDX-License-Identifier: Apache-2.0
 * See show.h: the options as the mdoc source of a part of pchrun.json(5).
 */
#include "base/str.h"
#include "config/options.h"
#include "config/show.h"
#include "config/values.h"

#include <inttypes.h>

static void print_range(const struct option *option, FILE *out)
{
    char min[32], max[32];
    if (option->type == OPTION_INT)
        fprintf(out, "%s, %" PRId64 " to %" PRId64, value_wanted(option), option->min, option->max);
    else if (option->type == OPTION_DURATION)
        fprintf(out, "%s, %s to %s", value_wanted(option),
                str_duration(option->min, min, sizeof min),
                str_duration(option->max, max, sizeof max));
    else
        fprintf(out, "%s", value_wanted(option));
    if (option->is_nullable)
        fprintf(out, ", or null");
}

/* "Default: 42." and where else the option can be set. */
static void print_facts(const struct option *option, FILE *out)
{
    char variable[OPTION_NAME_MAX];
    fprintf(out, "Value: ");
    print_range(option, out);
    fprintf(out, ".\n");
    if (!option->fallback)
        fprintf(out, "Default: null.\n");
    else if (!option->fallback[0])
        fprintf(out, "Default: none.\n");
    else
        fprintf(out, "Default:\n.Li %s .\n", option->fallback);
    if (option->letter)
        fprintf(out, "Also\n.Fl %c .\n", option->letter);
    if (option->also)
        fprintf(out, "Also\n.Fl -%s\nand\n.Ev %s .\n", option->also,
                option_variable(option->also, variable));
    if (option->is_binding)
        fprintf(out, "Must be the same on all nodes.\n");
}

void show_manual(FILE *out)
{
    for (size_t g = 0; g < option_groups_count; g++) {
        const struct option_group *group = &option_groups[g];
        fprintf(out, ".Ss %s\n", group->title);
        if (group->manual)
            fprintf(out, "%s\n", group->manual);
        fprintf(out, ".Bl -tag -width Ds\n");
        for (size_t i = 0; i < options_count; i++) {
            if (!option_is_in(&options[i], group))
                continue;
            fprintf(out, ".It Cm %s\n%s\n.br\n", options[i].key, options[i].manual);
            print_facts(&options[i], out);
        }
        fprintf(out, ".El\n");
    }
}
