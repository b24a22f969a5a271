/* SPDX-License-Identifier: Apache-2.0
 * See options.h: finds rows, and the nearest name to an unknown one.
 */
#include "base/str.h"
#include "config/options.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

bool option_is_in(const struct option *option, const struct option_group *group)
{
    size_t len = strlen(group->name);
    if (len == 0)
        return !strchr(option->key, '.');
    return strncmp(option->key, group->name, len) == 0 && option->key[len] == '.';
}

char *option_flag(const char *key, char text[OPTION_NAME_MAX])
{
    str_copy(text, OPTION_NAME_MAX, key);
    for (char *p = text; *p; p++)
        if (*p == '.' || *p == '_')
            *p = '-';
    return text;
}

char *option_variable(const char *key, char text[OPTION_NAME_MAX])
{
    snprintf(text, OPTION_NAME_MAX, "PCHRUN_%s", key);
    for (char *p = text; *p; p++)
        *p = (char)(*p == '.' || *p == '-' ? '_' : toupper((unsigned char)*p));
    return text;
}

const struct option *option_by_key(const char *key)
{
    for (size_t i = 0; i < options_count; i++)
        if (str_is(options[i].key, key))
            return &options[i];
    return NULL;
}

const struct option *option_by_flag(const char *name, bool *ret_is_no)
{
    char flag[OPTION_NAME_MAX];
    for (size_t i = 0; i < options_count; i++) {
        const struct option *option = &options[i];
        option_flag(option->key, flag);
        bool is_no =
            option->type == OPTION_BOOL && str_starts(name, "no-") && str_is(name + 3, flag);
        if (is_no || str_is(name, flag) || (option->also && str_is(name, option->also))) {
            *ret_is_no = is_no;
            return option;
        }
    }
    return NULL;
}

const struct option *option_by_variable(const char *name)
{
    char variable[OPTION_NAME_MAX];
    for (size_t i = 0; i < options_count; i++) {
        const struct option *option = &options[i];
        if (str_is(name, option_variable(option->key, variable)) ||
            (option->also && str_is(name, option_variable(option->also, variable))))
            return option;
    }
    return NULL;
}

const struct option *option_by_letter(char letter)
{
    for (size_t i = 0; i < options_count; i++)
        if (options[i].letter == letter)
            return &options[i];
    return NULL;
}

const struct option_special *special_by_flag(const char *name)
{
    for (size_t i = 0; i < SPECIAL__COUNT; i++)
        if (str_is(option_specials[i].name, name))
            return &option_specials[i];
    return NULL;
}

const struct option_special *special_by_letter(char letter)
{
    for (size_t i = 0; i < SPECIAL__COUNT; i++)
        if (option_specials[i].letter == letter)
            return &option_specials[i];
    return NULL;
}

/* The nearest name so far. */
struct nearest {
    const char *typed;
    char name[OPTION_NAME_MAX + 8];
    unsigned distance;
};

/* So "port" and "procs.port" are near to "cluster.port". */
static bool has_same_end(const char *typed, const char *name)
{
    const char *point = strrchr(typed, '.');
    const char *end = point ? point + 1 : typed;
    size_t n = strlen(name), m = strlen(end);
    return m > 0 && n > m && strchr(".-_", name[n - m - 1]) && str_is(name + n - m, end);
}

static void consider(struct nearest *nearest, const char *prefix, const char *name)
{
    unsigned distance = str_distance(nearest->typed, name);
    if (distance > 1 && has_same_end(nearest->typed, name))
        distance = 1;
    if (distance >= nearest->distance)
        return;
    nearest->distance = distance;
    snprintf(nearest->name, sizeof nearest->name, "%s%s", prefix, name);
}

/* A typing error is near to the right name. A name far from all others gets no suggestion.
 */
static struct nearest look_near(const char *typed)
{
    return (struct nearest){.typed = typed, .distance = str_near(typed) + 1};
}

bool option_unknown_key(const char *key, struct err *err)
{
    struct nearest nearest = look_near(key);
    for (size_t i = 0; i < options_count; i++)
        consider(&nearest, "", options[i].key);
    for (size_t i = 0; i < option_groups_count; i++)
        if (option_groups[i].name[0])
            consider(&nearest, "", option_groups[i].name);
    if (!nearest.name[0])
        return err_set(err, ERR_USAGE, 0,
                       "unknown key \"%.80s\"; pchrun --print-config shows all that there are",
                       key);
    return err_set(err, ERR_USAGE, 0, "unknown key \"%.80s\"; the nearest is \"%s\"", key,
                   nearest.name);
}

bool option_unknown_flag(const char *name, struct err *err)
{
    char flag[OPTION_NAME_MAX];
    struct nearest nearest = look_near(name);
    for (size_t i = 0; i < options_count; i++) {
        const struct option *option = &options[i];
        consider(&nearest, "--", option_flag(option->key, flag));
        if (option->also)
            consider(&nearest, "--", option->also);
        if (option->type == OPTION_BOOL && str_starts(name, "no-")) {
            char no[OPTION_NAME_MAX + 3];
            snprintf(no, sizeof no, "no-%s", flag);
            consider(&nearest, "--", no);
        }
    }
    for (size_t i = 0; i < SPECIAL__COUNT; i++)
        consider(&nearest, "--", option_specials[i].name);
    if (!nearest.name[0])
        return err_set(err, ERR_USAGE, 0,
                       "unknown flag --%.80s; pchrun --help shows all that there are", name);
    return err_set(err, ERR_USAGE, 0, "unknown flag --%.80s; the nearest is %s", name,
                   nearest.name);
}

bool option_unknown_variable(const char *name, struct err *err)
{
    /* Skips the common prefix, which would make all names look alike. */
    size_t prefix = strlen("PCHRUN_");
    char variable[OPTION_NAME_MAX];
    struct nearest nearest = look_near(name + prefix);
    for (size_t i = 0; i < options_count; i++) {
        consider(&nearest, "PCHRUN_", option_variable(options[i].key, variable) + prefix);
        if (options[i].also)
            consider(&nearest, "PCHRUN_", option_variable(options[i].also, variable) + prefix);
    }
    consider(&nearest, "PCHRUN_", "CONFIG");
    if (!nearest.name[0])
        return err_set(
            err, ERR_USAGE, 0,
            "unknown environment variable %.80s; PCHRUN_* is kept for configuration, and "
            "pchrun --help shows all that there are",
            name);
    return err_set(err, ERR_USAGE, 0,
                   "unknown environment variable %.80s; the nearest is %s (PCHRUN_* is kept for "
                   "configuration)",
                   name, nearest.name);
}
