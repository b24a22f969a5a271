/* SPDX-License-Identifier: Apache-2.0
 *
 * The generator of one program's completions: GENERATOR bash|zsh|fish TEMPLATE. See completions.h.
 * If a table has a text that it cannot write, it prints a line on standard error and exits with 1.
 */
#include "completions.h"

#include "base/str.h"

#include <stdlib.h>
#include <string.h>

enum { LINE_SIZE = 512 };

extern const struct args ARGS;

static void write_program(const struct program *program, FILE *out)
{
    fputs(program->name, out);
}

static void write_function(const struct program *program, FILE *out)
{
    for (const char *p = program->name; *p; p++)
        fputc(*p == '-' ? '_' : *p, out);
}

static const struct part common_parts[] = {
    {"program", write_program}, {"function", write_function}, {NULL, NULL}};

static const struct part *find_part(const struct part *parts, const char *name, size_t len)
{
    for (; parts->name; parts++)
        if (strlen(parts->name) == len && strncmp(parts->name, name, len) == 0)
            return parts;
    return NULL;
}

/* "... @name@ ...": an @ that begins no part stands for itself. */
static void write_line(const struct program *program, const char *line, const struct part *parts,
                       FILE *out)
{
    while (*line) {
        size_t len = *line == '@' ? strcspn(line + 1, "@") : 0;
        const struct part *part = find_part(common_parts, line + 1, len);
        if (!part)
            part = find_part(parts, line + 1, len);
        if (part) {
            part->write(program, out);
            line += len + 2;
        } else {
            fputc(*line++, out);
        }
    }
}

static void write_template(const struct program *program, const char *path,
                           const struct part *parts, FILE *out)
{
    char line[LINE_SIZE];
    FILE *template = fopen(path, "re");
    if (!template)
        completions_fail("cannot read", path);
    while (fgets(line, sizeof line, template))
        write_line(program, line, parts, out);
    if (ferror(template) || fflush(out) != 0)
        completions_fail("cannot copy", path);
    fclose(template);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *shell;
        const struct part *parts;
    } shells[] = {{"bash", bash_parts}, {"zsh", zsh_parts}, {"fish", fish_parts}};
    static struct program program;
    program_describe(&ARGS, &program);
    for (size_t i = 0; argc == 3 && i < ARRAY_LEN(shells); i++)
        if (str_is(argv[1], shells[i].shell)) {
            write_template(&program, argv[2], shells[i].parts, stdout);
            return 0;
        }
    completions_fail("usage", "GENERATOR bash|zsh|fish TEMPLATE");
}
