/* SPDX-License-Identifier: Apache-2.0
 * See options.h: finds rows, and the nearest name to an unknown one.
 */
#include "base/nearest.h"
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

bool option_unknown_key(const char *key, struct err *err)
{
    struct nearest nearest = nearest_to(key);
    for (size_t i = 0; i < options_count; i++)
        nearest_consider(&nearest, "", options[i].key);
    for (size_t i = 0; i < option_groups_count; i++)
        if (option_groups[i].name[0])
            nearest_consider(&nearest, "", option_groups[i].name);
    if (!nearest.name[0])
        return err_set(err, ERR_USAGE, 0,
                       "unknown key \"%.80s\"; pchrun --print-config shows all that there are",
                       key);
    return err_set(err, ERR_USAGE, 0, "unknown key \"%.80s\"; the nearest is \"%s\"", key,
                   nearest.name);
}

bool option_unknown_variable(const char *name, struct err *err)
{
    /* Skips the common prefix, which would make all names look alike. */
    size_t prefix = strlen("PCHRUN_");
    char variable[OPTION_NAME_MAX];
    struct nearest nearest = nearest_to(name + prefix);
    for (size_t i = 0; i < options_count; i++) {
        nearest_consider(&nearest, "PCHRUN_", option_variable(options[i].key, variable) + prefix);
        if (options[i].also)
            nearest_consider(&nearest, "PCHRUN_",
                             option_variable(options[i].also, variable) + prefix);
    }
    nearest_consider(&nearest, "PCHRUN_", "CONFIG");
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
