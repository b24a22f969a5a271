/* SPDX-License-Identifier: Apache-2.0
 * See sources.h.
 */
#include "base/clock.h"
#include "base/duration.h"
#include "base/str.h"
#include "config/origin.h"
#include "config/sources.h"
#include "config/values.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The state of the parser; argv[at] is next. */
struct scan {
    char **argv;
    size_t at, argc;
    struct flags *flags;
};

/* The value of a flag: `attached` ("--x=value", "-xvalue") if there is one, else the next argument.
 * An argument with a dash is the next flag, not a value. */
static bool take_value(struct scan *scan, const char *name, const char *metavar,
                       const char **attached, struct err *err)
{
    if (*attached)
        return true;
    const char *next = scan->at + 1 < scan->argc ? scan->argv[scan->at + 1] : NULL;
    if (!next)
        return err_set(err, ERR_USAGE, 0, "%s needs a value: %s %s", name, name, metavar);
    if (next[0] == '-' && next[1])
        return err_set(err, ERR_USAGE, 0, "%s needs a value: %s %s; %.60s follows, which is a flag",
                       name, name, metavar, next);
    *attached = next;
    scan->at++;
    return true;
}

static void add_value(struct flags *flags, const struct option *option, const char *name,
                      const char *text)
{
    struct flag_value *value = &flags->values[flags->nvalues++];
    value->option = option;
    value->text = text;
    str_copy(value->name, sizeof value->name, name);
}

#define DRILL_MAX_NS (7 * 24 * 3600 * NS_PER_S)

static bool read_drill(const char *text, int64_t *ret, struct err *err)
{
    return duration_parse(text, NS_PER_S, DRILL_MAX_NS, ret, err) || err_wrap(err, "--drill");
}

static bool take_special(struct flags *flags, enum special special, const char *value,
                         struct err *err)
{
    switch (special) {
    case SPECIAL_CONFIG:
        if (flags->config_file)
            return err_set(err, ERR_USAGE, 0,
                           "-c is there twice (%.100s and %.100s); one file only",
                           flags->config_file, value);
        flags->config_file = value;
        return true;
    case SPECIAL_VERBOSE:
        flags->louder++;
        return true;
    case SPECIAL_QUIET:
        flags->louder--;
        return true;
    case SPECIAL_DRILL:
        return read_drill(value, &flags->drill_ns, err);
    case SPECIAL_DOCTOR:
        flags->is_doctor = true;
        return true;
    case SPECIAL_PRINT_OPTIONS:
        if (!str_is(value, option_specials[special].words[0]))
            return err_set(err, ERR_USAGE, 0, "--print-options: \"%.40s\" is not %s", value,
                           option_specials[special].words[0]);
        break;
    case SPECIAL_MAKE_KEY:
        if (!value || !*value)
            return err_set(err, ERR_USAGE, 0, "--make-key: the value is empty; name a file");
        flags->key_file = value;
        break;
    default:
        break;
    }
    flags->show = (int)special;
    return true;
}

static bool special_flag(struct scan *scan, const struct option_special *special, const char *name,
                         const char *value, struct err *err)
{
    if (special->metavar && !take_value(scan, name, special->metavar, &value, err))
        return false;
    if (!special->metavar && value)
        return err_set(err, ERR_USAGE, 0, "%s takes no value", name);
    return take_special(scan->flags, (enum special)(special - option_specials), value, err);
}

/* "--x", "--no-x", "--x value" or "--x=value" */
static bool long_flag(struct scan *scan, const char *arg, struct err *err)
{
    char name[OPTION_NAME_MAX + 4];
    const char *equals = strchr(arg, '=');
    const char *value = equals ? equals + 1 : NULL;
    snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - arg) : (int)strlen(arg), arg);
    const struct option_special *special = special_by_flag(name + 2);
    if (special)
        return special_flag(scan, special, name, value, err);
    bool is_no;
    const struct option *option = option_by_flag(name + 2, &is_no);
    if (!option)
        return option_unknown_flag(name + 2, err);
    if (is_no && value)
        return err_set(err, ERR_USAGE, 0, "%s takes no value", name);
    if (option->type == OPTION_BOOL && !value)
        value = is_no ? "false" : "true";
    if (!take_value(scan, name, value_metavar(option), &value, err))
        return false;
    add_value(scan->flags, option, name, value);
    return true;
}

static bool unknown_letter(char letter, struct err *err)
{
    char all[64] = "";
    for (int c = '!'; c <= '~'; c++)
        if (option_by_letter((char)c) || special_by_letter((char)c))
            str_addf(all, sizeof all, " -%c", c);
    return err_set(err, ERR_USAGE, 0, "unknown flag -%c; the short ones are%s", letter, all);
}

/* "-v", "-vg", "-n4" or "-n 4" */
static bool short_flags(struct scan *scan, const char *arg, struct err *err)
{
    for (const char *p = arg + 1; *p; p++) {
        char name[] = {'-', *p, '\0'};
        const char *rest = p[1] ? p + 1 : NULL;
        const struct option_special *special = special_by_letter(*p);
        const struct option *option = option_by_letter(*p);
        if (!special && !option)
            return unknown_letter(*p, err);
        if (special && !special->metavar) {
            if (!special_flag(scan, special, name, NULL, err))
                return false;
            continue;
        }
        if (special)
            return special_flag(scan, special, name, rest, err);
        if (option->type == OPTION_BOOL) {
            add_value(scan->flags, option, name, "true");
            continue;
        }
        if (!take_value(scan, name, value_metavar(option), &rest, err))
            return false;
        add_value(scan->flags, option, name, rest);
        return true;
    }
    return true;
}

/* The maximum number of values: one per argument, or one per short flag. */
static size_t values_max(char **argv)
{
    size_t n = 1;
    for (; *argv; argv++)
        n += (*argv)[0] == '-' && (*argv)[1] != '-' ? strlen(*argv) : 1;
    return n;
}

bool flags_read(char **argv, struct flags *ret, struct err *err)
{
    size_t argc = 0;
    while (argv[argc])
        argc++;
    *ret = (struct flags){.show = -1, .command = argv + argc};
    ret->values = calloc(values_max(argv), sizeof *ret->values);
    if (!ret->values)
        return err_set(err, ERR_SYSTEM, ENOMEM, "cannot read the command line");
    struct scan scan = {.argv = argv, .at = 1, .argc = argc, .flags = ret};
    for (; scan.at < argc; scan.at++) {
        const char *arg = argv[scan.at];
        if (arg[0] != '-' || arg[1] == '\0')
            break;
        if (str_is(arg, "--")) {
            scan.at++;
            break;
        }
        if (!(arg[1] == '-' ? long_flag : short_flags)(&scan, arg, err))
            return false;
        if (ret->show >= 0 && ret->show != SPECIAL_PRINT_CONFIG)
            return true;
    }
    if (scan.at < argc)
        ret->command = argv + scan.at;
    return true;
}

void flags_free(struct flags *flags)
{
    free(flags->values);
    *flags = (struct flags){0};
}

/* -v and -q change the level that the other sources have set. */
static bool apply_loudness(int louder, struct config *config, struct err *err)
{
    const struct option *option = option_by_key("log.level");
    int max = 0;
    while (option->choices[max + 1])
        max++;
    int level = config->log.level + louder;
    config->log.level = level < 0 ? 0 : level > max ? max : level;
    return louder == 0 ||
           origin_set(config, option, FROM_FLAG, louder > 0 ? "flag -v" : "flag -q", err);
}

bool flags_apply(const struct flags *flags, struct config *config, struct err *err)
{
    for (size_t i = 0; i < flags->nvalues; i++) {
        const struct flag_value *value = &flags->values[i];
        char where[sizeof value->name + 8];
        snprintf(where, sizeof where, "flag %s", value->name);
        if (!origin_set(config, value->option, FROM_FLAG, where, err))
            return false;
        if (!value_from_text(value->option, value->text, NULL, config, err))
            return err_wrap(err, "%s", value->name);
    }
    return apply_loudness(flags->louder, config, err);
}
