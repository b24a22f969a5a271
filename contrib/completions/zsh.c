/* SPDX-License-Identifier: Apache-2.0
 * See completions.h: writes the parts of zsh.in and zsh-command.in. It speaks the language of
 * _arguments and _describe.
 */
#include "completions.h"

#include <string.h>

/* Writes a text within single quotes, and escapes the characters in `special`, which have a meaning
 * for zsh there.
 */
static void write_quoted(const char *text, const char *special, FILE *out)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", out);
        else
            fprintf(out, "%s%c", strchr(special, *text) ? "\\" : "", *text);
    }
}

static void write_action(const struct flag *flag, FILE *out)
{
    fprintf(out, ":");
    write_quoted(flag->metavar, ":", out);
    switch (flag->value) {
    case VALUE_NONE:
    case VALUE_TEXT:
        fprintf(out, ": ");
        break;
    case VALUE_FILE:
        fprintf(out, ":_files");
        break;
    case VALUE_FOLDER:
        fprintf(out, ":_files -/");
        break;
    case VALUE_PROGRAM:
        fprintf(out, ":_command_names -e");
        break;
    case VALUE_WORD:
        fprintf(out, ":(%s)", flag->list);
        break;
    case VALUE_LIST:
        fprintf(out, ":_sequence compadd - %s", flag->list);
        break;
    }
}

/* '(--name -x)--name=[help]:METAVAR:action': one name of a flag, and all that it stands for. */
static void write_name(const struct flag *flag, const char *dashed, const char *assign, FILE *out)
{
    fprintf(out, " '");
    if (flag->is_repeated) {
        fprintf(out, "*");
    } else {
        fprintf(out, "(--%s", flag->name);
        if (flag->also[0])
            fprintf(out, " --%s", flag->also);
        if (flag->letter)
            fprintf(out, " -%c", flag->letter);
        fprintf(out, ")");
    }
    fprintf(out, "%s%s[", dashed, flag->value == VALUE_NONE ? "" : assign);
    write_quoted(flag->help, "[]", out);
    fprintf(out, "]");
    if (flag->value != VALUE_NONE)
        write_action(flag, out);
    fprintf(out, "'");
}

static void write_flag(const struct flag *flag, FILE *out)
{
    char dashed[NAME_MAX_BYTES + 2];
    fprintf(out, "    ");
    if (flag->not_with[0]) {
        fprintf(out, "[[ -n ${words[(r)(");
        write_joined(flag->not_with, "|", out);
        fprintf(out, ")]} ]] || ");
    }
    fprintf(out, "flags+=(");
    snprintf(dashed, sizeof dashed, "--%s", flag->name);
    write_name(flag, dashed, "=", out);
    if (flag->also[0]) {
        snprintf(dashed, sizeof dashed, "--%s", flag->also);
        write_name(flag, dashed, "=", out);
    }
    if (flag->letter) {
        snprintf(dashed, sizeof dashed, "-%c", flag->letter);
        write_name(flag, dashed, "+", out);
    }
    fprintf(out, " )\n");
}

static void write_flags(const struct program *program, FILE *out)
{
    for (size_t i = 0; i < program->nflags; i++)
        write_flag(&program->flags[i], out);
}

static void write_words(const struct program *program, FILE *out)
{
    for (size_t i = 0; i < program->nwords; i++) {
        fprintf(out, " '%s:", program->words[i].name);
        write_quoted(program->words[i].help, "", out);
        fprintf(out, "'");
    }
}

/* A file may follow some words. */
static void write_file(const struct program *program, FILE *out)
{
    const char *before = " '2:file:{ [[ -n ${words[(r)(";
    for (size_t i = 0; i < program->nwords; i++)
        if (program->words[i].takes_file) {
            fprintf(out, "%s%s", before, program->words[i].name);
            before = "|";
        }
    if (*before == '|')
        fprintf(out, ")]} ]] && _files }'");
}

const struct part zsh_parts[] = {
    {"flags", write_flags}, {"words", write_words}, {"file", write_file}, {NULL, NULL}};
