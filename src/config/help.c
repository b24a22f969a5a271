/* SPDX-License-Identifier: Apache-2.0
 * See show.h.
 */
#include "base/str.h"
#include "config/options.h"
#include "config/show.h"
#include "config/values.h"

#include <string.h>

#define LEFT_WIDTH  38 /* flags */
#define RIGHT_WIDTH 60 /* what they do */

static const char head[] =
    "Usage: pchrun [options] [--] command [argument ...]\n"
    "\n"
    "Run a training command so that it survives preemption: when notice comes, every process of\n"
    "the job saves the same step, and pchrun exits with 42, for the scheduler to start it again.\n"
    "\n"
    "Examples:\n"
    "  pchrun -- python train.py\n"
    "  pchrun -n 8 --grace 110s --checkpoint-dir /scratch/run7 -- python train.py\n"
    "  pchrun -c run7.json --node-rank 1 -- python train.py\n";

static const char tail[] =
    "\n"
    "Every option --a-b-c is also the variable PCHRUN_A_B_C, and a key of the configuration file;\n"
    "a flag wins over a variable, a variable over the file, the file over the preset. TIME is a\n"
    "number and its unit: ms, s, m, h or d. See pchrun(1) and pchrun.json(5).\n";

/* The words of `text` in lines of RIGHT_WIDTH, behind a left side that is `used` wide. */
static void print_wrapped(const char *text, size_t used, FILE *out)
{
    size_t column = 0;
    if (used >= LEFT_WIDTH)
        fprintf(out, "\n");
    fprintf(out, "%*s", (int)(used >= LEFT_WIDTH ? LEFT_WIDTH : LEFT_WIDTH - used), "");
    while (*text) {
        size_t len = strcspn(text, " ");
        if (column > 0 && column + 1 + len > RIGHT_WIDTH) {
            fprintf(out, "\n%*s", LEFT_WIDTH, "");
            column = 0;
        }
        fprintf(out, "%s%.*s", column > 0 ? " " : "", (int)len, text);
        column += len + (column > 0);
        text += len + (text[len] == ' ');
    }
    fprintf(out, "\n");
}

static void print_option(const struct option *option, FILE *out)
{
    char left[160] = "  ", right[256], flag[OPTION_NAME_MAX];
    bool is_bool = option->type == OPTION_BOOL;
    if (option->letter)
        str_addf(left, sizeof left, "-%c, ", option->letter);
    str_addf(left, sizeof left, "--%s%s", is_bool ? "[no-]" : "", option_flag(option->key, flag));
    if (!is_bool)
        str_addf(left, sizeof left, " %s", value_metavar(option));
    str_copy(right, sizeof right, option->help);
    if (option->also)
        str_addf(right, sizeof right, "; also --%s", option->also);
    if (option->fallback && option->fallback[0])
        str_addf(right, sizeof right, " [%s]", option->fallback);
    fprintf(out, "%s", left);
    print_wrapped(right, strlen(left), out);
}

static void print_special(const struct option_special *special, FILE *out)
{
    char left[80] = "  ";
    if (special->letter)
        str_addf(left, sizeof left, "-%c, ", special->letter);
    str_addf(left, sizeof left, "--%s", special->name);
    if (special->metavar)
        str_addf(left, sizeof left, " %s", special->metavar);
    fprintf(out, "%s", left);
    print_wrapped(special->help, strlen(left), out);
}

void show_help(FILE *out)
{
    fputs(head, out);
    fprintf(out, "\nGeneral:\n");
    for (size_t i = 0; i < SPECIAL__COUNT; i++)
        print_special(&option_specials[i], out);
    for (size_t g = 0; g < option_groups_count; g++) {
        fprintf(out, "\n%s:\n", option_groups[g].title);
        for (size_t i = 0; i < options_count; i++)
            if (option_is_in(&options[i], &option_groups[g]))
                print_option(&options[i], out);
    }
    fputs(tail, out);
}
