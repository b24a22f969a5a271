/* SPDX-License-Identifier: Apache-2.0
 * See completions.h: writes the parts of bash.in.
 */
#include "completions.h"

static const char *const kinds[] = {
    [VALUE_NONE] = "none",     [VALUE_TEXT] = "text",       [VALUE_FILE] = "file",
    [VALUE_FOLDER] = "folder", [VALUE_PROGRAM] = "program", [VALUE_WORD] = "word",
    [VALUE_LIST] = "list",
};

/* "--config%s-c": all names of a flag. */
static void write_names(const struct flag *flag, const char *between, FILE *out)
{
    fprintf(out, "--%s", flag->name);
    if (flag->also[0])
        fprintf(out, "%s--%s", between, flag->also);
    if (flag->letter)
        fprintf(out, "%s-%c", between, flag->letter);
}

static void write_values(const struct program *program, FILE *out)
{
    for (size_t i = 0; i < program->nflags; i++) {
        const struct flag *flag = &program->flags[i];
        if (flag->value == VALUE_NONE)
            continue;
        fprintf(out, "    ");
        write_names(flag, " | ", out);
        fprintf(out, ") kind='%s'", kinds[flag->value]);
        if (flag->list[0])
            fprintf(out, " list='%s'", flag->list);
        fprintf(out, " ;;\n");
    }
}

static void write_switches(const struct program *program, FILE *out)
{
    for (size_t i = 0; i < program->nflags; i++)
        if (program->flags[i].value == VALUE_NONE && program->flags[i].letter)
            fputc(program->flags[i].letter, out);
}

static void write_flags(const struct program *program, FILE *out)
{
    for (size_t i = 0; i < program->nflags; i++) {
        const struct flag *flag = &program->flags[i];
        fprintf(out, "    ");
        if (flag->not_with[0]) {
            fprintf(out, "[[ $given =~ ' '(");
            write_joined(flag->not_with, "|", out);
            fprintf(out, ")' ' ]] || ");
        }
        fprintf(out, "flags+=' ");
        write_names(flag, " ", out);
        fprintf(out, "'\n");
    }
}

static void write_words(const struct program *program, FILE *out)
{
    for (size_t i = 0; i < program->nwords; i++)
        fprintf(out, "%s%s", i > 0 ? " " : "", program->words[i].name);
}

static void write_other(const struct program *program, FILE *out)
{
    fprintf(out, "%s", program->is_prefix ? "command" : "");
}

/* Those that are followed by a file. */
static void write_openers(const struct program *program, FILE *out)
{
    const char *between = "";
    for (size_t i = 0; i < program->nwords; i++)
        if (program->words[i].takes_file) {
            fprintf(out, "%s%s", between, program->words[i].name);
            between = "|";
        }
}

const struct part bash_parts[] = {{"values", write_values},
                                  {"switches", write_switches},
                                  {"flags", write_flags},
                                  {"words", write_words},
                                  {"other", write_other},
                                  {"openers", write_openers},
                                  {NULL, NULL}};
