/* SPDX-License-Identifier: Apache-2.0
 * See sbatch.h. Read first: sbatch(1), --signal.
 */
#include "doctor/sbatch.h"

#include "base/str.h"
#include "config/signames.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define LINE   "#SBATCH"
#define OPTION "--signal"

enum { LEAD_S = 60 }; /* Slurm's default, if no time is given */

/* "USR1", or its number */
static int read_signal(const char *name)
{
    struct err err;
    int64_t number;
    int ret = 0;
    if (str_to_i64(name, 1, SIGRTMAX, &number))
        return signame((int)number) ? (int)number : 0;
    return signame_parse(name, &ret, &err) ? ret : 0;
}

static void read_value(const char *value, size_t len, struct sbatch_signal *ret)
{
    char name[sizeof ret->text];
    snprintf(ret->text, sizeof ret->text, "%.*s", (int)len, value);
    const char *colon = strchr(ret->text, ':');
    ret->is_to_shell = colon && memchr(ret->text, 'B', (size_t)(colon - ret->text));
    str_copy(name, sizeof name, colon ? colon + 1 : ret->text);
    char *at = strchr(name, '@');
    ret->lead_s = LEAD_S;
    if (at && !str_to_i64(at + 1, 0, UINT16_MAX, &ret->lead_s))
        ret->lead_s = 0;
    if (at)
        *at = '\0';
    ret->number = read_signal(name);
}

/* The value follows "=" or spaces, perhaps in quotes. */
static void read_options(const char *options, size_t len, struct sbatch_signal *ret)
{
    char text[4096];
    snprintf(text, sizeof text, "%.*s", (int)len, options);
    const char *at = strstr(text, " " OPTION);
    if (!at)
        return;
    at += sizeof " " OPTION - 1;
    if (!strchr("= \t", *at))
        return;
    at += strspn(at, "= \t\"'");
    size_t end = strcspn(at, " \t\"'\r");
    if (end > 0)
        read_value(at, end, ret);
}

/* Returns the length of sbatch's own options, which end before the script. */
static size_t find_arguments(const char *command, const char *script)
{
    size_t len = strlen(script);
    for (const char *at = command; len > 0 && (at = strstr(at, script)); at++)
        if (at > command && strchr(" /", at[-1]) && strchr(" \n", at[len]))
            return (size_t)(at - command);
    return strlen(command);
}

void sbatch_read_command(const char *command, const char *script, struct sbatch_signal *ret)
{
    *ret = (struct sbatch_signal){.where = "sbatch was given"};
    read_options(command, find_arguments(command, script), ret);
}

void sbatch_read_signal(const char *value, struct sbatch_signal *ret)
{
    *ret = (struct sbatch_signal){.where = "SBATCH_SIGNAL has"};
    read_value(value, strlen(value), ret);
}

void sbatch_find_signal(const char *script, struct sbatch_signal *ret)
{
    *ret = (struct sbatch_signal){.where = "the batch script has"};
    for (const char *line = script; *line;) {
        size_t len = strcspn(line, "\n");
        size_t blank = strspn(line, " \t\r");
        if (blank < len && line[0] != '#') /* a command: Slurm reads no further */
            return;
        const char *comment = memmem(line, len, " #", 2);
        if (len > sizeof LINE && str_starts(line, LINE))
            read_options(line, comment ? (size_t)(comment - line) : len, ret);
        line += len + (line[len] == '\n');
    }
}
