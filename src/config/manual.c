/* SPDX-License-Identifier: Apache-2.0
 * See sources.h: the options as the mdoc source of a part of pchrun.json(5).
 */
#include "config/config.h"
#include "config/noticelist.h"
#include "config/options.h"
#include "config/presets.h"
#include "config/sources.h"
#include "config/values.h"

#include <string.h>

#define LINE_WIDTH 78

/* Prints mdoc source: breaks long lines of text between words, but not macro lines. No word of ours
 * begins with a dot or an apostrophe, so no broken line becomes a macro. */
static void print_text(const char *text, FILE *out)
{
    bool is_macro = false;
    size_t column = 0;
    for (; *text; text++) {
        if (column == 0)
            is_macro = *text == '.';
        size_t word = *text == ' ' ? strcspn(text + 1, " \n") : 0;
        bool breaks = *text == '\n' || (word > 0 && !is_macro && column + 1 + word > LINE_WIDTH);
        fputc(breaks ? '\n' : *text, out);
        column = breaks ? 0 : column + 1;
    }
    fputc('\n', out);
}

static void print_range(const struct option *option, FILE *out)
{
    const char *wanted = value_type(option)->wanted;
    char min[32], max[32];
    value_number_text(option, option->min, min, sizeof min);
    value_number_text(option, option->max, max, sizeof max);
    if (option->type == OPTION_INT || option->type == OPTION_DURATION ||
        option->type == OPTION_SIZE)
        fprintf(out, "%s, %s to %s", wanted, min, max);
    else if (option->type == OPTION_EVERY)
        fprintf(out, "%s; 1 to %d, or %s to %s", wanted, CONFIG_EVERY_MAX, min, max);
    else if (option->type == OPTION_CHOICE)
        for (int i = 0; option->choices[i]; i++)
            fprintf(out, "%s%s",
                    i == 0                   ? ""
                    : option->choices[i + 1] ? ", "
                                             : " or ",
                    option->choices[i]);
    else
        fprintf(out, "%s", wanted);
    if (option->is_nullable)
        fprintf(out, ", or null");
}

/* Prints the values, the default ("Default: 42.") and the option's other names. */
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
    if (option->letter || option->also)
        fprintf(out, "Also\n");
    if (option->letter)
        fprintf(out, ".Fl %c %s\n", option->letter, option->also ? "," : ".");
    if (option->also)
        fprintf(out, ".Fl -%s\nand\n.Ev %s .\n", option->also,
                option_variable(option->also, variable));
    if (option->is_binding)
        fprintf(out, "Must be the same on all nodes.\n");
}

/* Prints "Sets grace to 25s and signals to USR1=preempt:55s." */
static void print_settings(const struct preset_row *preset, FILE *out)
{
    const struct preset_setting *at = preset->settings;
    if (preset->source != CONFIG_NOTICE_AUTO)
        fprintf(out, "In\n.Cm notices\nits\n.Li auto\nis\n.Li %s .\n",
                notice_kind_names[preset->source]);
    if (!at->key)
        return;
    fprintf(out, "Sets");
    for (; at->key; at++)
        fprintf(out, "\n.Cm %s\nto\n.Li %s %s", at->key, at->text,
                !at[1].key   ? "."
                : !at[2].key ? "\nand"
                             : ",");
    fprintf(out, "\n");
}

static void print_presets(FILE *out)
{
    print_text(presets_manual, out);
    fprintf(out, ".Bl -tag -width Ds\n");
    for (int i = 0; i < PRESET__COUNT; i++) {
        fprintf(out, ".It Li %s : No %s\n", preset_names[i], presets[i].title);
        print_text(presets[i].manual, out);
        print_settings(&presets[i], out);
    }
    fprintf(out, ".El\n");
}

static void print_discovery(FILE *out)
{
    print_text(discover_manual_head, out);
    fprintf(out, ".Bl -tag -width Ds\n");
    for (int from = 0; from < DISCOVER__COUNT; from++) {
        fprintf(out, ".It Li %s\n", discover_names[from]);
        print_text(discover_manual((enum discover_from)from), out);
    }
    fprintf(out, ".El\n");
}

void show_manual(FILE *out)
{
    for (size_t g = 0; g < option_groups_count; g++) {
        const struct option_group *group = &option_groups[g];
        fprintf(out, ".Ss %s\n", group->title);
        if (group->manual)
            print_text(group->manual, out);
        fprintf(out, ".Bl -tag -width Ds\n");
        for (size_t i = 0; i < options_count; i++) {
            if (option_group(&options[i]) != group)
                continue;
            fprintf(out, ".It Cm %s\n", options[i].key);
            print_text(options[i].manual, out);
            fprintf(out, ".br\n");
            print_facts(&options[i], out);
        }
        fprintf(out, ".El\n");
    }
    fprintf(out, ".Sh PRESETS\n");
    print_presets(out);
    fprintf(out, ".Sh DISCOVERY\n");
    print_discovery(out);
}
